"""The search over batch boundaries as a bound: as far as the time allows, where there is hope to see enough."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from math import comb, prod

from bounds.task import Proposal, Task
from kvcore.certificates.events import MOST_STATES, Events, EventSearch, check_size
from kvcore.errors import BadInput
from kvcore.instance import Instance

FIRST, GROWTH = 1000, 4
"""States after which there is a first proof, and how many times more there are until the next."""
MOST_JOINT_STATES = 10**7
"""Joint states of the requests beyond which no search is begun."""


def propose_events(task: Task) -> Iterator[Proposal]:
    """Return the proofs of a search that goes on while the time allows; the first is always made.

    Raises BadInput where requests have too many joint states for any hope.
    """
    check_size(task.instance)
    states = joint_states(task.instance)
    if states > MOST_JOINT_STATES:
        raise BadInput(
            f"an exhaustive search is not begun: requests have {states:.0e} joint states, more than {MOST_JOINT_STATES}"
        )
    return _proofs(task)


def _proofs(task: Task) -> Iterator[Proposal]:
    search = EventSearch(task.instance, task.objective, MOST_STATES, task.upper)
    states = FIRST

    def stops() -> bool:
        return time.monotonic() > task.deadline

    while True:
        found = search.run(states, stops if states > FIRST else lambda: False)
        yield Proposal(Events(states=found.states, target=search.target), found.bound)
        if found.is_over or found.states == MOST_STATES or stops():
            return
        states = min(states * GROWTH, MOST_STATES)


def joint_states(instance: Instance) -> int:
    """Return how many joint states requests may have, counting only tokens generated, and like requests as one kind."""
    kinds = Counter(request.shape for request in instance.requests)
    return prod(comb(kind.output + count, count) for kind, count in kinds.items())
