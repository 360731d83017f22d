"""The page of engines beside certified bounds, and the small table of it that the README has."""

import json
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from docs.make.lists import RECORDS, table
from docs.make.pages import PAGES

FLOW, TTFT, LATE = OBJECTIVES = ("total-flow-time", "p99-ttft", "late-requests")
TITLES = ("Mean latency without calls, s", "p99 TTFT, s", "Late requests")
Row = dict[str, Any]
Rows = Sequence[Row]


def measured(record: str = "engines") -> Rows:
    """Return a row for each case."""
    return [json.loads(line) for line in (RECORDS / f"{record}.jsonl").read_text(encoding="utf-8").splitlines()]


def engines_page() -> str:
    """Return docs/engines.md."""
    rows = measured()
    parts = [line for name, title in zip(OBJECTIVES, TITLES, strict=True) for line in _part(rows, name, title)]
    head, worth = [PAGES["engines"]["head"], *summary(rows)], settings_table()
    return "\n".join([*head, PAGES["engines"]["settings"], *worth, PAGES["engines"]["setting"], *parts])


def settings_table() -> Iterator[str]:
    """Yield how many times the bound the mean latency of each setting is, by case."""
    rows = measured("settings")
    times = {
        name: [f"{(row['policies'][name] - row['called']) / (row['bound'] - row['called']):.2f}" for row in rows]
        for name in rows[0]["policies"]
    }
    yield from table(
        ("policy", *(row["workload"] for row in rows)), [(f"`{name}`", *cells) for name, cells in times.items()]
    )


def summary(rows: Rows) -> Iterator[str]:
    """Yield the small table: how far each policy is from the bounds, over all cases."""
    late, names = f"late of {sum(row['requests'] for row in rows):,}", [*_policies(rows), "best", "bound"]
    yield from table(
        ("policy", "latency / bound", "p99 TTFT / bound", late),
        [(_code(name), f"{_ratio(rows, FLOW, name):.2f}", f"{_ratio(rows, TTFT, name):.2f}", f"{_late(rows, name):,}")
         for name in names],
    )  # fmt: skip


def _part(rows: Rows, objective: str, title: str) -> Iterator[str]:
    """Yield the table of an objective."""
    names = (*_policies(rows), "best", "bound")
    yield from (f"## {title}", "")
    yield from table(
        ("requests", "model", *map(_code, names), "ratio"),
        [
            (row["workload"], row["model"], *(_shown(_value(row, objective, n)) for n in names), _gap(row, objective))
            for row in rows
        ],
    )
    yield ""


def _policies(rows: Rows) -> list[str]:
    return [name for name in rows[0][FLOW]["policies"] if all(name in row[FLOW]["policies"] for row in rows)]


def _code(name: str) -> str:
    return name if name in ("best", "bound") else f"`{name}`"


def _value(row: Row, objective: str, name: str) -> float:
    """Return the value of a policy, the best one, or the bound; latency without calls."""
    found = row[objective]
    value: float = found[name] if name in ("best", "bound") else found["policies"][name]
    return value - (row["called"] if objective == FLOW else 0)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _gap(row: Row, objective: str) -> str:
    best, bound = (_value(row, objective, name) for name in ("best", "bound"))
    return "" if objective == LATE and not bound and best else f"{best / bound if best > bound else 1:.2f}"


def _ratio(rows: Rows, objective: str, name: str) -> float:
    """Return the geometric mean over the cases of a value over the bound."""
    return geometric_mean(_value(row, objective, name) / _value(row, objective, "bound") for row in rows)


def _late(rows: Rows, name: str) -> int:
    return int(sum(_value(row, LATE, name) for row in rows))
