"""The search over batch boundaries, with its schedule."""

from typing import NamedTuple

from bounds.events import scheduled
from kvcore.certificates.budget import Most
from kvcore.certificates.events import EventSearch


class Found(NamedTuple):
    """What a search came to; the schedule, if it has ended with one."""

    bound: object
    states: int
    is_optimum: bool
    is_over: bool
    schedule: object


def outcome(search, states=None):
    """Run a search."""
    end = search.run(states)
    return Found(end.bound, end.labels, end.is_found, end.is_over, scheduled(search) if end.is_found else None)


def find(instance, objective, states=Most.states, upper=None, free_drops=False):
    """Search until an optimum is found, nothing is left below `upper`, or `states` were seen."""
    return outcome(EventSearch(instance, objective, states, upper, free_drops=free_drops))
