"""Where an exhaustive search need not try every way to split a prefill (docs/certificates.md, "Splits of prefills")."""

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
