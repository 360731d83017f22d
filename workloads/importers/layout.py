"""Which column of a trace says what: `--map arrival=timestamp:ms,prompt=input_length,decode=output_length`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from kvcore.csv_table import Row
from kvcore.errors import BadInput
from workloads.importers.selection import iso_seconds

KEYS = ("arrival", "prompt", "decode", "max_new", "call", "returns", "latency", "session", "weight", "id")
TIMES = ("arrival", "call", "latency")
UNITS = {"s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6), "ns": Fraction(1, 10**9)}
SHARED = re.compile(r"prefix|hash_?ids|block_?hash|cached?_?(read_)?(input_)?tokens", re.IGNORECASE)
"""What a column is called that says which KV was, or could have been, in a cache."""


class Column(NamedTuple):
    """The name of a column, and the unit of its times (None: none was given)."""

    name: str
    unit: Fraction | None = None


@dataclass(frozen=True)
class TraceLayout:
    """What the columns of a trace mean; what a preset needs besides a map is in the other fields.

    `label` names the session of a row from the columns `others`, `order` is a column that numbers the rows of a session
    0, 1, ..; with `call_before` a call stands in the row after it; `least_returns` may be below 0, which counts as 0.
    """

    columns: Mapping[str, Column]
    label: Callable[[Row], str] | None = None
    others: tuple[str, ...] = ()
    order: str | None = None
    call_before: bool = False
    least_returns: int = 0

    @property
    def sessions(self) -> bool:
        """Whether rows may belong to sessions."""
        return self.label is not None or "session" in self.columns

    @property
    def names(self) -> list[str]:
        """All columns that are read, each once."""
        order = [self.order] if self.order else []
        return list(dict.fromkeys([*self.others, *order, *(column.name for column in self.columns.values())]))

    @property
    def needed(self) -> list[str]:
        """The columns that the first object of a JSONL file must have."""
        keys = ("arrival", "prompt", "decode", "weight", "id")
        return [self.columns[key].name for key in keys if key in self.columns]

    def session(self, row: Row) -> str:
        """Return the session of a row (empty: none)."""
        if self.label is not None:
            return self.label(row)
        column = self.columns.get("session")
        return row.label(column.name) if column and row.text(column.name) else ""

    def seconds(self, row: Row, key: str) -> Fraction | None:
        """Return the seconds in the column of a key, since 1970 if it is a time of day (None: no column, or empty)."""
        if key not in self.columns:
            return None
        name, unit = self.columns[key]
        if key == "arrival" and unit is None and not row.text(name).replace(".", "", 1).isdecimal():
            return _time(row, name)
        if key != "arrival" and not row.text(name):
            return None
        seconds = row.seconds(name)
        return seconds if unit is None or unit == 1 else seconds * unit


def read_map(text: str) -> TraceLayout:
    """Return the layout that `KEY=COLUMN[:UNIT],..` says; a column's name may hold anything but `,KEY=`.

    Raises:
        BadInput: a part is no such thing, or keys are missing or mean nothing.
    """
    columns: dict[str, Column] = {}
    for part in re.split(r",\s*(?=\w+=)", text.strip()):
        key, _, name = part.partition("=")
        if key not in KEYS or not name.strip():
            raise BadInput(f"--map: {part!r} is none of {', '.join(f'{key}=COLUMN' for key in KEYS)}")
        if key in columns:
            raise BadInput(f"--map: {key} stands twice")
        start, _, unit = name.rpartition(":")
        if start and unit in UNITS and key not in TIMES:
            raise BadInput(f"--map: {part!r}: only {', '.join(TIMES)} have a unit")
        with_unit = bool(start) and unit in UNITS
        columns[key] = Column(start.strip(), UNITS[unit]) if with_unit else Column(name.strip())
    for key in ("prompt", "decode"):
        if key not in columns:
            raise BadInput(f"--map: {key} is missing; write {key}=COLUMN")
    for key in ("call", "returns", "latency"):
        if key in columns and "session" not in columns:
            raise BadInput(f"--map: {key} means nothing without session, whose rows have a call between them")
    if "session" in columns and not {"arrival", "call"} & columns.keys():
        raise BadInput("--map: session needs arrival or call, from which the time between its rows is known")
    return TraceLayout(columns)


def _time(row: Row, name: str) -> Fraction:
    try:
        seconds = iso_seconds(row.text(name))
    except ValueError:
        row.refuse(name, "a date and a time of day")
    if seconds is None:
        return _number(row, name)
    return seconds


def _number(row: Row, name: str) -> Fraction:
    """Return a number that is not just digits, such as 1e3."""
    try:
        return row.seconds(name)
    except BadInput:
        row.refuse(name, "a time such as 2023-11-16 18:15:46.6805900, or seconds")
