"""The page of the papers' claims: how it is made, and that it is there for every paper."""

import importlib
import re
from pathlib import Path

import pytest

from benchmarks.fidelity import Claim
from benchmarks.fidelity import __main__ as fidelity

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"


def claim(paper: str, where: str, holds: bool, why: str = "") -> Claim:
    return Claim(paper, where, "is faster", theirs="2 times", ours="3 times", holds=holds, setting="drawn", why=why)


def test_a_page_has_a_table_for_each_paper_and_says_what_does_not_hold() -> None:
    text = fidelity.page(
        [claim("A", "Section 1", True), claim("B", "Section 2", False, "Too small."), claim("A", "Section 3", True)]
    )
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == ["Batch for batch", "A", "B"]
    assert "| A: Section 1 | is faster | 2 times | 3 times | yes |" in text
    assert "| A: Section 2 | is faster | 2 times | 3 times | **no** (1) |" in text
    assert "\n1. Too small.\n" in text
    assert "\n* A: Drawn.\n" in text


def test_every_paper_has_its_table_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = "\n".join(re.findall("^## (.*)$", text, flags=re.MULTILINE)).lower()
    assert fidelity.papers() == ["augserve", "infercept", "infermax", "mars", "slai"]
    for paper in fidelity.papers():
        assert paper in headings
        assert callable(importlib.import_module(f"benchmarks.fidelity.{paper}").claims)


def test_every_row_that_does_not_hold_says_why() -> None:
    """A row with **no** has the number of a reason below its table."""
    text = PAGE.read_text(encoding="utf-8")
    for part in text.split("\n## ")[1:]:
        numbers = re.findall(r"\| \*\*no\*\*(?: \((\d+)\))? \|$", part, flags=re.MULTILINE)
        assert set(numbers) <= set(re.findall(r"^(\d+)\. ", part, flags=re.MULTILINE)), part.partition("\n")[0]


def test_an_unknown_paper_is_refused() -> None:
    with pytest.raises(SystemExit, match="no claims of nobody; there are augserve, infercept, infermax, mars, slai"):
        fidelity.main(["nobody"])
