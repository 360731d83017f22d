"""docs/trust.md names the files that a proof of each kind rests on: all that its first file imports, and no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
SHARED = set(re.findall(r"`(kvcore/[\w/]+\.py)`", PAGE.partition("## What all share")[2].partition("\n## ")[0]))
LISTS = {"kvcore/__init__.py", "kvcore/certificates/__init__.py"}
FILE = re.compile(r"`([\w/]+(?:\.py|/))`")
ROWS: list[tuple[str, list[str]]] = []
for row in PAGE.partition("## What all share")[0].splitlines():
    if FILE.search(row) and row[0] == "|":
        claim, files = row.split("|")[1:3]
        above = [
            file
            for name in re.findall(r"\*(.+?)\*", files)
            for one, all_ in ROWS
            if f"`{name}`" in one
            for file in all_
        ]
        ROWS.append((claim.strip(), FILE.findall(files) + above))


def imports(file: str) -> Iterator[str]:
    """Yield the files of the project that a file imports, but the packages that only list all there is."""
    for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.replace(".", "/")
            names = [f"{module}.py", f"{module}/__init__.py", *(f"{module}/{name.name}.py" for name in node.names)]
            yield from (name for name in names if (ROOT / name).is_file() and name not in LISTS)


def rests_on(file: str) -> set[str]:
    """Return the file and all that it imports, directly or not, besides what all share."""
    found: set[str] = set()
    left = [file]
    while left:
        name = left.pop()
        if name not in found | SHARED:
            found.add(name)
            left += imports(name)
    return found


def test_every_kind_of_proof_has_a_row() -> None:
    files = (ROOT / "kvcore" / "certificates").glob("*.py")
    kinds = {kind for path in files for kind in re.findall(r'kind: Literal\["([\w-]+)"', path.read_text())}
    named = {kind for claim, _ in ROWS if claim.startswith("certificate") for kind in re.findall("`(.+?)`", claim)}
    assert kinds == named
    assert len(SHARED) == 12


@pytest.mark.parametrize(("claim", "files"), ROWS, ids=[claim for claim, _ in ROWS])
def test_a_proof_rests_on_the_files_that_the_page_names(claim: str, files: list[str]) -> None:
    found = rests_on(files[0])
    covered = {
        name: {one for one in found if one == name or (name.endswith("/") and one.startswith(name))} for name in files
    }
    assert found - set().union(*covered.values()) == set(), f"{claim}: the page does not name these"
    assert [name for name, ones in covered.items() if not ones] == [], f"{claim}: the page names these for nothing"
