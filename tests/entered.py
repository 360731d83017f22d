"""`python -m tests.entered`: which functions of the packages no test of `make test` enters.

It runs those tests with coverage.py, in worker processes and copies of their loader too, and compares the functions of
which no line ran with `tests/data/never_entered.txt`: a name a line, and why after `#`. It fails where one is missing
there, and where one of them is entered by now: the list may only shrink, which `--shrink` does. `--found FOLDER` takes
the data of an earlier run.

Not seen, and so not asked for: what numba compiles, kernels of Triton, and `gpu_validation`, which has tests of its
own. Of a worker that is killed nothing is kept, so `tests.support.measured` ends those of tests more gently.
"""

import argparse
import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "data" / "never_entered.txt"
JOINED = "library/checker/"  # tests enter the one file that is made of it
COMPILED = {"compiled", "allocating", "inlined"}
"""The decorators of `kvcore.compiled`."""
TESTS = ("-n", "auto", "--dist", "loadfile", "-m", "not slow", "--ignore", "tests/gpu_validation")


def packages() -> list[str]:
    """Return the packages that are measured: all that are shipped, but the engine."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return [name for name in tool["hatch"]["build"]["targets"]["wheel"]["packages"] if name != "gpu_validation"]


def functions(source: str) -> Iterator[tuple[str, set[int]]]:
    """Yield each function of a file that has a body, but what numba compiles: its name, and the lines of its body."""

    def visit(node: ast.AST, path: tuple[str, ...]) -> Iterator[tuple[str, set[int]]]:
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from visit(inner, path)
                continue
            here = (*path, inner.name)
            if isinstance(inner, ast.ClassDef):
                yield from visit(inner, here)
            elif not COMPILED & {ast.unparse(each).partition("(")[0] for each in inner.decorator_list}:
                body = [each for each in inner.body if not _says_nothing(each)]
                if body:
                    yield ".".join(here), {n for each in body for n in range(each.lineno, (each.end_lineno or 0) + 1)}
                yield from visit(inner, here)

    return visit(ast.parse(source), ())


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether it is a docstring or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def never_entered(data: CoverageData) -> set[str]:
    """Return the functions of which no line ran."""
    found = set()
    for package in packages():
        for file in sorted((ROOT / package).rglob("*.py")):
            ran = set(data.lines(str(file)) or ())
            name = file.relative_to(ROOT).as_posix()
            if name.startswith(JOINED):
                continue
            for function, lines in functions(file.read_text(encoding="utf-8")):
                if not lines & ran:
                    found.add(f"{name}:{function}")
    return found


def measure(folder: Path) -> None:
    """Run the tests; what ran is in files of the folder then."""
    folders = ",".join(str(ROOT / package) for package in packages())  # not all files are imported by their names
    command = [sys.executable, "-m", "coverage", "run", f"--source={folders}", "-m", "pytest", *TESTS]
    environment = {**os.environ, "COVERAGE_FILE": str(folder / "coverage"), "COVERAGE_CORE": "sysmon"}
    if sys.version_info < (3, 12):
        del environment["COVERAGE_CORE"]
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit("the tests fail")


def combined(folder: Path) -> CoverageData:
    """Return what ran in any process."""
    data = CoverageData(no_disk=True)
    for file in folder.glob("coverage.*"):
        one = CoverageData(str(file))
        one.read()
        data.update(one)
    return data


def complaints(found: set[str], listed: set[str]) -> list[str]:
    """Say what the list lacks, and what it has too many."""
    return [f"no test of make test enters {name}" for name in sorted(found - listed)] + [
        f"{name} is entered, or gone: take it out of {LIST.relative_to(ROOT)}" for name in sorted(listed - found)
    ]


def listed() -> dict[str, str]:
    """Return the lines of the list by the functions that they name."""
    return {line.partition("#")[0].strip(): line for line in LIST.read_text(encoding="utf-8").splitlines()}


def main() -> None:
    """Measure, compare and end with code 1 where the list is another one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--found", type=Path, metavar="FOLDER", help="with files coverage.*, in place of a run")
    parser.add_argument("--shrink", action="store_true", help="take what is entered, or gone, out of the list")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        if given.found is None:
            measure(Path(folder))
        found = never_entered(combined(given.found or Path(folder)))
    if given.shrink:
        lines = [line for name, line in listed().items() if name in found]
        LIST.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    said = complaints(found, set(listed()))
    print("\n".join(said) or f"all functions are entered but {len(found)}, as listed")
    sys.exit(bool(said))


if __name__ == "__main__":
    main()
