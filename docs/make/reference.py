"""docs/reference.md from the code: one row for each constraint, a method or function whose docstring is the inequality.

The code is read, not imported: neither Pyomo nor OR-Tools is needed.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docs.make.pages import PAGES


class Constraint(NamedTuple):
    """A constraint: the file and the line of its function, its class and its name, its docstring in one line."""

    file: str
    line: int
    owner: str
    name: str
    text: str

    @property
    def rules(self) -> list[str]:
        """The rules of semantics.md that the docstring names."""
        return list(dict.fromkeys(re.findall(r"\bR(?:1[01]|[1-9])\b", self.text)))

    @property
    def equations(self) -> list[str]:
        """The equations of INFERMAX that the docstring names, or the one that has no number there."""
        return re.findall(r"\([1-5]\)", self.text) or ["no number"] * ("INFERMAX" in self.text)


class ConstraintClass(NamedTuple):
    """A class with constraints: its file in formulations/, its name ("": the functions of the file), a heading."""

    file: str
    owner: str
    heading: str


PROGRAMS: dict[str, tuple[ConstraintClass, ...]] = {
    "batch-bigm": (
        ConstraintClass("big_m.py", "BigM", "Progress, work, batches, moves, objectives"),
        ConstraintClass("big_m_clocks.py", "Slots", "The clock of slots"),
        ConstraintClass("big_m_clocks.py", "Starts", "The clock of start times"),
        ConstraintClass("big_m_cost.py", "BatchCost", "Cost of a batch"),
        ConstraintClass("big_m_contents.py", "Contents", "Contents that requests share"),
        ConstraintClass("tightening/tokens.py", "", "Tightening: tokens"),
        ConstraintClass("tightening/memory.py", "", "Tightening: memory and order"),
        ConstraintClass("tightening/times.py", "", "Tightening: times"),
        ConstraintClass("tightening/cost.py", "", "Tightening: cost"),
    ),
    "cp-sat": (ConstraintClass("cp_sat.py", "CpSat", "Rule by rule"),),
}


def reference_page(root: Path) -> str:
    """Return docs/reference.md for the repository at `root`."""
    return "\n".join([PAGES["reference"]["head"], *(line for name in PROGRAMS for line in program_lines(root, name))])


def program_lines(root: Path, name: str) -> Iterator[str]:
    """Yield the lines of one formulation: a table for each class."""
    yield from (f"## {PAGES['reference'][name]}", "")
    for part in PROGRAMS[name]:
        if len(PROGRAMS[name]) > 1:
            yield from (f"### {part.heading}", "")
        yield from ("| constraint | inequality | rules | INFERMAX |", "|---|---|---|---|")
        yield from map(row, constraints(root, part))
        yield ""


def row(found: Constraint) -> str:
    """Return a row of the table."""
    link = f"[`{found.name}`](../{found.file}#L{found.line})"
    return f"| {link} | {escaped(found.text)} | {', '.join(found.rules)} | {', '.join(found.equations)} |"


def escaped(text: str) -> str:
    """Write a docstring so that Markdown shows it as it is (what stands in backquotes is code already)."""
    return re.sub(r"([*|\[\]])", r"\\\1", text)


def constraints(root: Path, part: ConstraintClass) -> list[Constraint]:
    """Return the constraints of a class in the order of its model. ValueError for a method without docstring."""
    file = f"formulations/{part.file}"
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == part.owner]
    body = classes[0].body if part.owner else tree.body
    methods = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    rows = [name for name, node in methods.items() if isinstance(node.returns, ast.Name) and node.returns.id == "Rows"]
    names = [name for name in (model_parts(methods) if part.owner else rows) if name in methods]
    found = []
    for name in names:
        text = ast.get_docstring(methods[name])
        if text is None:
            owner = f"{part.owner}." if part.owner else ""
            raise ValueError(f"{file}: {owner}{name} is a constraint and has no docstring")
        found.append(Constraint(file, methods[name].lineno, part.owner, name, " ".join(text.split())))
    return found


def model_parts(methods: dict[str, ast.FunctionDef]) -> list[str]:
    """Return the constraints by name: those that `constraints` lists, or that `__init__` calls as statements."""
    if "constraints" in methods:
        nodes = [node for node in ast.walk(methods["constraints"]) if isinstance(node, ast.Attribute)]
    else:
        calls = [node.value for node in ast.walk(methods["__init__"]) if isinstance(node, ast.Expr)]
        nodes = [call.func for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)]
    mine = [node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"]
    return [node.attr for node in sorted(mine, key=lambda node: (node.lineno, node.col_offset))]
