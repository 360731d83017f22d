"""docs/measured.md from benchmarks/records: tables of measurements, each with its date and what makes it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from docs.make.lists import table

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
"""A file for each section, in the order of their names: `title`, `date`, `command`, `about`, and `tables`, each with
`columns`, `rows` and, if there is something to say, `notes`."""
INTRODUCTION = """# Measurements

Written by `python -m docs.make` from `benchmarks/records`; the pages that explain the numbers link here. Machine: two
cores of an AMD EPYC, Python 3.11, HiGHS 1.15.1, OR-Tools 9.15, Gurobi 13.0.3, one thread a solve. Other work ran at the
same time unless said otherwise, so seconds give the order of magnitude only. Values are the referee's; a bound is
proved, and one that is called certified was recomputed by the checker. A gap is (value - bound) / bound. `KVBOUND_DATA`
must name the folder of the traces where real requests are used ([data.md](data.md)). Nothing was measured on a GPU yet.
Other tables: [the papers' claims](fidelity.md), [worst ratios](worst.md), [verdicts on hypotheses](verdicts.md).
"""


def measured_page() -> str:
    """Return docs/measured.md."""
    records = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.toml"))]
    return "\n".join([INTRODUCTION, *(line for record in records for line in lines(record))])


def lines(record: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a section. ValueError for a record without date or command."""
    if not isinstance(record.get("date"), date) or not record.get("command"):
        raise ValueError(f"{record['title']}: a measurement has a date and the command that makes it")
    yield from (f"## {record['title']}", "", f"`{record['command']}`, {record['date']}. {record['about']}")
    for part in record["tables"]:
        yield from (*table(part["columns"], part["rows"]), "")
        yield from [part["notes"]] if "notes" in part else []
