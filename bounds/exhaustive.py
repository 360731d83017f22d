"""Exhaustive search as a bound: how many states to look at in the time, where there is hope to see enough."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from math import comb, prod

from bounds.task import Proposal, Task
from kvcore.certificates.exhaustive import MOST_STATES, Exhaustive, check_size, look
from kvcore.errors import BadInput
from kvcore.instance import Instance

FIRST, GROWTH = 1000, 4
"""States of the first search, and how many times more the next one may see."""
MOST_JOINT_STATES = 10**7
"""Joint states of the requests beyond which no search is begun."""


def propose_exhaustive(task: Task) -> Iterator[Proposal]:
    """Return the proofs of searches, each longer than the one before, while the time allows; the first is always made.

    Raises BadInput where requests have too many joint states for any hope.
    """
    check_size(task.instance)
    states = joint_states(task.instance)
    if states > MOST_JOINT_STATES:
        raise BadInput(
            f"an exhaustive search is not begun: requests have {states:.0e} joint states, more than {MOST_JOINT_STATES}"
        )
    return _searches(task)


def _searches(task: Task) -> Iterator[Proposal]:
    states = FIRST
    while True:
        began = time.monotonic()
        found = look(task.instance, task.objective, states)
        now = time.monotonic()
        yield Proposal(Exhaustive(states=found.states))
        reached = found.is_optimum or (task.upper is not None and found.bound >= task.upper)
        # The next search, and checking it, take so many times longer.
        too_late = now + 2 * GROWTH * (now - began) > task.deadline
        if reached or too_late or states == MOST_STATES:
            return
        states = min(states * GROWTH, MOST_STATES)


def joint_states(instance: Instance) -> int:
    """Return how many joint states requests may have, counting only tokens generated, and like requests as one kind."""
    kinds = Counter(request.shape for request in instance.requests)
    return prod(comb(kind.output + count, count) for kind, count in kinds.items())
