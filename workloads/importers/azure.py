"""The Azure LLM inference traces of 2023: arrivals, prompt and output lengths of two services, without calls.

Published with Splitwise (ISCA 2024). `docs/data.md` says what each column is, and under which licence.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from fractions import Fraction
from itertools import islice
from pathlib import Path

from kvcore.cost import Cost
from kvcore.csv_table import Row, build_instance, check_take, check_tick, read_rows
from kvcore.instance import Instance, Machine, Request, Segment

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
TICK = Fraction(1, 40)
MACHINE = Machine(memory=118_784, host_memory=0, batch_tokens=512, evict=True)
"""KV of Llama-2-7B on an A100 with 80 GB: 29 requests of 4,096 tokens, as Vidur plans it; chunks of 512 tokens."""

TIMESTAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?(Z|\+00:00)?")


def read_azure(
    path: str | Path,
    *,
    take: int | None = None,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
    machine: Machine = MACHINE,
) -> Instance:
    """Return the first `take` rows of the file (None: all) as an instance: ticks of `tick` seconds.

    A row is a request without calls; it arrives as many seconds after the first as its TIMESTAMP says, rounded up to
    whole ticks. Rows are in the order of the file, which has to be that of time.

    Raises:
        BadInput: the file is not such a table (with line and column), or an argument is out of range.
    """
    rows = read_rows(path, COLUMNS)
    count = check_take(take, len(rows), "rows in the file")
    requests, begin, before = [], _seconds(next(iter(rows))), Fraction(0)
    for number, row in enumerate(islice(rows, count), 1):
        since = _seconds(row) - begin
        if since < before:
            row.refuse("TIMESTAMP", "no earlier than that of the row before")
        before = since
        requests.append(_request(f"R{number}", row, row.ticks("TIMESTAMP", since, check_tick(tick))))
    name = Path(path).name if take is None else f"{Path(path).name}, first {take}"
    return build_instance(path, requests, machine, name=name, tick_seconds=tick, cost=cost)


def _request(id: str, row: Row, arrival: int) -> Request:
    decode = Segment(decode=row.whole("GeneratedTokens", 1))
    return Request(id=id, arrival=arrival, prompt=row.whole("ContextTokens", 1), segments=(decode,))


def _seconds(row: Row) -> Fraction:
    """Return the exact seconds of a time stamp since 1970, read as UTC."""
    match = TIMESTAMP.fullmatch(row.text("TIMESTAMP"))
    if match is None:
        row.refuse("TIMESTAMP", "a time such as 2023-11-16 18:15:46.6805900 (UTC)")
    try:
        whole = datetime.fromisoformat(f"{match[1]} {match[2]}").replace(tzinfo=UTC)
    except ValueError:
        row.refuse("TIMESTAMP", "a date and a time of day")
    return int(whole.timestamp()) + Fraction(match[3] or 0)
