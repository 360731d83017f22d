"""Which parts of prefills, and which batches made for drops alone, a schedule of least value may need.

**Batches made for drops.** A swap-out and a swap-in of the same tokens in one batch change no KV, but they make a batch
of drops, which alone are none. With `pause` and without host memory such a batch j, without work or another transfer,
can be left out, if the last drop of the proof is allowed and no change of work in it raises a cost function.

*Proof.* A dropped request that does not work in batch j + 1 is dropped there instead. One that does keeps its KV in j,
and processes in j + 1 only the missing tokens: the memory there is the same. If it lacks nothing, it drops the excess
in j + 1 and rests. Now j changes nothing. QED The drop is allowed with `partial`. It is not needed if each refill lacks
one token of the context or none (without `chunked`, or by the next theorem). Without `evict`, R9 allows a drop in the
batch of the next work.

**Whole prefills.** With `chunked`, let memory, or all peaks together, not exhaust the token budgets, and no refill pay.
Then some optimal schedule splits no prefill, except for a last token that is a decode, if

1. every batch lasts one tick; or
2. the cost is one function with busy > 0, divisor d, no hinge, prefill_requests + prefill_kv >= d - 1; there is one
   arrival tick, calls take no time, and there is no SLO on TPOT.

*Proof.* Of the prefills towards one token, move all tokens to the last (in case 1 to the decode, if one follows).
Before it less memory is held, in it as much. Tokens that are dropped again before it are not processed. A drop of an
empty batch is made in the next one, as above. In case 2 move prefill by prefill: a tokens on top of m keep the sums of
tokens and pairs, so f loses X in one batch and gains Y in the other with

    X - Y >= prefill_requests + (m + a) prefill_kv >= d - 1, so floor(X / d) >= ceil(Y / d).

As busy > 0, the earlier batch loses at least the ticks that the later one gains, also if it becomes empty. So the first
j batches last no longer, for every j; with nothing to wait for, no token is later. QED
"""

from kvcore.cost import CostFunction
from kvcore.instance import Instance
from kvcore.limits import BUDGETS


def is_paced(instance: Instance, objective: str) -> bool:
    """Whether an earlier token may be worse: an early first token raises the time per token, which an SLO limits."""
    slos = (request.slo for request in instance.requests)
    return objective == "late-requests" and any(slo is not None and slo.tpot is not None for slo in slos)


def drops_need_batches(instance: Instance) -> bool:
    """Whether a batch made for drops alone may pay: `evict`, `pause`, no host memory. With contents it may."""
    return bool(instance.contents) or refill_pays(instance) or (needs_chunks(instance) and not instance.machine.partial)


def refill_pays(instance: Instance) -> bool:
    """Whether dropping KV to refill it may gain: without `hybrid`, or if the refill may be the cheaper work.

    A decode on m tokens adds to f at most any_decode + decode_requests + tokens + decode_kv m. The refill in its place
    has c tokens on m + 1 - c: c = m + 1 without `partial`, c >= 2 with it, and so at least (m + 1)^2 or 4 m pairs. Both
    are compared at the ends of the range of m, in between they are linear. Other work on m tokens becomes a refill of k
    more on m - k: it reads prefill_kv k less, for k more tokens and at least k more pairs.
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
    """A lower bound, linear in `resident`: the pairs are bounded from below."""
    if partial:
        return f.prefill_requests + 2 * f.tokens + 4 * f.prefill_pairs * resident
    return f.prefill_requests + (f.tokens + f.prefill_pairs * (least + 1)) * (resident + 1)


def ample_budgets(instance: Instance) -> bool:
    """Whether no batch can exhaust a budget but that of requests: what works is resident, and memory is no larger."""
    machine = instance.machine
    most = sum(sorted((r.peak for r in instance.requests), reverse=True)[: machine.batch_requests])
    if machine.memory is not None:
        most = min(most, machine.memory)
    budgets = (limit.of(machine) for limit in BUDGETS if limit.name != "requests")
    return all(budget is None or budget >= most for budget in budgets)


def needs_chunks(instance: Instance) -> bool:
    """Whether a least schedule may split a prefill more than a token short of its end, where no refill pays."""
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
