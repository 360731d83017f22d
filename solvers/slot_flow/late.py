"""The relaxation to segments that run without a break up to their end (docs/arc_flow.md, "Late segments")."""

from __future__ import annotations

import numpy as np

from kvcore.certificates.slot_graph import Integers, LocalGraphs
from kvcore.instance import Instance


def late_segments(instance: Instance) -> Instance | None:
    """Return the instance on a machine without token budgets, parts of prefills and `pause` (None: that may cost).

    For flow times no schedule of the instance is better than the best of that one in which every tick is a batch.
    """
    machine, limit = instance.machine, instance.machine.prefill_limit
    handlings = {call.handling for request in instance.requests for call in request.calls}
    if (
        not machine.hybrid
        or machine.partial
        or machine.batch_requests is not None
        or (limit is not None and limit < max(request.peak for request in instance.requests))
        or (machine.host_memory is not None and "swap" in handlings)
    ):
        return None
    late = {"batch_tokens": None, "prefill_tokens": None, "chunked": False, "pause": False}
    return instance.replace(machine=machine.replace(**late))


def fresh_tokens(local: LocalGraphs) -> Integers:
    """Return for each option the tokens that nothing before can have processed, whatever was dropped in between."""
    found, first = np.zeros(len(local.options), np.int64), local.graphs.first.tolist()
    for request, span in zip(local.groups, local.spans, strict=True):
        begins = [request.prompt, *(call.returns + 1 for call in request.calls)]
        for i in range(*span):
            state = local.states[i]
            for o in range(first[i], first[i + 1]):
                if local.options[o].load.generated:
                    found[o] = 1 if state.generated else begins[state.segment]
    return found
