"""Real slices of the InferCept mixture, with all their calls: how far each way proves, in ticks and in delay.

Blocks of 64 tokens, slots of 1.6 s, lengths rounded up one by one; free handling; memory and host memory of twice the
largest peak; 64 blocks a slot. Delay is the flow time above what each request takes alone: what a scheduler can change.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from benchmarks.data import DRAWN, made
from formulations.chains import chains, least_times
from kvcore.instance import Call, Instance, Machine, Request, Segment
from solvers import solve

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
    """Return the row of every case by `auto`, with evictions too up to 32 requests."""
    return [
        measured(infercept_slots(k, seed, rate, evict=evict), limit)
        for k, rate, limit in CASES for seed in SEEDS for evict in ((False, True) if k <= 32 else (False,))
    ]  # fmt: skip


def measured(instance: Instance, limit: float) -> dict[str, Any]:
    """Return the row of a solve, with the gap of the delay."""
    result = solve(instance, time_limit=limit, certify_limit=0)
    row = {"case": instance.name, "time_limit": limit, "status": result.status, "value": result.value,
           "bound": result.bound, "gap": result.gap, "bound_kind": result.bound_kind, "by": result.formulation,
           "seconds": round(result.seconds, 3)}  # fmt: skip
    if result.value is not None and result.bound is not None:
        alone = sum(least_times(instance, chain)[-1] for chain in chains(instance))
        row["delay_gap"] = float(Fraction(result.value - result.bound) / max(1, result.value - alone))
    return row


def infercept_slots(k: int, seed: int, rate: str | None, *, evict: bool = False) -> Instance:
    """Return `k` drawn requests in blocks and slots, each length rounded up, on a machine that evicts or not."""
    fine = made(f"{DRAWN} --take {k} --seed {seed}{f' --rate {rate}' if rate else ''}")
    requests = tuple(_coarse(request) for request in fine.requests)
    memory = 2 * max(request.peak for request in requests)
    return Instance(
        name=f"infercept-slots:k={k},seed={seed},rate={rate or 'at once'}{',evict' * evict}",
        tick_seconds=SLOT * fine.tick_seconds,
        machine=Machine(memory=memory, host_memory=memory, batch_tokens=BLOCK, evict=evict),
        requests=requests,
    )


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
