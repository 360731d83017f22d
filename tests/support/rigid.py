"""Random instances whose requests run from start to end, and what of them can run together."""

import random
from collections import Counter
from itertools import combinations_with_replacement

from tests.support.build import instance as make
from tests.support.build import request

RIGID = {"chunked": False, "evict": False, "pause": False, "hybrid": True}


def rigid(seed, requests=(2, 4), decode=4, budgets=True, online=False):
    """Return a small random rigid instance: blocks, budgets, weights and requests that are alike included.

    Arrivals are equal, or differ if `online` (then the only budget is that of requests).
    """
    draw = random.Random(seed)
    arrival = draw.choice((0, 0, 3))
    made = [
        request(f"R{i}", draw.randint(1, 3), draw.randint(1, decode), weight=draw.choice((1, 1, 2, 5)),
                arrival=draw.randint(2, 6) if online else arrival)
        for i in range(draw.randint(*requests))
    ]  # fmt: skip
    block = draw.choice((1, 1, 2))
    peaks = [-(-r.peak // block) * block for r in made]
    machine = {"memory": draw.randint(max(peaks), sum(peaks)), "block": block, "host_memory": 0, **RIGID}
    if budgets and draw.random() < 0.5:
        machine["batch_requests"] = draw.choice((None, 1, 2, 3))
    if budgets and not online and draw.random() < 0.5:
        machine["batch_tokens"] = draw.choice((None, 3, 4, 5))
        machine["prefill_tokens"] = draw.choice((None, 3)) if machine["batch_tokens"] else None
    return make(*made, **machine)


def running_sets(kinds, memory):
    """Yield the sets of (remaining loads, kind if it starts) that fit to their ends, as the definition says."""
    elements = {(kind.load[q:], k if q == 0 else -1) for k, kind in enumerate(kinds) for q in range(kind.length)}
    groups = Counter(kind.load[-1] for kind in kinds for _ in range(kind.count))
    for size in range(sum(groups.values()) + 1):
        for chosen in combinations_with_replacement(sorted(elements), size):
            if (
                all(n <= groups[h] for h, n in Counter(load[-1] for load, _ in chosen).items())
                and all(n <= kinds[k].count for k, n in Counter(k for _, k in chosen).items() if k >= 0)
                and _fits(chosen, memory)
            ):
                yield chosen


def _fits(chosen, memory):
    ticks = range(max((len(load) for load, _ in chosen), default=0))
    return all(sum(load[tick] for load, _ in chosen if tick < len(load)) <= memory for tick in ticks)
