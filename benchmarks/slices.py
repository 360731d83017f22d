"""Real slices of the InferCept mixture, with all their calls: how far each way proves, in ticks and in delay.

Blocks of 64 tokens, slots of 1.6 s, lengths rounded up one by one; free handling; memory and host memory of twice the
largest peak; 64 blocks a slot. Delay is the flow time above what each request takes alone: what a scheduler can change.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import solvers
from benchmarks.data import data_file
from benchmarks.record import timed
from formulations.chains import chains, least_times
from kvcore.errors import BadInput
from kvcore.instance import Call, Instance, Machine, Request, Segment
from workloads.importers import read_infercept

FILE = "infercept/merged_exp_uniform_lengths.csv"
BLOCK, SLOT = 64, 64
"""Tokens, and fine ticks of 25 ms."""

CASES: tuple[tuple[int, str | None, float], ...] = (
    (8, None, 30.0), (16, None, 60.0), (32, None, 60.0),
    (16, "1/8", 60.0), (32, "1/8", 60.0), (64, "1/8", 300.0), (128, "1/8", 300.0),
    (32, "1/4", 60.0), (64, "1/4", 300.0), (128, "1/4", 300.0),
)  # fmt: skip
"""Requests, arrivals per second (None: all at once), and seconds allowed."""
SEEDS = (0, 1, 2)


def run() -> list[dict[str, Any]]:
    """Solve every case by `auto` and, up to 16 requests, by the arc flow on HiGHS."""
    if not data_file(FILE).exists():
        return [{"case": "slices", "status": "not run", "why": f"{data_file(FILE)} is not there; set KVBOUND_DATA"}]
    return list(_rows())


def infercept_slots(k: int, seed: int, rate: str | None) -> Instance:
    """Return `k` drawn requests in blocks and slots, each length rounded up."""
    arrivals = {} if rate is None else {"rate": Fraction(rate)}
    roomy = Machine(memory=None, batch_tokens=BLOCK)
    fine = read_infercept(data_file(FILE), take=k, seed=seed, machine=roomy, **arrivals)
    requests = tuple(_coarse(request) for request in fine.requests)
    memory = 2 * max(request.peak for request in requests)
    return Instance(
        name=f"infercept-slots:k={k},seed={seed},rate={rate or 'at once'}",
        tick_seconds=SLOT * (fine.tick_seconds or 1),
        machine=Machine(memory=memory, host_memory=memory, batch_tokens=BLOCK),
        requests=requests,
    )


def _rows() -> Iterator[dict[str, Any]]:
    for k, rate, limit in CASES:
        for seed in SEEDS:
            instance = infercept_slots(k, seed, rate)
            yield _measure(instance, "auto", "auto", limit)
            if k <= 16 and seed == 0:
                yield _measure(instance, "arc-flow", "highs", limit)


def _measure(instance: Instance, formulation: str, solver: str, limit: float) -> dict[str, Any]:
    row = {"case": instance.name, "way": f"{formulation} {solver}", "time_limit": limit}
    try:
        result, seconds = timed(
            lambda: solvers.solve(instance, formulation=formulation, solver=solver, time_limit=limit), 1
        )
    except BadInput as error:
        return {**row, "status": "not run", "why": str(error)}
    alone = sum(least_times(instance, chain)[-1] for chain in chains(instance))
    return {
        **row, "status": result.status, "value": result.value, "bound": result.bound, "alone": alone,
        "gap": result.gap, "delay_gap": _delay_gap(result.value, result.bound, alone), "by": result.formulation,
        **seconds,
    }  # fmt: skip


def _delay_gap(value: Any, bound: Any, alone: int) -> float | None:
    """Return (value - bound) / (value - alone): the share of the delay that is not proved to be needed."""
    return None if None in (value, bound) else float(Fraction(value - bound) / max(1, value - alone))


def _coarse(request: Request) -> Request:
    segments = tuple(
        Segment(decode=_up(segment.decode, BLOCK), call=None if segment.call is None else _coarse_call(segment.call))
        for segment in request.segments
    )
    return request.replace(arrival=_up(request.arrival, SLOT), prompt=_up(request.prompt, BLOCK), segments=segments)


def _coarse_call(call: Call) -> Call:
    return call.replace(duration=_up(call.duration, SLOT), returns=_up(call.returns, BLOCK))


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit)
