"""The values of schedules (docs/semantics.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import lcm
from operator import mul
from typing import Any

from library.checker.files import Amount, Box
from library.checker.instance import output

Times = list[tuple[int, int]]  # of the first and the last token of each request, after its arrival
RATES: dict[
    str, Callable[[Box], Amount]
] = {  # what a tick adds to a sum, from the arrival to the last token (to the first, for total-ttft)
    "total-flow-time": lambda one: 1,
    "weighted-flow-time": lambda one: one.weight,
    "total-ttft": lambda one: 1,
    "normalized-latency": lambda one: Fraction(1, output(one)),
}
MOST_OF = {"total-ttft": 1}  # tokens of a request that matter
AVERAGES = ("normalized-latency",)  # whose values may be fractions
PLAIN = ("makespan", "busy-time", "max-flow-time", "late-requests")  # those that are no sums
OBJECTIVES = (*PLAIN, *RATES)
TAILS = ("p99-flow-time", "p99-ttft")
TAIL = "pNN-flow-time or pNN-ttft"


def is_late(one: Box, first: int, last: int) -> bool:
    """Whether a request exceeds any SLO: `first` and `last` are its TTFT and its latency."""
    limits, o = one.slo or {}, output(one)
    tpot = Fraction(last - first, o - 1) if o > 1 else 0
    spans = {"ttft": first, "latency": last, "normalized_latency": Fraction(last, o), "tpot": tpot}
    return any(limits.get(name) is not None and span > limits[name] for name, span in spans.items())


def by_objective(ones: list[Box], times: Times, busy: int) -> dict[str, Amount]:
    """The value of every objective, from the first and last token of each request, after its arrival."""
    firsts, lasts = zip(*times, strict=True)
    return {
        "makespan": max(one.arrival + last for one, last in zip(ones, lasts, strict=True)),
        "busy-time": busy,
        "max-flow-time": max(lasts),
        "late-requests": sum(is_late(one, *both) for one, both in zip(ones, times, strict=True)),
    } | {
        name: sum(map(mul, map(rate, ones), firsts if name == "total-ttft" else lasts)) for name, rate in RATES.items()
    }


def rates_of(instance: Box, objective: str) -> tuple[list[int], int]:
    """What a tick of each request adds to a sum, in parts of its unit, and how many of them one is."""
    rates = [Fraction(RATES[objective](one)) for one in instance.requests]
    unit = lcm(*(rate.denominator for rate in rates))
    return [int(unit * rate) for rate in rates], unit


def tail_of(objective: str) -> Any:
    """The percent and the time that a percentile is of, or None."""
    return re.fullmatch("p([1-9][0-9]?)-(flow-time|ttft)", objective)


def spared(objective: str, n: int) -> int:
    """How many of n requests may take longer than the percentile: it is the least time for which no more do."""
    return n * (100 - int(tail_of(objective)[1])) // 100


def percentile(objective: str, times: Times) -> int:
    """The percentile of the first or last tokens, after the arrivals."""
    firsts, lasts = zip(*times, strict=True)
    return sorted(firsts if tail_of(objective)[2] == "ttft" else lasts, reverse=True)[spared(objective, len(times))]
