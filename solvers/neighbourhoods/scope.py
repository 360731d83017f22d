"""The instances and objectives of the search, and its options."""

from collections import namedtuple
from dataclasses import dataclass

from bounds.tuning import Options, option
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Feature, Takes, features
from kvcore.instance import Instance

MOST_TOKENS = 2**40
"""Contexts and arrivals, summed over the requests: then no sum exceeds 64 bits."""


@dataclass(frozen=True)
class NeighbourhoodOptions(Options):
    """Large neighbourhood search: destroy and repair under annealing, and for rigid requests a search over starts."""

    hot: float = option(5.0, "slots of delay that a move may bring by and large, at the start")
    cold: float = option(0.3, "slots of delay that a move may bring by and large, at the end")
    size: int = option(6, "requests that a move takes out, at the most", least=2)

    look_seconds = 0.2  # seconds between two looks at the clock
    single = 0.05  # share of the moves that take out one request
    anywhere = 0.1  # share that take out requests from anywhere in time
    reach = 20  # others take out what begins or ends within all slots divided by this, or 30
    late = 0.1  # share of the requests inserted later than they fit
    latest = 15  # slots by which these are later, at the most
    unlimited = 0.5  # share inserted with no limit on slots of KV on the device
    host_first = 0.7  # share inserted with KV on the host first
    evicting = 0.4  # share inserted with evictions, where the machine evicts
    most_slots = 200_000  # slots that a schedule may take: arrays of slots are kept
    most_parts = 24  # parts that a prefill is split into, at the most
    most_runs = 24  # pieces that runs between two evictions have room for in each segment
    most_places = 8  # changes of place, device or host, that a request has room for in each call
    soft_share = 0.8  # part of a search over rigid requests in which memory may be exceeded
    roomy = 4  # that search needs memory for so many requests at their largest
    most_loads = 2**25  # numbers in the table of loads of that search
    floor = 0.25  # part of the largest price that memory costs in the last slot, too
    early = 0.7  # part of its moves that lead to its second heat and price
    heat = (10.0, 0.5, 0.25)  # heats of that search: first, then, at the end
    dear = (1.0, 2.0, 15.0)  # factors of its prices: first, then, at the end
    shift = 8  # slots by which that search shifts a request, at the most
    jitter = 2  # slots by which exchanged requests miss each other's place, at the most
    neighbours = 40  # exchanged requests are at most so many ranks of area apart
    reprice = 4096  # moves between two changes of the prices


Moves = namedtuple("Moves", "size single anywhere reach late latest unlimited host_first evicting")
"""The options of destroy and repair for its compiled search."""
Shifts = namedtuple("Shifts", "shift jitter neighbours reprice")
"""The options of the search over starts for its compiled part."""


TAKES = Takes((MACHINES | REQUESTS | CALLS | SUMS) - {Feature.ONE_PHASE, Feature.PARTIAL})


def why_not(instance: Instance, objective: str) -> str | None:
    """Return why the search declines `instance` with this objective (None: it does not)."""
    if missing := TAKES.missing(features(instance, objective)):
        return missing
    most_slots, arrivals = NeighbourhoodOptions.given().most_slots, [request.arrival for request in instance.requests]
    if sum(request.peak + instance.machine.block for request in instance.requests) > MOST_TOKENS:
        return f"contexts, or blocks, of more than {MOST_TOKENS} tokens together"
    if max(arrivals) - min(arrivals) + max(r.call_time + r.output for r in instance.requests) > most_slots:
        return f"more than {most_slots} ticks from the first arrival on"
    return None
