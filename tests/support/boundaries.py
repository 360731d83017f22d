"""The search over batch boundaries, with its schedule."""

from dataclasses import dataclass

from bounds.events import scheduled
from kvcore.certificates.events import MOST_STATES, EventSearch, Outcome


@dataclass(frozen=True)
class Found(Outcome):
    """What a search came to; the schedule, if it has ended with one."""

    schedule: object = None


def outcome(search, states=None):
    """Run a search."""
    end = search.run(states)
    return Found(**vars(end), schedule=scheduled(search) if end.is_optimum else None)


def find(instance, objective, states=MOST_STATES, upper=None, free_drops=False):
    """Search until an optimum is found, nothing is left below `upper`, or `states` were seen."""
    return outcome(EventSearch(instance, objective, states, upper, free_drops=free_drops))
