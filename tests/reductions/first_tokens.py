"""`by_first_tokens`: after the last first token, what is left takes few batches."""

from collections.abc import Iterator

from formulations.chains import Chain
from kvcore import Instance, Schedule
from kvcore.trace import RequestTrace
from tests.reductions.parts import MOVES, Mutable, kv, late, mutable, schedule_of
from tests.reductions.transfers import joined


def soon_done(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule with the same batches up to the last first token, and few after it, each of them late.

    Without `evict` these are those with work. With it the requests are completed one after another. Before that, one
    batch makes the swaps that calls order, there and back: what they hold was on the device together.
    """
    trace, batches = mutable(instance, schedule)
    last = max(next(step.batch for step in request.steps if step.generated) for request in trace.requests)
    if not instance.machine.evict:
        return joined(instance, schedule, last)
    left = [request for request in trace.requests if request.steps[-1].batch > last]
    held = {request.request.id: kv(request, last + 1, False) for request in left}
    due = {request.request.id: request.request.calls[call.segment].handling
           for request in left for call in request.calls if call.batch == last}  # fmt: skip
    kept = batches[: last + 1]
    swaps = {id: held[id][0] for id in held if due.get(id) == "swap"}
    if swaps:
        drops = {id: sum(held[id]) for id in held if id not in swaps}
        kept.append({"work": {}, "drop": drops, "swap_out": swaps, "swap_in": dict(swaps)})
        held, due = {id: (swaps.get(id, 0), 0) for id in held}, {}
    for request in left:
        id = request.request.id
        alone = list(completed(instance, request, last, held[id], due.get(id)))
        alone[0]["drop"].update({other: sum(held[other]) for other in held if other != id})
        kept += alone
        held, due = dict.fromkeys(held, (0, 0)), {}
    for j in range(last + 1, len(kept)):
        kept[j]["start"] = late(j)
    return schedule_of(instance, kept)


def completed(
    instance: Instance, trace: RequestTrace, last: int, held: tuple[int, int], due: str | None
) -> Iterator[Mutable]:
    """Yield batches that complete a request alone, from what it holds after batch `last`; `due`: a call orders it."""
    request, limit = trace.request, instance.machine.prefill_limit
    chain = Chain(instance.machine, request)
    ends = dict(zip(chain.ends, request.calls, strict=False))
    first = 1 + sum(step.generated for step in trace.steps if step.batch <= last)
    device, host = held
    for q in range(first, chain.outputs + 1):
        handling = due if q == first else ends[q - 1].handling if q - 1 in ends else None
        batch: Mutable = {kind: {} for kind in ("work", *MOVES)}
        if handling == "discard":
            batch["drop"][request.id], device = device, 0
        elif handling == "swap":
            batch["swap_out"][request.id] = batch["swap_in"][request.id] = device
        if host:
            batch["swap_in"][request.id], device, host = host, device + host, 0
        while device < chain.context[q]:
            missing = chain.context[q] - device
            batch["work"][request.id] = tokens = min(missing, limit or missing)
            yield batch
            device, batch = device + tokens, {kind: {} for kind in ("work", *MOVES)}
