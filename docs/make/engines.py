"""The page of engines beside certified bounds, and the small table of it that the README has."""

import json
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from docs.make.lists import RECORDS, table
from docs.make.pages import rendered

TITLES = {
    "total-flow-time": "Mean latency without calls, s", "p99-ttft": "p99 TTFT, s", "late-requests": "Late requests",
}  # fmt: skip
FLOW, TTFT, LATE = TITLES
Row = dict[str, Any]
Rows = Sequence[Row]


def measured(record: str = "engines") -> Rows:
    """Return a row for each case."""
    return [json.loads(line) for line in (RECORDS / f"{record}.jsonl").read_text(encoding="utf-8").splitlines()]


def engines_page() -> str:
    """Return docs/engines.md."""
    rows = measured()
    return rendered(
        "engines", rows=rows, summary=summary(rows), settings=measured("settings"), titles=TITLES, names=_names,
        code=_code, shown=_shown, value=_value, gap=_gap,
    )  # fmt: skip


def summary(rows: Rows) -> Iterator[str]:
    """Yield the small table: how far each policy is from the bounds, over all cases."""
    late, names = f"late of {sum(row['requests'] for row in rows):,}", _names(rows)
    yield from table(
        ("policy", "latency / bound", "p99 TTFT / bound", late),
        [(_code(name), f"{_ratio(rows, FLOW, name):.2f}", f"{_ratio(rows, TTFT, name):.2f}", f"{_late(rows, name):,}")
         for name in names],
    )  # fmt: skip


def _names(rows: Rows) -> list[str]:
    policies = [name for name in rows[0][FLOW]["policies"] if all(name in row[FLOW]["policies"] for row in rows)]
    return [*policies, "best", "bound"]


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
