"""Real slices of the InferCept mixture, with all their calls: how far each way proves, in ticks and in delay.

Blocks of 64 tokens, slots of 1.6 s, lengths rounded up one by one; free handling; memory and host memory of twice the
largest peak; 64 blocks a slot. Delay is the flow time above what each request takes alone: what a scheduler can change.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.data import DRAWN, made
from benchmarks.solving import Solve
from kvcore.instance import Call, Instance, Machine, Request, Segment

BLOCK, SLOT = 64, 64
"""Tokens, and fine ticks of 25 ms."""

CASES: tuple[tuple[int, str | None, float], ...] = (
    (8, None, 30.0), (16, None, 60.0), (32, None, 60.0),
    (16, "1/8", 60.0), (32, "1/8", 60.0), (64, "1/8", 300.0), (128, "1/8", 300.0),
    (32, "1/4", 60.0), (64, "1/4", 300.0), (128, "1/4", 300.0),
)  # fmt: skip
"""Requests, arrivals per second (None: all at once), and seconds allowed."""
SEEDS = (0, 1, 2)


def slices() -> Iterator[Solve]:
    """Every case by `auto`, with evictions too up to 32 requests."""
    for k, rate, limit in CASES:
        for seed in SEEDS:
            instance = infercept_slots(k, seed, rate)
            yield Solve(instance, limit)
            if k <= 32:
                yield Solve(infercept_slots(k, seed, rate, evict=True), limit)


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
