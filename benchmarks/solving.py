"""How fast exact answers are: what `python -m benchmarks exact`, `identical`, `start_time` and `slices` solve.

A row says how far a solve came in its time. Rows of one case that end "optimal" or "claimed" must agree, and with what
is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import solvers
from benchmarks.record import timed
from formulations.chains import chains, least_times
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance, Request, Segment
from workloads.builtin import builtin_instance

KNOWN = {"hindsight:n=14,M=30,seed=14": 626}
"""Least total flow times that are known."""


class Solve(NamedTuple):
    """What is solved, how, in how many seconds, and how often."""

    instance: Instance
    seconds: float
    objective: str = "total-flow-time"
    handling: str = "as-given"
    formulation: str = "auto"
    solver: str = "auto"
    repeats: int = 1


def rows(solves: Iterable[Solve]) -> list[dict[str, Any]]:
    """Return the rows of all solves."""
    found, optima = [], {(name, "total-flow-time", "as-given"): value for name, value in KNOWN.items()}
    for solve in solves:
        row = measured(solve)
        if row["status"] in ("optimal", "claimed"):
            known = optima.setdefault((solve.instance.name, solve.objective, solve.handling), row["value"])
            assert row["value"] == known, f"{solve.instance.name}: {row['value']} and {known}"
        found.append(row)
    return found


def measured(solve: Solve) -> dict[str, Any]:
    """Return the row of a solve."""
    instance, seconds, *options, repeats = solve
    about = dict(zip(("objective", "handling", "formulation", "solver"), options, strict=True))
    row = {"case": instance.name, **about, "time_limit": seconds}
    try:
        result, took = timed(lambda: solvers.solve(instance, time_limit=seconds, certify_limit=0, **about), repeats)
    except (BadInput, MissingTool) as error:
        return {**row, "status": "not run", "why": str(error)}
    row |= {"status": result.status, "value": result.value, "bound": result.bound, "gap": result.gap,
            "bound_kind": result.bound_kind, "by": result.formulation, **took}  # fmt: skip
    if options[:2] == ["total-flow-time", "as-given"] and None not in (result.value, result.bound):
        row["alone"] = sum(least_times(instance, chain)[-1] for chain in chains(instance))
        row["delay_gap"] = float(Fraction(result.value - result.bound) / max(1, result.value - row["alone"]))
    return row


WAYS = (
    ("search", "auto"),
    ("batch-bigm", "highs"),
    ("batch-bigm:plain", "highs"),
    ("cp-sat", "auto"),
    ("batch-bigm", "gurobi"),
    ("batch-bigm:plain", "gurobi"),
)
SMALL = (
    ("mars-figure1", "total-flow-time", "as-given"),
    ("mars-figure1", "total-flow-time", "free"),
    *((f"infermax-figure15:I={prompt}", "busy-time", "as-given") for prompt in (1, 4, 32)),
    ("infercept-sample:k=4", "total-flow-time", "as-given"),
    ("infercept-sample:k=4", "total-flow-time", "free"),
)
LARGER = (
    *((f"infermax-figure15:I={2**k}", "busy-time") for k in range(11)),
    ("identical:n=16", "busy-time"),
    ("identical:n=64,M=512", "busy-time"),
    *((f"mars-like:n=10,seed={seed}", "total-flow-time") for seed in range(3)),
    ("hindsight:n=14,M=30,seed=14", "total-flow-time"),
    *((f"hindsight:n=30,M=120,P=30,seed={seed}", "total-flow-time") for seed in range(3)),
)


def exact() -> Iterator[Solve]:
    """Small cases in every way (the search three times, since it is the fastest), larger ones by two."""
    for name, objective, handling in SMALL:
        for way in WAYS:
            yield Solve(builtin_instance(name), 10.0, objective, handling, *way, repeats=3 if way[0] == "search" else 1)
    for name, objective in LARGER:
        instance = builtin_instance(name)
        yield Solve(instance, 60.0, objective)
        yield Solve(instance, 10.0, objective, "as-given", "batch-bigm:plain", "highs")


SIZES = (
    *((n, 32, 8, 128) for n in (8, 16, 32, 64, 128, 256, 1024)),
    *((16, 32, 8, M) for M in (64, 96, 160, 192, 256)),
    *((16, prompt, 8, 4 * prompt) for prompt in (8, 16, 64)),
    *((16, 32, outputs, 128) for outputs in (4, 12, 16, 32)),
    (32, 32, 8, 256),
    (64, 32, 8, 512),
)
"""Requests, prompt, outputs and memory; the machine and the cost are those of `identical`."""
MIXED = (((8, 32, 8), (8, 24, 6)), ((8, 32, 8), (8, 48, 4)), ((4, 32, 8), (4, 24, 6), (4, 40, 4)))
"""Several kinds on one device of 128 tokens: requests, prompt and outputs of each."""


def identical() -> Iterator[Solve]:
    """How far the proof for like requests reaches: one kind, then several, then INFERMAX's Figure 15."""
    instances = [
        *(builtin_instance("identical:n={},I={},O={},M={}".format(*size)) for size in SIZES),
        *(mixed(kinds) for kinds in MIXED),
        *(builtin_instance(f"infermax-figure15:I={2**k}") for k in range(11)),
    ]
    return (Solve(instance, 30.0, "busy-time", formulation="search") for instance in instances)


def mixed(kinds: tuple[tuple[int, int, int], ...]) -> Instance:
    """Return requests of several kinds on one device."""
    lengths = [(prompt, outputs) for n, prompt, outputs in kinds for _ in range(n)]
    return builtin_instance("identical:n=1,I=32,O=8,M=128").replace(
        name="mixed:" + "+".join(f"{n}x({prompt},{outputs})" for n, prompt, outputs in kinds),
        requests=tuple(
            Request(id=f"R{i}", prompt=prompt, segments=(Segment(decode=outputs),))
            for i, (prompt, outputs) in enumerate(lengths, 1)
        ),
    )


PEAK = 30
COUNTS = {1: (22, 25), 2: (12, 15), 4: (20, 25, 30), 8: (30, 40, 50)}
"""Numbers of requests by memory over the largest peak."""


def start_time() -> Iterator[Solve]:
    """How many requests are proved optimal by their start times; over an hour."""
    frontier = [
        f"hindsight:n={n},M={ratio * PEAK},P={PEAK},seed={seed}"
        for ratio, counts in COUNTS.items() for n in counts for seed in range(5)
    ]  # fmt: skip
    for name in [*KNOWN, *frontier, "hindsight-benchmark:seed=2"]:
        yield Solve(builtin_instance(name), 60.0, formulation="start-time")
