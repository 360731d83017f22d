"""Which instances the method takes, how large they may be, and which relaxation it begins with.

No number exceeds 62 bits. Let T be the slots (`most_slots`), at most `MOST_SLOTS`, and u the most that a request of any
kind takes of a resource in a slot.

* A path of one request costs at most `PATH` units: it is its rate times at most 3 T ticks (T slots, and after them
  twice what it takes alone), and `too_large` refuses what exceeds `PATH`. The prices that it pays are at most `PATH`
  more: a price is never above `PATH` / (5 T u) (`PathNetwork.dearest`; any price gives a valid bound). So a path costs
  at most 2^43.
* There are at most 2^13 requests, so that the sum of their paths is at most 2^56. So is what all there is costs at
  these prices: a limit counts as no more than all requests take together, at most 2^13 u in each of T slots.
* A cutoff is at most `FAR`, 2^60. No sum has more than two terms of that size, so all stay below 2^62.
"""

from __future__ import annotations

from formulations.chains import chunks
from kvcore.instance import Instance, Machine, Request
from solvers.lagrange.setting import make_setting, swaps_early

OBJECTIVES = ("total-flow-time", "weighted-flow-time")
"""Sums over requests of a rate times the time up to the end."""

UNIT = 1024
"""Costs and prices are multiples of 1/UNIT of a tick."""
PATH = 2**42
"""Units that the path of one request costs at most, and those that it pays at most in prices."""
FAR = 2**60
"""More than any sum of paths costs."""

MOST_SLOTS, MOST_REQUESTS = 2**16, 2**13
MOST_TOKENS = 2**27
"""Contexts of all requests together: sets of them are kept as bits, one for each token."""
MOST_OPTIONS = 200_000
"""A request with more options is refused: its shortest paths would take longer than they are worth."""


def why_not(instance: Instance, objective: str) -> str | None:
    """Say why a schedule is not a path for each request within the limits of each slot, and nothing else (or None)."""
    machine = instance.machine
    if objective not in OBJECTIVES:
        return f"does {', '.join(OBJECTIVES)}, not {objective}"
    if not instance.cost.always_one_tick:
        return "needs batches that all last one tick"
    for switch, wanted in (("hybrid", True), ("partial", False)):
        if getattr(machine, switch) != wanted:
            return f"needs a machine {'with' if wanted else 'without'} `{switch}`"
    if not machine.pause and (machine.batch_tokens, machine.prefill_tokens, machine.batch_requests) != (None,) * 3:
        return "needs a machine with `pause`, or without budgets of tokens and requests"
    if not swaps_early(instance):
        evicts = ", and a machine without `evict`" if machine.evict else ""
        return f"needs a host with room for all contexts where calls order swaps{evicts}"
    return too_large(instance, objective)


def too_large(instance: Instance, objective: str) -> str | None:
    """Say why an instance is too large (None: it is not)."""
    requests, slots = instance.requests, most_slots(instance)
    origin = instance.first_arrival
    needed = MARGIN + max(request.arrival - origin + _slots_alone(instance.machine, request) for request in requests)
    weight = max(request.weight for request in requests) if objective == "weighted-flow-time" else 1
    tokens = sum(request.peak for request in requests)
    if len(requests) > MOST_REQUESTS:
        return f"takes at most {MOST_REQUESTS} requests, not {len(requests)}"
    if needed > slots:
        return f"takes at most {MOST_SLOTS} slots, and one request alone may need {needed}"
    if weight * 3 * slots * UNIT > PATH:
        return f"takes weights of at most {PATH // (3 * slots * UNIT)} in {slots} slots, not {weight}"
    if tokens > MOST_TOKENS:
        return f"takes contexts of at most {MOST_TOKENS} tokens together, not {tokens}"
    most = 0 if late_segments(instance) else make_setting(instance).most_partial
    for request in requests:
        if options_at_least(instance.machine, request, most) > MOST_OPTIONS:
            return f"takes at most {MOST_OPTIONS} options a request, and {request.id} has more (coarser blocks: fewer)"
    return None


MARGIN = 32
"""Slots looked at beyond those that a request needs alone."""


def most_slots(instance: Instance) -> int:
    """Return the slots that are looked at at the most: twice what the requests take one after another."""
    arrivals = [request.arrival for request in instance.requests]
    serial = max(arrivals) - min(arrivals) + sum(_slots_alone(instance.machine, r) for r in instance.requests)
    return min(MOST_SLOTS, 2 * (serial + MARGIN))


def _slots_alone(machine: Machine, request: Request) -> int:
    """Return slots in which a request alone can be done, also if each call is followed by a refill."""
    refills = len(request.segments) * (chunks(machine, request.peak) + 1)
    return request.call_time + request.output + refills


def options_at_least(machine: Machine, request: Request, most: int | None) -> int:
    """Return options that a request has at the least: one for each output, and one for each part of its prompt.

    From each amount of KV up to `most` (None: any), each part is one that is within the budget and leaves at most
    `most`. Where KV may be evicted, there are as many after each output.
    """
    most = request.prompt - 1 if most is None else min(most, request.prompt - 1)
    part = most if machine.prefill_limit is None else min(machine.prefill_limit, most)
    parts = part * (part + 1) // 2 + part * (most - part)
    return request.output + parts * (request.output if machine.evict else 1)


def late_segments(instance: Instance) -> bool:
    """Whether the relaxation to segments that run without a break up to their end is used."""
    machine = instance.machine
    limit = machine.prefill_limit
    fits = limit is None or limit >= max(request.peak for request in instance.requests)
    return machine.batch_requests is None and fits
