"""Where an exhaustive search need not try every way to split a prefill. Written apart from the exact search's rules.

There, a request that lacks c tokens is tried with c and c - 1 of them, and with one where none of its KV is resident.
Take any schedule. A *stretch* of a request lies between two tokens that it generates; its *last prefill* is the last
batch of the stretch in which it is in the prefill phase. The prefills before that are *chunks*. They are changed:

1. A token of a chunk that is dropped again before the last prefill is not processed. No feature of a batch grows.
2. Chunk by chunk, from the first on, all tokens go to the next prefill of the stretch. The request then holds less up
   to its last prefill, and the same from there on. If a chunk gives up its a tokens, on top of m, then tokens and pairs
   add up to the same, so f falls by X in its batch and rises by Y in the other, and X - Y is `prefill_requests` plus
   m + a times `prefill_kv`: at least q - 1 for a divisor q. Hence floor(X / q) >= ceil(Y / q).
3. A batch left with neither work nor a transfer is left out if it has no drops. If it has, one request that had
   work or transfers there swaps out and in all that it holds (with `partial`, one token). Where it would hold nothing,
   the first of its chunks since it held nothing keeps one token; in this batch, if that is the one, instead of the
   swaps. Of a tokens then a - 1 go on: X - Y is a - 1 times `prefill_kv`, at least q - 1 again, or nothing goes on.

A batch that loses work lasts floor(X / q) less, as `busy` >= 1; also if the swaps, which cost at most `busy`, take the
place of its work. So the first j batches together last no longer than before, for every j. All requests arrive at the
same tick and none calls, so every batch may start when the one before ends: no token comes later than before. (For
busy-time the machine may wait.)
"""

from kvcore.instance import Instance
from kvcore.limits import BUDGETS


def whole_prefills(instance: Instance, objective: str) -> bool:
    """Whether a schedule of least value splits prefills only in the ways above."""
    machine, requests = instance.machine, instance.requests
    if len(instance.cost.functions) > 1 or any(request.calls for request in requests):
        return False
    f, peaks = instance.cost.functions[0], [request.peak for request in requests]
    swapped = 1 if machine.partial else max(peaks)
    swaps = f.swap_outs + f.swap_ins + swapped * (f.swap_out_tokens + f.swap_in_tokens)
    resident = sum(peaks) if machine.memory is None else min(machine.memory, sum(peaks))
    budgets = (limit.of(machine) for limit in BUDGETS if limit.name != "requests")
    return (
        f.tokens_above is None
        and f.busy >= max(1, swaps)
        and f.prefill_kv >= f.divisor - 1
        and all(budget is None or budget >= resident for budget in budgets)
        and (not machine.evict or (machine.pause and machine.host_memory == 0))
        and (objective == "busy-time" or len({request.arrival for request in requests}) == 1)
        and not (objective == "late-requests" and any(r.slo is not None and r.slo.tpot is not None for r in requests))
    )
