"""Orders of requests that share contents, waits, and cuts of their first chunks."""

import math
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

from heuristics import Policy
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.sharing import Foresight
from heuristics.engine.view import View
from heuristics.policies.figure_1 import Listed
from heuristics.policies.prefix_eviction import Belady
from kvcore.instance import LIMIT, Request
from kvcore.metrics import Value


class Placed(Belady):
    """As vllm-v1-prefix-belady, in a given order."""

    priority = True

    def __init__(self, keys: Sequence[float], not_before: Sequence[int]) -> None:
        in_order = sorted(range(len(keys)), key=keys.__getitem__)
        self.turns, self.not_before = {i: turn for turn, i in enumerate(in_order)}, not_before

    def rank(self, job: Job) -> tuple[int, int]:
        """Return its turn."""
        return self.turns[job.index], job.index

    def step(self, view: View, plan: Plan) -> None:
        """Leave out requests that may not start."""
        late = [job for job in self.waiting if view.now < self.not_before[job.index]]
        self.waiting = [job for job in self.waiting if job not in late]
        super().step(view, plan)
        for job in late:
            self.queue(job)


class Order(NamedTuple):
    """Keys, the first ticks, the tokens of first chunks, patience, and which rule runs."""

    keys: list[float]
    starts: list[int]
    first: list[int]
    patience: float = 0.0
    placed: bool = False

    def policy(self) -> Policy:
        """Return its policy."""
        if self.placed:
            return Placed(self.keys, self.starts)
        return Listed(self.keys).sharing(Foresight(self.patience, self.starts, self.first))


def ordered(
    places: Any,
    requests: Sequence[Request],
    ticks: Callable[[], Iterable[int]],
    draw: random.Random,
    go_on: Callable[[int], bool],
    stuck: int = 200,
) -> Generator[Policy, Value | float, None]:
    """Yield rules in changed orders; requests may wait for arrivals.

    Once that gains nothing in `stuck` tries, in every second one they may also wait for `ticks`, or begin with less.
    """
    n, arrivals = len(requests), sorted({request.arrival for request in requests})
    by_arrival = [0.0] * n
    for place, i in enumerate(sorted(range(n), key=lambda i: requests[i].arrival)):
        by_arrival[i] = place
    value: Value | float = math.inf
    no_start, whole = [0] * n, [LIMIT] * n
    best, made, gained = Order(by_arrival, no_start, whole), 0, 0
    for keys in ([float(place) for place in places], by_arrival):
        for placed in (False, True):
            order = Order(keys, no_start, whole, placed=placed)
            found = yield order.policy()
            if found < value:
                best, value = order, found
    while n > 1 and go_on(made):
        made += 1
        more = made - gained > stuck and made % 2
        order = _changed(best, (0, *arrivals, *(ticks() if more else ())), requests if more else (), draw)
        found = yield order.policy()
        gained = made if found < value else gained
        if found <= value:
            best, value = order, found


def _changed(order: Order, ticks: Sequence[int], requests: Sequence[Request], draw: random.Random) -> Order:
    keys, starts, first, patience, placed = [*order.keys], [*order.starts], [*order.first], *order[3:]
    for _ in range(draw.choice((1, 1, 2, 3))):
        i, j = draw.sample(range(len(keys)), 2)
        kind = draw.random()
        if kind < 0.4:
            keys[i], keys[j] = keys[j], keys[i]
        elif kind < 0.6:
            keys[i] = keys[j] + draw.choice((-0.5, 0.5)) * draw.random()
        elif kind < 0.75 and requests:
            first[i] = draw.choice((LIMIT, draw.randint(1, requests[i].prompt)))
        elif kind < 0.9:
            starts[i] = draw.choice(ticks)
        elif kind < 0.95:
            patience = draw.choice((0.0, 1.0))
        else:
            placed = not placed
    return Order(keys, starts, first, patience, placed)
