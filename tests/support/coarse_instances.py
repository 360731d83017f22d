"""Random instances to be coarsened, with lengths around multiples of the block, and tight memories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kvcore import Call, Instance, Machine, Request, Segment
from kvcore.coarsen import coarsen

HANDLINGS = ["preserve", "discard", "swap", "free", "free"]


def lengths(draw: random.Random, block: int, least: int, most: int) -> int:
    """A length near a multiple of the block or anywhere."""
    near = draw.randint(0, most // block) * block + draw.choice([-1, 0, 1])
    return min(most, max(least, draw.choice([near, draw.randint(least, most)])))


def random_requests(draw: random.Random, block: int, count: int, calls: list[int], longest: int) -> list[Request]:
    requests = []
    for i in range(1, count + 1):
        segments = [
            Segment(
                decode=lengths(draw, block, 1, longest),
                call=Call(
                    duration=draw.choice([0, lengths(draw, block, 0, longest)]),
                    returns=draw.choice([0, lengths(draw, block, 0, longest)]),
                    handling=draw.choice(HANDLINGS),
                ),
            )
            for _ in range(draw.choice(calls))
        ]
        segments.append(Segment(decode=lengths(draw, block, 1, longest)))
        requests.append(
            Request(
                id=f"R{i}",
                arrival=draw.choice([0, 0, draw.randint(0, longest)]),
                prompt=lengths(draw, block, 1, longest),
                weight=draw.randint(1, 3),
                segments=tuple(segments),
            )
        )
    return requests


def tight_memory(draw: random.Random, requests: Sequence[Request], page: int = 1) -> int:
    """What the largest request needs, or up to twice as much again."""
    need = max(request.peak for request in requests)
    return -(-(need + draw.choice([0, 1, draw.randint(0, need), draw.randint(0, need), 2 * need])) // page) * page


def tight_host(draw: random.Random, requests: Sequence[Request]) -> int:
    """What the ordered swap of the longest context needs, if there is one, or somewhat more."""
    held = {h: [0] for h in HANDLINGS}
    for request in requests:
        for k, call in enumerate(request.calls):
            held[call.handling].append(request.context_at_call(k))
    least = max(held["swap"])
    return least + draw.choice([0, 1, 2, draw.randint(0, max(held["free"]))])


def tight_machine(draw: random.Random, requests: Sequence[Request], block: int, **switches: Any) -> Machine:
    """Limits between what one request needs and what two do."""
    page = draw.choice([1, 1, 1, 3, block, 2 * block])
    tokens = draw.choice([None, draw.randint(1, 4)])
    return Machine(
        memory=tight_memory(draw, requests, page),
        block=page,
        host_memory=tight_host(draw, requests),
        batch_tokens=tokens,
        prefill_tokens=draw.choice([None, None, draw.randint(1, tokens or 4)]),
        batch_requests=draw.choice([None, None, None, 1, 2]),
        partial=draw.random() < 0.4,
        **switches,
    )


def fine_for_relax(draw: random.Random, block: int, counts: list[int], calls: list[int], longest: int) -> Instance:
    """A fine instance with tight limits and any of the switches that `relax` accepts."""
    requests = random_requests(draw, block, draw.choice(counts), calls, longest)
    switches = {name: draw.random() < likely for name, likely in (("hybrid", 0.8), ("pause", 0.8), ("evict", 0.4))}
    machine = tight_machine(draw, requests, block, **switches)
    return Instance(name="fine", machine=machine, requests=tuple(requests))


def fine_for_restrict(
    draw: random.Random, grid: dict[str, int], counts: list[int], calls: list[int], longest: int, evict: float = 0.5
) -> tuple[Instance, Instance]:
    """A fine instance and its `restrict` coarsening, whose memories and budgets are about what one request needs.

    KV may be evicted with probability `evict`.
    """
    block, ticks = grid["block_tokens"], grid["slot_ticks"] - (grid.get("headroom_ticks") or 0)
    requests = tuple(random_requests(draw, block, draw.choice(counts), calls, longest))
    least = -(-block // ticks)  # a smaller budget is less than one block per slot
    tokens = draw.choice([None, least, least + draw.randint(0, 3)])
    machine = Machine(
        memory=None,
        host_memory=None,
        block=draw.choice([1, 1, block, 2 * block]),
        batch_tokens=tokens,
        prefill_tokens=draw.choice([None, draw.randint(least, tokens or least + 3)]),
        batch_requests=draw.choice([None, None, None, 1, 2]),
        partial=draw.random() < 0.4,
        evict=draw.random() < evict,
    )
    fine = Instance(name="fine", machine=machine, requests=requests)
    coarse = coarsen(fine, direction="restrict", **grid)
    memory = tight_memory(draw, coarse.requests, coarse.machine.block) * block + draw.randint(0, block - 1)
    host = tight_host(draw, coarse.requests) * block + draw.randint(0, block - 1)
    fine = fine.replace(machine=machine.replace(memory=memory, host_memory=host))
    return fine, coarsen(fine, direction="restrict", **grid)
