"""Reading a CSV file strictly and exactly; whatever is wrong with it is said with its line and column."""

from __future__ import annotations

import csv
import io
import math
import re
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from kvcore.errors import BadInput
from kvcore.files import first_error, read_text
from kvcore.instance import LIMIT, Instance, Machine, Request

MachineFor = Callable[[Sequence[Request]], Machine]
"""Chooses the machine once the requests are known."""

WHOLE = re.compile(r"-?[0-9]{1,15}")
DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, and where it stands in its file."""

    table: Table
    place: int

    @property
    def source(self) -> str:
        """The file."""
        return self.table.source

    @property
    def line(self) -> int:
        """The line of the file."""
        return self.table.lines[self.place]

    def text(self, column: str) -> str:
        """Return the field as it stands (without white space around it)."""
        return self.table.columns[column][self.place].strip()

    def label(self, column: str) -> str:
        """Return the field as a name of 1 to 90 printable characters."""
        if not (1 <= len(self.text(column)) <= 90 and self.text(column).isprintable()):
            self.refuse(column, "a name of 1 to 90 printable characters")
        return self.text(column)

    def whole(self, column: str, least: int) -> int:
        """Return the field as an integer of at least `least`."""
        text = self.text(column)
        if not WHOLE.fullmatch(text):
            self.refuse(column, "a whole number")
        if int(text) < least:
            self.refuse(column, f"at least {least}")
        return int(text)

    def seconds(self, column: str) -> Fraction:
        """Return the field, a decimal number of at least 0, as the exact fraction that it stands for."""
        text = self.text(column)
        if not DECIMAL.fullmatch(text):
            self.refuse(column, "a decimal number")
        if text.startswith("-") and Fraction(text):
            self.refuse(column, "at least 0")
        return Fraction(text)

    def ticks(self, column: str, seconds: Fraction, tick: Fraction) -> int:
        """Return `seconds`, read from `column`, in ticks of `tick` seconds, rounded up."""
        ticks = math.ceil(seconds / tick)
        if ticks > LIMIT:
            self.refuse(column, f"at most {LIMIT} ticks of {tick} s")
        return ticks

    def refuse(self, column: str, wanted: str) -> NoReturn:
        """Raise BadInput: the field is not what it has to be."""
        value = self.table.columns[column][self.place]
        shown = repr(value if len(value) <= 40 else value[:38] + "..") if value else "empty"
        raise BadInput(f"{self.source}, line {self.line}: {column} must be {wanted}, it is {shown}")


@dataclass(frozen=True)
class Table:
    """The columns of a file that were asked for, as text; a row is made when it is looked at."""

    source: str
    columns: dict[str, list[str]]
    lines: array[int]
    """The line of the file in which each row ends."""

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Row]:
        return (Row(self, place) for place in range(len(self)))

    def add(self, line: int, fields: Iterable[str]) -> None:
        """Add a row."""
        self.lines.append(line)
        for column, field in zip(self.columns.values(), fields, strict=True):
            column.append(field)


def read_rows(path: str | Path, columns: Sequence[str]) -> Table:
    """Return the rows of a CSV file whose first line names (at least) these columns. BadInput if it is not one."""
    source = str(path)
    reader = csv.reader(io.StringIO(read_text(path).removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(source, header, columns)
        rows = Table(source, {name: [] for name in columns}, array("q"))
        places = [header.index(name) for name in rows.columns]
        for fields in _rows(source, header, reader):
            rows.add(reader.line_num, (fields[place] for place in places))
    except csv.Error as error:
        raise BadInput(f"{source}, line {reader.line_num}: not a CSV file: {error}") from None
    if not rows:
        raise BadInput(f"{source}: it has no rows below its header")
    return rows


def _check_header(source: str, header: Sequence[str], columns: Sequence[str]) -> None:
    if not header:
        raise BadInput(f"{source}: it is empty; the first line must name the columns {', '.join(columns)}")
    for column in columns:
        if header.count(column) != 1:
            what = "no column" if column not in header else "more than one column"
            raise BadInput(f"{source}, line 1: {what} {column}; the columns needed are {', '.join(columns)}")


def _rows(source: str, header: list[str], reader: Any) -> Iterator[list[str]]:
    for fields in reader:
        if not any(field.strip() for field in fields):
            continue
        if len(fields) != len(header):
            raise BadInput(
                f"{source}, line {reader.line_num}: {len(fields)} fields, the header names {len(header)} columns"
            )
        yield fields


def grouped(rows: Iterable[Row], key: Callable[[Row], Hashable], order: str, what: str) -> list[list[Row]]:
    """Return the rows of each `what`, told apart by `key`, in their `order`: a column that counts 0, 1, .. in each.

    They come in the order of the file. BadInput if a number is missing or stands twice.
    """
    found: dict[Hashable, dict[int, Row]] = {}
    for row in rows:
        numbered = found.setdefault(key(row), {})
        number = row.whole(order, 0)
        if number in numbered:
            row.refuse(order, f"another: line {numbered[number].line} has the same one of that {what}")
        numbered[number] = row
    for numbered in found.values():
        for k, number in enumerate(sorted(numbered)):
            if number != k:
                numbered[number].refuse(order, f"{k}, the next one of {what} {key(numbered[number])}")
    return [[numbered[k] for k in range(len(numbered))] for numbered in found.values()]


def check_tick(tick: Fraction) -> Fraction:
    """Return the tick, in seconds, or raise BadInput."""
    if tick <= 0:
        raise BadInput(f"a tick lasts more than 0 seconds, not {tick}")
    return tick


def check_take(take: int | None, available: int, what: str) -> int:
    """Return how many requests to take: all `there` are if `take` is None. BadInput if there are fewer."""
    if take is None:
        return available
    if not 1 <= take <= available:
        raise BadInput(f"--take is from 1 to {available}, the number of {what}, not {take}")
    return take


def build_instance(
    source: str | Path, requests: Sequence[Request], machine: Machine | MachineFor, **fields: Any
) -> Instance:
    """Return the instance; BadInput if the requests do not fit the machine."""
    try:
        chosen = machine if isinstance(machine, Machine) else machine(requests)
        return Instance(requests=tuple(requests), machine=chosen, **fields)
    except ValidationError as error:
        raise BadInput(f"{source}: {first_error(error)}") from None
