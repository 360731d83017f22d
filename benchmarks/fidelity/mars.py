"""MARS and LAMPS: latency by rate, without the scheduling, under noise, and with starvation prevention."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.fidelity import Claim, reported
from benchmarks.mixture import feel, mixture
from heuristics.policies.mars import Mars

claim = reported("mars")
SHORT, LONG = 5, 8
"""Minutes of arrivals."""
BUSY = 9
"""Requests a second at which memory is short for MARS."""
BELIEVED = ("exact", "noise:0.05", "noise:0.1", "noise:0.3", "noise:0.5")
CODE = ("mars", "mars-as-released", "infercept-as-released")
"""The paper's reading, the released code, in which calls never swap and the score is another, and its baseline."""


def claims() -> Iterator[Claim]:
    """Measure what MARS reports."""
    for rate in (3, 4, 5):
        mars, vllm = (feel(mixture(rate, SHORT), name, SHORT) for name in ("mars", "vllm"))
        yield claim("by-rate", mars.mean < vllm.mean and mars.ttft < vllm.ttft, rate=rate, mars=mars, vllm=vllm)
    busy = mixture(BUSY, LONG)
    mars, fcfs, infercept = (feel(busy, name, LONG) for name in ("mars", "mars-fcfs", "infercept"))
    yield claim("order", mars.mean < fcfs.mean and mars.ttft < fcfs.ttft, mars=mars, fcfs=fcfs)
    felt = [feel(busy, "mars", LONG, each) for each in BELIEVED]
    medians, means = [one.median for one in felt], [one.mean for one in felt]
    rises = medians[0] <= min(medians[1:]) and medians[-1] == max(medians)
    shown = {"medians": medians, "means": means}
    yield claim("noise", rises, **{of: ", ".join(f"{value:.1f}" for value in each) for of, each in shown.items()})
    with_it, without = (feel(busy, Mars(threshold=waits), LONG) for waits in (100, 10**9))
    yield claim("starvation", with_it.p99 < without.p99, with_it=with_it, without=without)
    close = abs(fcfs.mean - infercept.mean) <= 0.2 * infercept.mean
    yield claim("handling", close, fcfs=fcfs, infercept=infercept)
    code = {rate: {name: feel(mixture(rate, SHORT), name, SHORT) for name in CODE} for rate in (2, 3, BUSY)}
    rows = {rate: ", ".join(f"{one.mean:.1f}" for one in row.values()) + " s" for rate, row in code.items()}
    said = "; ".join(f"{rate} a second: {row}" for rate, row in rows.items())
    yield claim("released", code[BUSY][CODE[1]].mean < code[BUSY][CODE[2]].mean, rows=said)
