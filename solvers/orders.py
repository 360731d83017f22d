"""Orders of requests that share contents, and waits."""

import random
from collections.abc import Callable, Generator, Sequence
from typing import Any

from heuristics import Policy
from heuristics.engine.sharing import Foresight
from heuristics.policies.figure_1 import Listed
from kvcore.instance import Request


def ordered(
    places: Any, requests: Sequence[Request], draw: random.Random, go_on: Callable[[int], bool]
) -> Generator[Policy, float, None]:
    """Yield Figure 1's rule in changed orders; requests may wait for arrivals of others."""
    n, arrivals = len(requests), sorted({request.arrival for request in requests})
    best, waits, patience = [float(place) for place in places], [0] * n, 0.0
    value, made = (yield Listed(best).sharing(Foresight(patience, waits))), 1
    while n > 1 and go_on(made):
        made += 1
        keys, starts, other_patience = [*best], [*waits], patience
        for _ in range(draw.choice((1, 1, 2, 3))):
            i, j = draw.sample(range(n), 2)
            kind = draw.random()
            if kind < 0.4:
                keys[i], keys[j] = keys[j], keys[i]
            elif kind < 0.6:
                keys[i] = keys[j] + draw.choice((-0.5, 0.5)) * draw.random()
            elif kind < 0.9:
                starts[i] = draw.choice((0, *arrivals))
            else:
                other_patience = draw.choice((0.0, 1.0))
        found = yield Listed(keys).sharing(Foresight(other_patience, starts))
        if found <= value:
            best, waits, patience, value = keys, starts, other_patience, found
