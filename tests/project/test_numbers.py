"""Numbers at the top of modules are few: limits and prices of work are in `kvcore/certificates/budget.py`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 30
"""May only shrink."""


def numbers(tree):
    """Return the names in capitals that are numbers."""
    found = []
    for line in tree.body:
        if isinstance(line, ast.Assign) and not any(isinstance(each, ast.Call) for each in ast.walk(line.value)):
            names = [each.id for target in line.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            values = line.value.elts if isinstance(line.value, ast.Tuple) else [line.value]
            found += [name for name, value in zip(names, values, strict=False) if name.isupper() and is_number(value)]
    return found


def is_number(value):
    """Whether an expression is made of numbers alone."""
    parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(each, parts) and not isinstance(getattr(each, "value", 0), str) for each in ast.walk(value))


def test_numbers_are_found():
    assert numbers(ast.parse("A, B = 1, 2**3\nC = -1\nD = 'x'\ne = 1\nF = G\nH = [1]")) == ["A", "B", "C"]


def test_numbers_at_the_top_of_modules_are_few():
    files = [file for folder in ("solvers", "bounds", "kvcore/certificates") for file in (ROOT / folder).rglob("*.py")]
    found = [
        f"{file.relative_to(ROOT)}: {name}" for file in sorted(files) for name in numbers(ast.parse(file.read_text()))
    ]
    assert len(found) <= MOST, found
