"""The search over batch boundaries: as a bound; first schedules just in time, where it takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import comb, prod

import numpy as np

from bounds import just_in_time, traced
from bounds.task import Proposal, Task, most_options
from bounds.tuning import Options, option
from kvcore.certificates import frontier, labels
from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.certificates.events import Events, EventSearch, check_size
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import SUMS, Value, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Batch, Schedule


@dataclass(frozen=True)
class EventOptions(Options):
    """The search over batch boundaries."""

    first_states: int = option(1000, "states after which there is a first proof")
    most_joint: int = option(10**7, "joint states of the requests beyond which no search is begun for a bound alone")

    most_options = 10**8  # options of local graphs, by a rough count, beyond which none is begun
    widths = (30, 300)  # labels with the same tokens left that are followed for schedules just in time


RELAXED = (*SUMS, "makespan", "busy-time")
"""Where drops are free, a request with KV is as good as one without for these objectives."""


def propose_events(task: Task) -> Iterator[Proposal | Schedule]:
    """Return the proofs of a search within the time; the first is always made.

    Raises BadInput where there are too many joint states for any hope, unless schedules are wanted, too: `climb`.
    """
    check_size(task.instance)
    if task.finds:
        return climb(task)
    states, most = joint_states(task.instance), EventOptions.given().most_joint
    if states > most:
        raise BadInput(f"an exhaustive search is not begun: requests have {states:.0e} joint states, more than {most}")
    return _proofs(task, task.upper)


def climb(task: Task) -> Iterator[Proposal | Schedule]:
    """Yield ever better schedules, all refereed, and proofs of higher bounds, until they meet.

    Raises BadInput where requests have too many options for both.
    """
    upper, found = task.upper, False
    for schedule in _timely(task):
        upper, found = objective_value(verify_schedule(task.instance, schedule), task.objective), True
        yield schedule
    try:
        yield from _proofs(task, upper)
    except InvalidCertificate as error:
        if not found:
            raise BadInput(f"events: {error}") from None


def _timely(task: Task) -> Iterator[Schedule]:
    instance, objective, upper, options = task.instance, task.objective, task.upper, EventOptions.given()
    if most_options(instance) <= options.most_options or not just_in_time.applies(instance, objective):
        return
    near, *wider = 200, 1000  # labels with the same tokens left that are followed near it
    widths = options.widths
    for width, is_near in [(near, True), *((width, False) for width in widths), *((width, True) for width in wider)]:
        given = instance, objective, width, upper, task.stops
        with suppress(InvalidCertificate):
            for schedule in filter(
                None, just_in_time.search_near(*given) if is_near else [just_in_time.search(*given)]
            ):
                upper = objective_value(verify_schedule(instance, schedule), objective)
                yield schedule


def _proofs(task: Task, upper: Value | None) -> Iterator[Proposal | Schedule]:
    """Two searches in turns: by the rules, and where drops are free, if the referee takes its schedule."""
    check_options(task.instance)
    options = EventOptions.given()
    searches, states = [_search(task, upper)], options.first_states
    while searches:
        for search in searches[:]:
            found = search.run(states, task.stops if states > options.first_states else (lambda: False))
            proof = Events(states=found.labels, target=search.target, free_drops=search.free_drops)
            yield Proposal(proof, found.bound)
            schedule = scheduled(search) if found.is_found else None
            if schedule is not None and not (search.free_drops and refused(task.instance, schedule)):
                verify_schedule(task.instance, schedule)
                yield schedule
                return
            known = [value for value in (upper, task.news()) if value is not None]
            if task.is_over() or (known and found.bound >= min(known)):
                return
            if found.is_over or found.labels == Most.states:
                searches.remove(search)
        if states == options.first_states and task.objective in RELAXED:
            searches.insert(0, _search(task, upper, free_drops=True))
        states = min(states * 4, Most.states)


def _search(task: Task, upper: Value | None, free_drops: bool = False) -> EventSearch:
    return EventSearch(task.instance, task.objective, Most.states, upper, free_drops=free_drops)


def scheduled(search: EventSearch) -> Schedule:
    """Return the batches up to the next state. For busy-time, they wait for all calls.

    It attains the optimum if the search has found one, but with free drops the referee may refuse it.
    """
    s, f, order, requests = search.setting, search.frontier, search.order, search.instance.requests
    ids, calls = list(order), dict.fromkeys(order, 0)
    path = traced.path(f.labels, int(f.labels.heap[0]))
    busy = search.objective == "busy-time"
    now = max(request.arrival for request in requests) if busy else 0
    batches, child = [], f.start.copy()
    for before, after in pairwise(path):
        pick, ticks = f.picks[after].astype(np.int64), 1
        frontier.pass_time(s, f.rows[before], 0, np.array([labels.NO]), int(f.delay[after]), f.start)
        now += int(f.delay[after])
        if pick[0] != labels.NO:
            ticks = int(frontier.duration(s, s.load[pick].sum(axis=0)[None], 0))
            moves = zip(("drop", "swap_out", "swap_in", "work"), search.graph.moves[pick].T.tolist(), strict=True)
            names = [requests[i].id for i in ids]
            tokens = {kind: {id: k for id, k in zip(names, each, strict=True) if k} for kind, each in moves}
            batches.append(Batch.model_validate({"start": now, **tokens}))
        frontier.pass_time(s, f.start, 0, pick, ticks, child)
        now += ticks
        returned = now
        for i, chosen in zip(ids, pick, strict=True):
            if pick[0] != labels.NO and search.graph.away[chosen] >= 0:
                returned = max(returned, now + requests[i].calls[calls[i]].duration)
                calls[i] += 1
        now = returned if busy else now
        # As `arrange` does; the sort is stable.
        places = sorted(range(len(ids)), key=lambda j: (s.group[j], *child[j]))
        ids = [ids[j] for j in places]
    return Schedule(instance_sha256=search.instance.sha256, batches=tuple(batches))


def refused(instance: Instance, schedule: Schedule) -> bool:
    """Whether the referee refuses a schedule."""
    try:
        verify_schedule(instance, schedule)
    except InvalidSchedule:
        return True
    return False


def check_options(instance: Instance) -> None:
    """Raise InvalidCertificate where local graphs would take long, only to be refused."""
    if most_options(instance) > EventOptions.given().most_options:
        raise InvalidCertificate(f"requests have too many options: about {most_options(instance)}")


def joint_states(instance: Instance) -> int:
    """Return the number of joint states, by tokens generated alone, identical requests as one kind."""
    kinds = Counter(request.shape for request in instance.requests)
    return prod(comb(kind.output + count, count) for kind, count in kinds.items())
