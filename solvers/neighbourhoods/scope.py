"""Which instances the search takes, which objectives, and its options."""

from dataclasses import dataclass
from typing import NamedTuple

from bounds.tuning import Options, option
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Feature, Takes, features
from kvcore.instance import Instance

MOST_TOKENS = 2**40
"""Contexts and arrivals, summed over the requests: then no sum exceeds 64 bits."""


@dataclass(frozen=True)
class NeighbourhoodOptions(Options):
    """Large neighbourhood search: destroy and repair under annealing."""

    hot: float = option(5.0, "slots of delay that a move may bring by and large, at the start")
    cold: float = option(0.3, "slots of delay that a move may bring by and large, at the end")
    size: int = option(6, "requests that a move takes out, at the most", least=2)


class Moves(NamedTuple):
    """How the compiled search draws its moves: shares and sizes; `size` is the option of that name."""

    size: int
    single: float = 0.05  # take out one request
    anywhere: float = 0.1  # take out requests from anywhere in time
    reach: int = 20  # others take out what begins or ends within all slots divided by this, or 30
    late: float = 0.1  # are inserted later than they fit
    latest: int = 15  # by so many slots at the most
    unlimited: float = 0.5  # are inserted with no limit on slots of KV on the device
    host_first: float = 0.7  # are inserted with KV on the host first
    evicting: float = 0.4  # are inserted with evictions, where the machine evicts


TAKES = Takes((MACHINES | REQUESTS | CALLS | SUMS) - {Feature.ONE_PHASE, Feature.PARTIAL})


def why_not(instance: Instance, objective: str, most_slots: int = 200_000) -> str | None:
    """Return why the search does not take `instance` with this objective, or None if it does.

    There are arrays of all slots, so that they are at most `most_slots`.
    """
    if missing := TAKES.missing(features(instance, objective)):
        return missing
    arrivals = [request.arrival for request in instance.requests]
    if sum(request.peak + instance.machine.block for request in instance.requests) > MOST_TOKENS:
        return f"contexts, or blocks, of more than {MOST_TOKENS} tokens together"
    if max(arrivals) - min(arrivals) + max(r.call_time + r.output for r in instance.requests) > most_slots:
        return f"more than {most_slots} ticks from the first arrival on"
    return None
