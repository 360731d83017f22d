"""Which parts of prefills, and which batches made for drops alone, a schedule of least value may need.

`docs/formulation.md` has the arguments (Batches made for drops).
"""

from __future__ import annotations

from kvcore.cost import CostFunction
from kvcore.instance import Instance


def is_paced(instance: Instance, objective: str) -> bool:
    """Whether an earlier token may be worse: an SLO on the time per token, which an early first token raises."""
    slos = (request.slo for request in instance.requests)
    return objective == "late-requests" and any(slo is not None and slo.tpot is not None for slo in slos)


def drops_need_batches(instance: Instance) -> bool:
    """Whether a batch that a swap there and back makes, for drops alone, may pay: `evict`, `pause`, no host memory.

    It does not where the KV can be kept and dropped in the next batch instead: if a refill is never the cheaper work,
    and after it the request holds what it held before or more, or may drop what is too much in the batch in which it
    would have been refilled.
    """
    return refill_pays(instance) or (needs_chunks(instance) and not instance.machine.partial)


def refill_pays(instance: Instance) -> bool:
    """Whether dropping KV just to refill it may gain: without `hybrid`, or if the refill may be the cheaper work.

    A decode on m tokens adds to f at most any_decode + decode_requests + tokens + decode_kv m. The refill in its place
    has c tokens on m + 1 - c: c = m + 1 without `partial`, c >= 2 with it, and so at least (m + 1)^2 or 4 m pairs.
    Both are compared at the ends of the range of m, in between they are linear. Other work on m tokens becomes a
    refill of k more on m - k: it reads prefill_kv k less, for k more tokens and at least k more pairs.
    """
    machine, functions = instance.machine, instance.cost.functions
    least = max(1, min(r.prompt for r in instance.requests) - machine.chunked)
    most = max(least, *(r.peak - 1 for r in instance.requests))
    return (
        not machine.hybrid
        or any(_decode(f, m) > _refill(f, m, least, machine.partial) for f in functions for m in (least, most))
        or any(f.prefill_kv > f.tokens + f.prefill_pairs for f in functions)
    )


def _decode(f: CostFunction, resident: int) -> int:
    return f.any_decode + f.decode_requests + f.tokens + f.decode_kv * resident


def _refill(f: CostFunction, resident: int, least: int, partial: bool) -> int:
    """At most what f is of a refill in place of a decode: linear in `resident`, the pairs bounded from below."""
    if partial:
        return f.prefill_requests + 2 * f.tokens + 4 * f.prefill_pairs * resident
    return f.prefill_requests + (f.tokens + f.prefill_pairs * (least + 1)) * (resident + 1)


def ample_budgets(instance: Instance) -> bool:
    """Whether no batch can exhaust the token budgets: what works is resident, and memory is no larger than they are."""
    machine = instance.machine
    most = sum(sorted((r.peak for r in instance.requests), reverse=True)[: machine.batch_requests])
    if machine.memory is not None:
        most = min(most, machine.memory)
    budgets = (machine.batch_tokens, machine.prefill_limit)
    return all(budget is None or budget >= most for budget in budgets)


def needs_chunks(instance: Instance) -> bool:
    """Whether a least schedule may need a prefill to stop more than a token short of its end, where no refill pays."""
    machine, f = instance.machine, instance.cost.functions[0]
    if not machine.chunked:
        return False
    if not ample_budgets(instance):
        return True
    if instance.cost.always_one_tick:
        return False
    waits = len({request.arrival for request in instance.requests}) > 1 or any(r.call_time for r in instance.requests)
    linear = len(instance.cost.functions) == 1 and f.busy > 0 and f.tokens_above is None
    gains = linear and f.prefill_requests + f.prefill_kv >= f.divisor - 1
    return waits or is_paced(instance, "late-requests") or not gains
