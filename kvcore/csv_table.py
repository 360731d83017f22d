"""Reads a table strictly and exactly, row by row; errors name line and column."""

import csv
import gzip
import io
import math
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from kvcore.cost import Cost
from kvcore.errors import BadInput, did_you_mean
from kvcore.files import valid
from kvcore.instance import LIMIT, Instance, Machine, Request, Slo

MachineFor = Callable[[Sequence[Request]], Machine]
"""Chooses the machine for the requests."""

WHOLE = re.compile(r"(-?[0-9]{1,15})(?:\.0{1,15})?")
DECIMAL = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")
SEPARATORS = ",;\t|"
"""Separators of fields; the header decides."""
LONGEST = 2**24
"""Letters of a line."""


class Row(NamedTuple):
    """One row of a table: the columns asked for, and its place."""

    source: str
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return the field without white space around it."""
        return self.cells[column].strip()

    def label(self, column: str) -> str:
        """Return the field as a name of 1 to 90 printable characters."""
        text = self.text(column)
        if not (1 <= len(text) <= 90 and text.isprintable()):
            self.refuse(column, "a name of 1 to 90 printable characters")
        return text

    def whole(self, column: str, least: int) -> int:
        """Return the field as an integer of at least `least`."""
        match = WHOLE.fullmatch(self.text(column))
        if match is None:
            self.refuse(column, f"a whole number{' of at most 15 digits' * self.text(column).lstrip('-').isdecimal()}")
        if int(match[1]) < least:
            self.refuse(column, f"at least {least}")
        return int(match[1])

    def seconds(self, column: str) -> Fraction:
        """Return the field, a decimal number of at least 0, as an exact fraction."""
        text = self.text(column)
        if not DECIMAL.fullmatch(text):
            self.refuse(column, "a decimal number")
        if text.startswith("-") and Fraction(text):
            self.refuse(column, "at least 0")
        return Fraction(text)

    def ticks(self, column: str, seconds: Fraction, tick: Fraction) -> int:
        """Return `seconds`, read from `column`, in ticks, rounded up."""
        ticks = math.ceil(seconds / tick)
        if ticks > LIMIT:
            self.refuse(column, f"at most {LIMIT} ticks of {tick} s")
        return ticks

    def refuse(self, column: str, wanted: str) -> NoReturn:
        """Raise BadInput for the field."""
        refuse(self.source, self.line, column, wanted, self.cells[column])


class Table(NamedTuple):
    """All column names of a file, and its rows, to go through once."""

    names: Sequence[str]
    rows: Iterator[Row]


def refuse(source: str, line: int, column: str, wanted: str, value: str) -> NoReturn:
    """Raise BadInput for a field."""
    shown = repr(value if len(value) <= 40 else value[:38] + "..") if value else "empty"
    raise BadInput(f"{source}, line {line}: {column} must be {wanted}, it is {shown}")


def text_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 text, plain or in gzip (`-`: standard input). Raises BadInput."""
    source = "standard input" if str(path) == "-" else str(path)
    try:
        with _opened(path) as file:
            while line := file.readline(LONGEST):
                if len(line) == LONGEST:
                    raise BadInput(f"{source}: a line is longer than {LONGEST} letters")
                yield line
    except UnicodeDecodeError:
        raise BadInput(f"{source}: not UTF-8 text") from None
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def _opened(path: str | Path) -> Iterator[io.TextIOWrapper]:
    with open(sys.stdin.fileno() if str(path) == "-" else path, "rb", closefd=str(path) != "-") as file:
        data: Any = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
        with io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
            yield text


def read_csv(path: str | Path, columns: Sequence[str]) -> Table:
    """Return the table of a CSV file whose first line names (at least) these columns. Raises BadInput.

    Commas, semicolons, tabs or bars separate fields, whichever the first line has most of.
    """
    source = str(path)
    lines = text_lines(path)
    first = next(lines, "")
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(chain([first] if first else [], lines), strict=True, delimiter=separator)
    header = [name.strip() for name in next(_fields(source, reader), [])]
    if not header:
        raise BadInput(f"{source}: it is empty; the first line must name the columns {', '.join(columns)}")
    check_header(f"{source}, line 1", header, columns)
    return Table(header, _rows(source, header, reader, columns))


def unit_hint(column: str, names: Collection[str]) -> str:
    """Return the known units, if another one follows one of these names."""
    return "; a unit is s, ms, us or ns" if column.rpartition(":")[0] in names else ""


def check_header(place: str, header: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse a header that lacks a column, or has it twice."""
    needed = f"the columns needed are {', '.join(columns)}"
    for column in columns:
        if header.count(column) != 1:
            if any(DECIMAL.fullmatch(name) for name in header):
                raise BadInput(f"{place}: it must name the columns, and holds numbers; {needed}")
            has = f"; it has {', '.join(filter(None, header))[:200]}"
            near = did_you_mean(column, [name for name in header if name and name not in columns])
            near += unit_hint(column, header)
            what = f"more than one column {column}" if column in header else f"no column {column}{near}"
            raise BadInput(f"{place}: {what}; {needed}{has}")


def _rows(source: str, header: Sequence[str], reader: Any, columns: Sequence[str]) -> Iterator[Row]:
    places = [(name, header.index(name)) for name in columns]
    empty = True
    for fields in _fields(source, reader):
        if not any(field.strip() for field in fields):
            continue
        if len(fields) != len(header):
            raise BadInput(
                f"{source}, line {reader.line_num}: {len(fields)} fields, the header names {len(header)} columns"
            )
        empty = False
        yield Row(source, reader.line_num, {name: fields[place] for name, place in places})
    if empty:
        raise BadInput(f"{source}: it has no rows below its header")


def _fields(source: str, reader: Any) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise BadInput(f"{source}, line {reader.line_num}: not a CSV file: {error}") from None


def check_tick(tick: Fraction) -> Fraction:
    """Return the tick, in seconds, or raise BadInput."""
    if tick <= 0:
        raise BadInput(f"a tick lasts more than 0 seconds, not {tick}")
    return tick


def check_take(take: int | None, available: int, what: str, option: str = "--take") -> int:
    """Return how many requests to take: all if `take` is None. BadInput if there are fewer."""
    if take is None:
        return available
    if not 1 <= take <= available:
        raise BadInput(f"{option} is from 1 to {available}, the number of {what}, not {take}")
    return take


def slo_in_ticks(tick: Fraction, **seconds: Fraction | None) -> Slo | None:
    """Return service-level objectives, named as in `Slo`, in ticks (None without any).

    Rounded down, as a request is late only above the limit.
    """
    ticks: dict[str, Any] = {name: value / tick for name, value in seconds.items() if value is not None}
    whole = {name: math.floor(ticks[name]) for name in ("latency", "ttft") if name in ticks}
    with valid(f"the objectives in ticks of {tick} s"):
        return Slo(**ticks | whole) if ticks else None


def build_instance(
    source: str | Path,
    requests: Sequence[Request],
    machine: Machine | MachineFor,
    name: str,
    tick: Fraction,
    cost: Cost,
    share: Callable[[Instance], Instance] | None = None,
) -> Instance:
    """Return the instance; BadInput if the requests do not fit."""
    with valid(f"{source}"):
        chosen = machine if isinstance(machine, Machine) else machine(requests)
        first = chosen.replace(same_batch=True) if share else chosen
        made = Instance(name=name, requests=tuple(requests), machine=first, tick_seconds=tick, cost=cost)
        return share(made).replace(machine=chosen) if share else made
