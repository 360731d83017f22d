"""The min-waste rule: how to handle a call whose handling is free, fixed before anything is scheduled.

InferCept's waste of device memory, in token-ticks, for a call of T ticks with C tokens of KV, beside C_o of others:

    preserve (2)    T C
    discard  (1)    F(C) C + F(C) C_o          F(C): ticks of the prefill of C tokens
             (4)    F(C) C / 2 + F(C) C_o      with chunked prefills, F over all chunks
    swap     (3)    2 S(C) (C + C_o)           2 S(C): ticks of the transfers out and in that the cost counts

The least waste wins; of equal ones preserve before swap before discard. C_o is M - C, as in a full memory: where memory
is not full, nothing is wasted. Without a limit on memory every call preserves.

Source: InferCept (arXiv 2402.01869), equations (1) to (5), which chooses when the call starts; MARS, as here, before
anything is scheduled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from heuristics.engine.demand import SoloEstimate
from kvcore.errors import BadInput
from kvcore.instance import Handling, Instance, Request

Chooser = Callable[[Request, int], Handling]  # chooses the handling of a request's call k (from 0)


class HandlingWaste(NamedTuple):
    """The waste of each handling of a call, in half token-ticks, so that all are integers."""

    preserve: int
    swap: int
    discard: int


def call_waste(estimate: SoloEstimate, context: int, duration: int) -> HandlingWaste:
    """Return the waste of a call of `duration` ticks at `context` tokens of KV."""
    others, forward = estimate.others(context), estimate.prefill(0, context).ticks
    transfer = estimate.swap_out(context) + estimate.swap_in(context)
    recomputed = context if estimate.machine.chunked else 2 * context
    return HandlingWaste(
        preserve=2 * duration * context,
        swap=2 * transfer * (context + others),
        discard=forward * (recomputed + 2 * others),
    )


def least_waste(waste: HandlingWaste, swap: bool = True, discard: bool = True) -> Handling:
    """Return the possible handling of least waste."""
    possible: dict[Handling, int] = {"preserve": waste.preserve}
    possible |= {"swap": waste.swap} if swap else {}
    possible |= {"discard": waste.discard} if discard else {}
    return min(possible, key=possible.__getitem__)


def with_min_waste_handlings(instance: Instance, predictions: Instance | None = None) -> Instance:
    """Return the instance with each free call handled as wastes least, among what the machine can carry out.

    Without `chunked`, discard needs the refill to fit into a batch; swap needs the context to fit on the host. The
    waste is that of `predictions` (the same requests with other lengths), if given.

    A schedule of the result is one of `instance` as well, once it carries the hash of `instance`: until the next work
    after a call, a free call allows every move, and a discard or a swap orders one in just that time.
    """
    estimate = SoloEstimate(instance.machine, instance.cost)
    believed = believed_requests(instance, predictions)

    def choose(request: Request, k: int) -> Handling:
        if instance.machine.memory is None:
            return "preserve"
        predicted, machine = believed[instance.index[request.id]], instance.machine
        held, limit = request.context_at_call(k), machine.prefill_limit
        refills = machine.chunked or limit is None or held + 1 + request.calls[k].returns <= limit
        waste = call_waste(estimate, predicted.context_at_call(k), predicted.calls[k].duration)
        return least_waste(waste, swap=machine.host_memory is None or held <= machine.host_memory, discard=refills)

    return fix_free_calls(instance, choose)


def fix_free_calls(instance: Instance, choose: Chooser) -> Instance:
    """Return the instance with `choose(request, k)` as the handling of each free call."""
    if all(call.handling != "free" for request in instance.requests for call in request.calls):
        return instance
    return instance.replace(requests=tuple(_handled(request, choose) for request in instance.requests))


def _handled(request: Request, choose: Chooser) -> Request:
    segments = list(request.segments)
    for k, call in enumerate(request.calls):
        if call.handling == "free":
            segments[k] = segments[k].replace(call=call.replace(handling=choose(request, k)))
    return request.replace(segments=tuple(segments))


def believed_requests(instance: Instance, predictions: Instance | None) -> list[Request]:
    """Return the requests as predicted, in the instance's order and with its handlings.

    Raises:
        BadInput: `predictions` lacks a request or has another number of calls in it.
    """
    if predictions is None:
        return list(instance.requests)
    return [_believed(request, predictions) for request in instance.requests]


def _believed(request: Request, predictions: Instance) -> Request:
    if request.id not in predictions.index:
        raise BadInput(f"the predictions have no request {request.id}")
    predicted = predictions.request(request.id)
    if len(predicted.calls) != len(request.calls):
        raise BadInput(
            f"the predictions give request {request.id} {len(predicted.calls)} calls, it makes {len(request.calls)}"
        )
    segments = [
        guess if true.call is None or guess.call is None
        else guess.replace(call=guess.call.replace(handling=true.call.handling))
        for guess, true in zip(predicted.segments, request.segments, strict=True)
    ]  # fmt: skip
    return predicted.replace(segments=tuple(segments))
