"""The relaxation to segments that run without a break up to their end (docs/arc_flow.md, "Late segments").

**Theorem 2.** Every schedule gives one of the late machine with the same completions.

1. *A segment runs without a break and ends when it did.* Move its work to the right: its d tokens come in the d slots
   up to its last one, the first with all that the prefill still needs. In every slot at most as much is resident as
   before, since fewer tokens have been processed. KV on the host comes back in the same slot as before, and rests. With
   `evict` this holds for each *run*, the tokens between two evictions; after the run its KV is dropped at once (evicted
   KV on the host, too: a refill holds no more and needs one slot as well). A run began after the slot of an eviction
   and still does; if no batch is left in between, the KV stays, as memory counts in batches only.
2. *KV that a call orders to be dropped, or of a free call, is dropped at once.* After the call the next token needs one
   slot with or without KV, and holds the same memory in it.
"""

import numpy as np

from kvcore.certificates.slot_graph import Integers, LocalGraphs
from kvcore.instance import Instance


def late_segments(instance: Instance) -> Instance | None:
    """Return the instance on a machine without token budgets, parts of prefills and `pause` (None: that may cost).

    For flow times no schedule is better than the new instance's best in which every tick is a batch.
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
    """Return for each option the tokens that nothing before can have processed, whatever was dropped."""
    found, first = np.zeros(len(local.options), np.int64), local.graphs.first.tolist()
    for request, span in zip(local.groups, local.spans, strict=True):
        begins = [request.prompt, *(call.returns + 1 for call in request.calls)]
        for i in range(*span):
            state = local.states[i]
            for o in range(first[i], first[i + 1]):
                if local.options[o].load.generated:
                    found[o] = 1 if state.generated else begins[state.segment]
    return found
