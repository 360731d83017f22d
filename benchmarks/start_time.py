"""How many requests are proved optimal by their start times, for memories of 1, 2, 4 and 8 times the largest peak.

`hindsight:n=..,M=..,P=30,seed=..` is solved for seeds 0 to 4, each in a process of its own, one minute a solve. Every
row that ends "optimal" asserts the optimum that is known. `python -m benchmarks start_time` takes over an hour.
"""

from __future__ import annotations

from typing import Any

import solvers
from benchmarks.record import timed
from workloads.builtin import builtin_instance

TIME_LIMIT = 60.0
PEAK = 30
SEEDS = range(5)
SIZES = {1: (22, 25), 2: (12, 15), 4: (20, 25, 30), 8: (30, 40, 50)}
"""Numbers of requests by M / P."""
KNOWN = {"hindsight:n=14,M=30,seed=14": 626}


def names() -> list[str]:
    """The instances: the theory family's example, the frontier, and a set that is beyond it."""
    frontier = [
        f"hindsight:n={n},M={ratio * PEAK},P={PEAK},seed={seed}"
        for ratio, sizes in SIZES.items()
        for n in sizes
        for seed in SEEDS
    ]
    return [*KNOWN, *frontier, "hindsight-benchmark:seed=2"]


def run() -> list[dict[str, Any]]:
    """Solve each once."""
    return [measure(name) for name in names()]


def measure(name: str) -> dict[str, Any]:
    """Solve one instance and return its row."""
    instance = builtin_instance(name)
    result, seconds = timed(lambda: solvers.solve(instance, formulation="start-time", time_limit=TIME_LIMIT), 1)
    if result.status == "optimal":
        assert result.value == KNOWN.get(name, result.value), f"{name}: {result.value}, not {KNOWN[name]}"
    row = {"case": name, "status": result.status, "value": result.value, "bound": result.bound}
    return {**row, "gap": result.gap, "bound_kind": result.bound_kind, **seconds}
