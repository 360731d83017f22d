"""The page of the shipped hypotheses, from the records of their verdicts."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from jinja2 import Environment

RECORDS = Path(__file__).parent / "records.json"  # what came of each shipped hypothesis when it was last checked
PAGE = Path(__file__).parents[1] / "docs" / "verdicts.md"
TEMPLATE = Path(__file__).with_name("verdicts.md.jinja")
VARYING = ("seconds", "versions", "files")  # keys of a verdict that are not kept


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page: names by verdict, and each in detail."""
    made = Environment(trim_blocks=True, keep_trailing_newline=True)
    made.filters["fraction"] = lambda text: float(Fraction(text))
    return made.from_string(TEMPLATE.read_text(encoding="utf-8")).render(rows=rows)


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a record keeps of a verdict: what other runs repeat."""
    return {key: value for key, value in row.items() if key not in VARYING}


def read_records() -> list[dict[str, Any]]:
    """Return the records of the shipped hypotheses."""
    rows: list[dict[str, Any]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return rows
