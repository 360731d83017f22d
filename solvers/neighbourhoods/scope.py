"""Which instances the search takes, and which objectives."""

from __future__ import annotations

from kvcore.instance import Instance

OBJECTIVES = ("total-flow-time", "weighted-flow-time", "normalized-latency", "total-ttft")
"""Sums over requests of a rate times the end, or the first token, of the request."""

MOST_SLOTS = 200_000
"""Slots that a schedule may take: arrays of slots are kept."""
MOST_TOKENS = 2**40
"""Contexts and arrivals, summed over the requests: then no sum exceeds 64 bits."""


def why_not(instance: Instance, objective: str) -> str | None:
    """Return why the search does not take `instance` with this objective, or None if it does."""
    machine = instance.machine
    arrivals = [request.arrival for request in instance.requests]
    reasons = {
        f"the objective {objective} (it takes {', '.join(OBJECTIVES)})": objective not in OBJECTIVES,
        "batches that last more than one tick": not instance.cost.always_one_tick,
        "prefill and decode in different batches (no `hybrid`)": not machine.hybrid,
        "contexts dropped or swapped in part (`partial`)": machine.partial,
        f"contexts, or blocks, of more than {MOST_TOKENS} tokens together":
            sum(request.peak + machine.block for request in instance.requests) > MOST_TOKENS,
        f"more than {MOST_SLOTS} ticks from the first arrival on":
            max(arrivals) - min(arrivals) + max(r.call_time + r.output for r in instance.requests) > MOST_SLOTS,
    }  # fmt: skip
    return next((reason for reason, applies in reasons.items() if applies), None)
