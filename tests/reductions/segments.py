"""Late segments: without token budgets each segment runs without a break up to its end, after an eviction each run."""

from __future__ import annotations

from itertools import pairwise

from kvcore import Instance, Request, Schedule
from tests.reductions.lives import Life, lives, works


def late_segments(instance: Instance, schedule: Schedule) -> dict[str, Life]:
    """Return lives in which tokens come as late as the last of their run allows, and the KV of free calls is dropped.

    A run goes on up to an eviction, or to the end of its segment, which is in the slot in which it was. There, and in
    each slot before, at least as many of its tokens were there as now: no more is held. It is not held between runs,
    and that of a free call is dropped at once.
    """
    found = lives(instance, schedule)
    return {request.id: late_life(request, found[request.id]) for request in instance.requests}


def late_life(request: Request, life: Life) -> Life:
    late, device, host = Life(), 0, 0
    gone = [t for t in life if {"evict", "swap_out"} & life[t].keys()]
    slots = iter([towards[-1].slot for towards in works(request, life)])
    begins = 0
    for k, segment in enumerate(request.segments):
        ends = [next(slots) for _ in range(segment.decode)]
        cuts = [any(a < t < b for t in gone) for a, b in pairwise(ends)]
        first = min((t for t in gone if begins <= t < ends[0]), default=None)
        if device and first is not None:  # what a call preserved is evicted
            late[first], device = {"evict": device}, 0
        for g in range(segment.decode):
            last = next(i for i in range(g, segment.decode) if i == segment.decode - 1 or cuts[i])
            does = late.setdefault(ends[last] - (last - g), {})
            if host:
                does["swap_in"], device, host = host, host, 0
            does["work"] = request.known[k] + g - device
            device = request.known[k] + g
            if g == last and last < segment.decode - 1:
                late[ends[g] + 1], device = {"evict": device}, 0
        begins = ends[-1] + 1
        if segment.call and segment.call.handling != "preserve":
            moved = segment.call.handling == "swap"
            late[begins] = {"swap_out" if moved else "drop": device}
            device, host = 0, device if moved else 0
    return late
