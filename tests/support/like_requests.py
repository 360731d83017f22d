"""Tiny instances of requests that are alike."""

import random

from kvcore import Cost, Instance, Machine, Request, Segment
from kvcore.cost import CostFunction


def like_requests(seed):
    """Return a tiny instance of two to four requests of one or two kinds, with a random linear cost."""
    draw = random.Random(seed)
    kinds = [(draw.randint(1, 3), draw.randint(1, 4)) for _ in range(draw.choice((1, 1, 2)))]
    pairs = [draw.choice(kinds) for _ in range(draw.choice((2, 3, 3, 4)))]
    block = draw.choice((1, 1, 2))
    blocks = [-(-(prompt + output - 1) // block) for prompt, output in pairs]
    evict = draw.random() < 0.7
    tokens = draw.randint(0, 3)
    cost = CostFunction(
        busy=draw.choice((1, 3, 10, 30)),
        tokens=tokens,
        generated=draw.randint(0, 2),
        prefill_requests=draw.randint(0, 2),
        prefill_kv=draw.randint(0, 2),
        decode_kv=draw.randint(0, tokens if evict else 3),
        decode_requests=draw.randint(0, 2) if not evict else 0,
    )
    return Instance(
        name=f"like-{seed}",
        machine=Machine(
            memory=block * draw.randint(max(blocks), sum(blocks)), block=block, evict=evict,
            chunked=draw.random() < 0.7,
        ),
        cost=Cost((cost,)),
        requests=tuple(
            Request(id=f"R{i}", arrival=draw.randint(0, 3), prompt=prompt, segments=(Segment(decode=output),))
            for i, (prompt, output) in enumerate(pairs)
        ),
    )  # fmt: skip
