"""The search over batch boundaries: as a bound, and narrow at first, where it finds schedules."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import comb, prod

from bounds.task import Proposal, Task, most_options
from kvcore.certificates.events import MOST_STATES, Events, EventSearch, check_size
from kvcore.certificates.proof import InvalidCertificate
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Schedule

FIRST, GROWTH = 1000, 4
"""States after which there is a first proof, and how many times more there are until the next."""
MOST_JOINT_STATES = 10**7
"""Joint states of the requests beyond which no search is begun for a bound alone."""
MOST_OPTIONS = 10**8
"""Options of local graphs, as a rough count has them, beyond which none is begun."""
WIDTHS, NARROW_STATES = (30, 300, 3000), 400_000
"""States with the same tokens left that narrow searches follow, and states that one of them has room for."""


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
    found = _proofs(task.instance, task.objective, lambda: task.deadline, task.upper)
    return (proposal for proposal in found if isinstance(proposal, Proposal))


def climb(
    instance: Instance,
    objective: str,
    deadline: Callable[[], float] = lambda: math.inf,
    upper: Value | None = None,
    news: Callable[[], Value | None] = lambda: None,
) -> Iterator[Proposal | Schedule]:
    """Yield ever better schedules, which have passed the referee, and proofs of ever higher bounds, until they meet.

    `upper` is the value of a schedule, `news` says that of one that others found meanwhile. Raises BadInput where
    requests have too many options, and neither is found.
    """
    found = False
    for schedule in _narrow(instance, objective, deadline, upper):
        upper, found = objective_value(verify_schedule(instance, schedule), objective), True
        yield schedule
    try:
        for each in _proofs(instance, objective, deadline, upper):
            if isinstance(each, Schedule):
                verify_schedule(instance, each)
            yield each
            known = news()
            if known is not None and isinstance(each, Proposal) and each.value is not None and each.value >= known:
                return
    except InvalidCertificate as error:
        if not found:
            raise BadInput(f"events: {error}") from None


def _narrow(
    instance: Instance, objective: str, deadline: Callable[[], float], upper: Value | None
) -> Iterator[Schedule]:
    """Yield what narrow searches find, where prefills and moves are whole, and where they need not be."""
    machine, variants = instance.machine, [instance]
    longest = max(request.peak for request in instance.requests)
    if (machine.chunked or machine.partial) and (machine.prefill_limit or longest) >= longest:
        variants.insert(0, instance.replace(machine=machine.replace(chunked=False, partial=False)))
    for made in variants:
        graph = None
        with suppress(InvalidCertificate, InvalidSchedule):
            check_options(made)
            for width in WIDTHS:
                search = EventSearch(made, objective, NARROW_STATES, upper, width=width, graph=graph)
                graph = search.graph
                found = search.run(stops=lambda: time.process_time() > deadline())
                if found.schedule is not None:
                    schedule = found.schedule.replace(instance_sha256=instance.sha256)
                    upper = objective_value(verify_schedule(instance, schedule), objective)
                    yield schedule


def _proofs(
    instance: Instance, objective: str, deadline: Callable[[], float], upper: Value | None
) -> Iterator[Proposal | Schedule]:
    check_options(instance)
    search, states = EventSearch(instance, objective, MOST_STATES, upper), FIRST
    while True:
        found = search.run(states, (lambda: time.process_time() > deadline()) if states > FIRST else (lambda: False))
        yield Proposal(Events(states=found.states, target=search.target), found.bound)
        if found.schedule is not None:
            yield found.schedule
        if found.is_over or found.states == MOST_STATES or time.process_time() > deadline():
            return
        states = min(states * GROWTH, MOST_STATES)


def check_options(instance: Instance) -> None:
    """Raise InvalidCertificate where local graphs would take long, only to be refused."""
    if most_options(instance) > MOST_OPTIONS:
        raise InvalidCertificate(f"requests have too many options: about {most_options(instance)}")


def joint_states(instance: Instance) -> int:
    """Return how many joint states requests may have, counting only tokens generated, and like requests as one kind."""
    kinds = Counter(request.shape for request in instance.requests)
    return prod(comb(kind.output + count, count) for kind, count in kinds.items())
