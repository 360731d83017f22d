"""Random instances with more requests than memory, over all switches: what the policies have to cope with."""

from __future__ import annotations

import random

from kvcore import Call, Cost, CostFunction, Instance, Machine, Request, Segment


def crowded_instance(seed: int, most: int = 10) -> Instance:
    """Up to `most` requests; the memories hold the largest request, and little or much besides."""
    draw = random.Random(seed)
    requests = tuple(_request(draw, f"R{i}") for i in range(1, draw.randint(3, most) + 1))
    chunked, block = draw.random() < 0.6, draw.choice([1, 1, 2, 4])
    longest = max(request.peak + 1 for request in requests)
    largest = max(-(-request.peak // block) for request in requests) * block
    held = [(request.context_at_call(k), call) for request in requests for k, call in enumerate(request.calls)]
    swapped = max([tokens for tokens, call in held if call.handling == "swap"], default=0)
    prefill = draw.choice([None, draw.randint(1, 6) if chunked else longest + draw.randint(0, 4)])
    machine = Machine(
        memory=draw.choice([largest, largest + draw.randint(0, largest), 3 * largest, None]),
        block=block,
        host_memory=draw.choice([swapped, swapped + draw.randint(0, swapped), None]),
        batch_tokens=draw.choice([None, (prefill or longest) + draw.randint(0, 6)]),
        prefill_tokens=prefill,
        batch_requests=draw.choice([None, None, 1, 3]),
        hybrid=draw.random() < 0.6,
        chunked=chunked,
        evict=draw.random() < 0.3,
        partial=draw.random() < 0.3,
        pause=draw.random() < 0.6,
    )
    return Instance(name=f"crowded-{seed}", machine=machine, cost=_cost(draw), requests=requests)


def _request(draw: random.Random, id: str) -> Request:
    segments = [
        Segment(
            decode=draw.randint(1, 8),
            call=Call(
                duration=draw.choice([0, 1, draw.randint(2, 20)]),
                returns=draw.choice([0, 0, draw.randint(1, 5)]),
                handling=draw.choice(["preserve", "discard", "swap", "free"]),
            ),
        )
        for _ in range(draw.choice([0, 1, 1, 2, 3]))
    ]
    segments.append(Segment(decode=draw.randint(1, 8)))
    return Request(
        id=id, arrival=draw.choice([0, draw.randint(0, 30)]), prompt=draw.randint(1, 12), segments=tuple(segments)
    )


def _cost(draw: random.Random) -> Cost:
    """The unit cost, or work and transfers in one function (synchronous) or in two (overlapped)."""
    if draw.random() < 0.3:
        return Cost.unit()
    work = {"busy": draw.randint(0, 8), "tokens": draw.randint(0, 3), "decode_kv": draw.randint(0, 1)}
    transfer = {"swap_out_tokens": draw.randint(0, 3), "swap_in_tokens": draw.randint(0, 3), "swap_outs": 1}
    divisor = draw.randint(1, 5)
    if draw.random() < 0.5:
        return Cost((CostFunction(divisor=divisor, **work, **transfer),))
    return Cost((CostFunction(divisor=divisor, **work), CostFunction(divisor=divisor, **transfer)))
