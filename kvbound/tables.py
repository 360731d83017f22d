"""What is measured of many requests as columns and rows of text; `kvcore.summary` says what each number is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from kvcore.result import Result

TIMES = (
    ("latency", "mean"), ("latency", "p50"), ("latency", "p95"), ("latency", "p99"), ("latency_without_calls", "mean"),
    ("ttft", "mean"), ("ttft", "p50"), ("ttft", "p99"), ("tpot", "mean"), ("tpot", "p99"),
    ("normalized_latency", "p50"), ("normalized_latency_without_calls", "p50"),
)  # fmt: skip
SHORT = {
    "latency": "latency", "latency_without_calls": "without calls", "ttft": "TTFT", "tpot": "TPOT",
    "normalized_latency": "norm.", "normalized_latency_without_calls": "norm. w/o calls",
}  # fmt: skip
RATES = ("requests_per_second", "tokens_per_second", "goodput_per_second")
OVER = "/: the value over the optimum (over the lower bound, where that is all there is)"
"""What a column that is named / for short says."""
CAUSES = ("total", "calls", "queued", "transfer", "recomputation")

Labelled = Sequence[tuple[str, Mapping[str, Any]]]
"""Summaries, each with its label."""


class Cells(NamedTuple):
    """The columns and rows of a table; a cell of None is empty."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def times_cells(rows: Labelled) -> Cells:
    """Return the times in seconds, a row for each labelled summary."""
    columns = ["seconds", *(f"{SHORT[measure]} {part}" for measure, part in TIMES)]
    return Cells(
        columns, [[label, *(seconds(measured[name], part) for name, part in TIMES)] for label, measured in rows]
    )


def work_cells(rows: Labelled) -> Cells:
    """Return throughput, waste and moves, a row for each labelled summary."""
    columns = ["work", "unfinished", "requests/s", "tokens/s", "good/s", "SLO met", "batches", "evictions"]
    columns += ["recomputed", "swapped out", "wasted", "in calls", "queued", "transfer", "refills", "handling of calls"]
    return Cells(columns, [_work(label, measured) for label, measured in rows])


def seconds(spread: Mapping[str, float] | None, part: str) -> str | None:
    """Return the seconds of a part of a spread, such as its mean."""
    return None if spread is None else f"{spread[part]:.4g}"


def _work(label: str, measured: Mapping[str, Any]) -> list[object]:
    waste = measured["waste_share"] or {}
    return [
        label,
        measured["unfinished"],
        *(f"{measured[name]:.4g}" for name in RATES),
        percent(measured["slo_attainment"]),
        measured["batches"],
        measured["evictions"],
        percent(measured["recomputed_share"]),
        measured["tokens_swapped_out"],
        *(percent(waste.get(cause)) for cause in CAUSES),
        ", ".join(f"{count} {how}" for how, count in measured["handlings"].items()) or "-",
    ]


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds."""
    return f"{1e3 * seconds:.4g}"


def percent(share: float | None) -> str | None:
    """Return a share in percent (None: it is not known)."""
    return None if share is None else f"{100 * share:.1f} %"


def in_seconds(ticks: int | str | None, row: dict[str, Any]) -> str | None:
    """Turn ticks into seconds for people; None where the objective is not a time."""
    if ticks is None or row["objective"] in ("late-requests", "normalized-latency"):
        return None
    return f"{float(Fraction(ticks) * Fraction(row['tick_seconds'])):.6g}"


def handling_text(row: dict[str, Any]) -> str:
    """Count the handlings of a row for people; of a policy that did not run, say why."""
    if "error" in row:
        return str(row["error"]).removeprefix(f"policy {row['policy']} ").replace(f" on {row['instance']}:", ":")
    counts = Counter(row["handling"].values())
    return ", ".join(f"{counts[how]} {how}" for how in ("preserve", "discard", "swap", "mixed") if counts[how]) or "-"


def decimal(text: str | None) -> str | None:
    """Write a fraction for people."""
    return None if text is None else f"{float(Fraction(text)):.4g}"


def between(result: Result) -> str:
    """Say what is known of the optimum, in words."""
    if result.bound is None:
        return f"the optimum is at most {result.value}; no lower bound was proved"
    return f"the optimum is at least {result.bound} and at most {result.value}"
