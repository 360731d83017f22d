"""Data flows down: kvbound <- costmodels <- heuristics, formulations, bounds <- solvers <- hunting, gpu_validation.

Only the command line sees everything, and the referee sees nothing but the nouns.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_packaging import PACKAGES

ROOT = Path(__file__).parents[1]
BELOW = {
    "kvbound": (),
    "costmodels": ("kvbound",),
    "importers": ("kvbound", "costmodels"),
    "heuristics": ("kvbound", "costmodels"),
    "formulations": ("kvbound", "costmodels"),
    "bounds": ("kvbound", "costmodels"),
    "solvers": ("kvbound", "costmodels", "heuristics", "formulations", "bounds"),
    "hunting": ("kvbound", "costmodels", "heuristics", "formulations", "bounds", "solvers"),
    "gpu_validation": ("kvbound", "costmodels", "heuristics", "formulations", "bounds", "solvers"),
    "studies": ("kvbound", "costmodels", "heuristics", "formulations", "bounds", "solvers"),
    "hypotheses": ("kvbound", "costmodels", "heuristics", "formulations", "bounds", "solvers"),
}
"""What each package may import, besides itself."""

SEES_EVERYTHING = ("kvbound/cli/", "kvbound/__main__.py")
INSIDE_FUNCTIONS = {
    "workloads/builtin.py": ("costmodels", "importers"),
    "workloads/generators/__init__.py": ("costmodels",),
}
"""What a file may import where it is used, though not on loading: built-in instances need a cost model.

Generated ones need a machine.
"""

NOUNS = {
    "kvcore.cost", "kvcore.errors", "kvcore.instance", "kvcore.schedule", "kvcore.state", "kvcore.trace",
}  # fmt: skip
HEAVY = ("torch", "triton", "gurobipy", "ortools", "highspy", "matplotlib", "distributed", "pyarrow")


class Import(NamedTuple):
    """An imported module (for `from a import b` both `a` and `a.b`), its line, and whether it stands in a function."""

    name: str
    line: int
    inside: bool


def imports(source: str, package: str) -> Iterator[Import]:
    """Yield every import of a module that lies in `package`, those in functions and under TYPE_CHECKING included."""
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while todo:
        node, inside = todo.pop()
        for name in imported_names(node, package):
            yield Import(name, node.lineno, inside)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        todo += [(child, inside) for child in ast.iter_child_nodes(node)]


def imported_names(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*parents, *([node.module] if node.module else [])])
        return [module, *(f"{module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
    return []


def violations(root: Path, packages: tuple[str, ...]) -> list[str]:
    """Return every line whose import the rule forbids, as `file:line: package imports module`."""
    found: dict[str, str] = {}
    for file in sorted(file for package in packages for file in (root / package).rglob("*.py")):
        path = file.relative_to(root).as_posix()
        if path.startswith(SEES_EVERYTHING):
            continue
        package = path.partition("/")[0]
        for name, line, inside in imports(file.read_text(encoding="utf-8"), path.rpartition("/")[0].replace("/", ".")):
            top = name.partition(".")[0]
            lazily = inside and top in INSIDE_FUNCTIONS.get(path, ())
            upwards = top in BELOW and top not in (package, *BELOW[package]) and not lazily
            if upwards or f"{name}.".startswith("kvbound.cli."):
                found.setdefault(f"{path}:{line}", f"{path}:{line}: {package} imports {name}")
    return list(found.values())


def test_every_import_points_down() -> None:
    assert violations(ROOT, PACKAGES) == []


def test_every_package_has_its_place() -> None:
    assert set(PACKAGES) <= set(BELOW)


@pytest.mark.parametrize(
    ("path", "source", "forbidden"),
    [
        ("kvbound/a.py", "import heuristics", "1: kvbound imports heuristics"),
        ("kvbound/a.py", "def f():\n    import solvers.ways", "2: kvbound imports solvers.ways"),
        ("workloads/builtin.py", "import costmodels", "1: kvbound imports costmodels"),
        ("workloads/builtin.py", "def f():\n    import costmodels", None),
        ("kvbound/a.py", "from kvbound import cli", "1: kvbound imports kvbound.cli"),
        ("kvbound/a.py", "from .cli.app import app", "1: kvbound imports kvbound.cli.app"),
        ("kvbound/cli/a.py", "import solvers", None),
        ("costmodels/a.py", "from kvcore.cost import Cost", None),
        ("heuristics/a.py", "if TYPE_CHECKING:\n    import formulations", "2: heuristics imports formulations"),
        ("formulations/a.py", "importlib.import_module('solvers.highs')", "1: formulations imports solvers.highs"),
        ("solvers/a.py", "import heuristics, formulations, pyomo.environ", None),
    ],
)
def test_the_check_finds_what_it_should(path: str, source: str, forbidden: str | None, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(source)
    found = violations(tmp_path, (path.partition("/")[0],))
    assert found == ([] if forbidden is None else [f"{path}:{forbidden}"])


def reached_from(module: str) -> tuple[set[str], set[str]]:
    """Return the modules of kvbound that importing one may load, and the top-level packages from elsewhere."""
    ours, others, todo = set[str](), set[str](), [module]
    while todo:
        name = todo.pop()
        place = ROOT / name.replace(".", "/")
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if not name.startswith("kvbound."):
            others.add(name.partition(".")[0])
        elif file.exists() and name not in ours:
            ours.add(name)
            todo += [found.name for found in imports(file.read_text(encoding="utf-8"), "kvbound")]
    return ours, others - set(sys.stdlib_module_names)


def test_the_referee_rests_on_the_nouns_alone() -> None:
    ours, others = reached_from("kvcore.referee")
    assert ours == NOUNS | {"kvcore.referee"}
    assert others == {"pydantic"}


@pytest.mark.parametrize("package", ["kvbound", "solvers", "studies"])
def test_importing_loads_nothing_heavy(package: str) -> None:
    code = f"import json, sys, {package}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = json.loads(done.stdout)
    assert package in loaded
    assert [name for name in HEAVY if name in loaded] == []
