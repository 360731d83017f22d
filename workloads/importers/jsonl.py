"""A JSONL file as a table: an object a line, columns named by keys, dots for keys within keys, [k]."""

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from kvcore.csv_table import Row, Table, text_lines, unit_hint
from kvcore.errors import BadInput

NUMBERS_AS_TEXT = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
Record = Mapping[str, Any]
STEP = re.compile(r"([^.\[\]]+)|\[(-?\d{1,6})\]")  # a key, or the place of an item


def read_jsonl(
    path: str | Path,
    columns: Sequence[str],
    needed: Sequence[str],
    lists: Container[str] = (),
    optional: Container[str] = (),
) -> Table:
    """Return the table of a file with an object in each line, or one array; `null` and missing keys are empty fields.

    An object of lists of one length, as from vLLM's benchmarks, has a row for each item; of `lists`, each is a field.
    BadInput: it is no such file, its first object lacks a column `needed`, or no object has a column not `optional`.
    """
    source = str(path)
    records = _records(source, path)
    first = next(records, None)
    if first is None:
        raise BadInput(f"{source}: it is empty; each line must hold an object with {', '.join(needed)}")
    line, record = first
    names = list(_names(record))
    for name in needed:
        if _value(record, name) is None:
            raise BadInput(
                f"{source}, line {line}: no key {name}{unit_hint(name, names)}; its keys are {', '.join(names)[:200]}"
            )
    missing = dict.fromkeys(name for name in columns if name not in optional)
    return Table(names, _rows(source, chain([first], records), columns, lists, missing))


def _records(source: str, path: str | Path) -> Iterator[tuple[int, Record]]:
    lines = enumerate(text_lines(path), 1)
    for number, line in lines:
        if line.isspace():
            continue
        if line.lstrip().startswith("[") and number == 1:
            line += "".join(text for _, text in lines)
        try:
            record = NUMBERS_AS_TEXT.decode(line)
        except (ValueError, RecursionError) as error:
            at = number + getattr(error, "lineno", 1) - 1
            raise BadInput(f"{source}, line {at}: not JSON: {getattr(error, 'msg', error)}") from None
        if isinstance(record, list) and number == 1:
            yield from _items(source, record)
        elif not isinstance(record, dict):
            raise BadInput(f"{source}, line {number}: each line must hold one JSON object, {{..}}")
        else:
            yield number, record


def _items(source: str, records: Sequence[Any]) -> Iterator[tuple[int, Record]]:
    for place, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise BadInput(f"{source}: item {place} of its array is no JSON object, {{..}}")
        yield place, record


def _rows(
    source: str,
    records: Iterator[tuple[int, Record]],
    columns: Sequence[str],
    lists: Container[str],
    missing: dict[str, None],
) -> Iterator[Row]:
    for line, record in records:
        values = {name: _value(record, name) for name in columns}
        values |= {name: json.dumps(value) for name, value in values.items() if name in lists and value is not None}
        for name in [name for name in missing if values[name] is not None]:
            del missing[name]
        if not any(isinstance(value, list) for value in values.values()):
            yield Row(source, line, {name: _text(value) for name, value in values.items()})
            continue
        lengths = {name: len(value) if isinstance(value, list) else None for name, value in values.items()}
        if len(set(lengths.values())) > 1:
            raise BadInput(f"{source}, line {line}: its lists must be of one length, they are {lengths}")
        for items in zip(*values.values(), strict=True):
            yield Row(source, line, dict(zip(columns, map(_text, items), strict=True)))
    if missing:
        raise BadInput(f"{source}: no line has the key {next(iter(missing))}")


def _value(record: Any, name: str) -> Any:
    if name in record:
        return record[name]
    for key, place in STEP.findall(name):
        if place:
            among = isinstance(record, list) and -len(record) <= int(place) < len(record)
            record = record[int(place)] if among else None
        else:
            record = record.get(key) if isinstance(record, dict) else None
    return record


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _names(record: Record) -> Iterator[str]:
    left = [("", record)]
    while left:
        place, found = left.pop()
        for key, value in found.items():
            yield place + key
            if isinstance(value, dict):
                left.append((f"{place}{key}.", value))
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                left.append((f"{place}{key}[0].", value[0]))
