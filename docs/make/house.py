"""The picture of the packages, from the roof down to the ground: which imports which, by the code itself."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from textwrap import shorten

from kvbound.plots import render
from kvbound.plots.style import new_axes

ROOT = Path(__file__).parents[2]
HEIGHT, WIDE = 0.42, 9.0
"""Inches of a row, and of the picture."""


@cache
def layers() -> tuple[tuple[str, ...], ...]:
    """Return the packages from the roof down, as the import contract of pyproject.toml has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    return tuple(tuple(layer.split(" | ")) for layer in contracts[0]["layers"])


def imported_by(package: str) -> set[str]:
    """Return the other packages that a package imports."""
    known, found = {name for layer in layers() for name in layer}, set()
    for file in (ROOT / package).rglob("*.py*"):
        if file.suffix in (".py", ".pyi"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
                found |= {name.partition(".")[0] for name in names} & known - {package}
    return found


def what_it_is(package: str) -> str:
    """Return the first sentence of its docstring."""
    said = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0].partition(". ")[0].rstrip(".")


def draw_house() -> bytes:
    """Every package in a row; an arc on the left leads from a package down to one that it imports."""
    rows = [package for layer in layers() for package in layer]
    ax = new_axes(WIDE, HEIGHT * len(rows))
    ax.set_xlim(-2.2, 12)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.axis("off")
    for y, package in enumerate(rows):
        ax.text(0.15, y, package, weight="bold", va="center")
        ax.text(3.4, y, shorten(what_it_is(package), 92, placeholder=" .."), va="center", size="x-small")
        for other in sorted(imported_by(package)):
            reach = rows.index(other) - y
            arc = {"arrowstyle": "->", "connectionstyle": f"arc3,rad={0.5 if reach > 1 else 0.9}", "lw": 0.6,
                   "color": f"C{y % 10}"}  # fmt: skip
            ax.annotate("", xy=(0, rows.index(other) - 0.15), xytext=(0, y + 0.15), arrowprops=arc)
    return render(ax.figure)
