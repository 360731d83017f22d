"""Which instances the search takes, and which objectives."""

from __future__ import annotations

from kvcore.instance import Instance
from solvers.neighbourhoods.moves import NeighbourhoodOptions

OBJECTIVES = ("total-flow-time", "weighted-flow-time", "normalized-latency", "total-ttft")
"""Sums over requests of a rate times the end, or the first token, of the request."""

MOST_TOKENS = 2**40
"""Contexts and arrivals, summed over the requests: then no sum exceeds 64 bits."""


def why_not(instance: Instance, objective: str) -> str | None:
    """Return why the search does not take `instance` with this objective, or None if it does."""
    machine, most_slots = instance.machine, NeighbourhoodOptions.given().most_slots
    arrivals = [request.arrival for request in instance.requests]
    reasons = {
        f"the objective {objective} (it takes {', '.join(OBJECTIVES)})": objective not in OBJECTIVES,
        "batches that last more than one tick": not instance.cost.always_one_tick,
        "prefill and decode in different batches (no `hybrid`)": not machine.hybrid,
        "contexts dropped or swapped in part (`partial`)": machine.partial,
        f"contexts, or blocks, of more than {MOST_TOKENS} tokens together":
            sum(request.peak + machine.block for request in instance.requests) > MOST_TOKENS,
        f"more than {most_slots} ticks from the first arrival on":
            max(arrivals) - min(arrivals) + max(r.call_time + r.output for r in instance.requests) > most_slots,
    }  # fmt: skip
    return next((reason for reason, applies in reasons.items() if applies), None)
