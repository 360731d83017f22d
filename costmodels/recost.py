"""An instance at another cost: the same requests in the same seconds, counted in the ticks of the cost."""

from __future__ import annotations

from fractions import Fraction

from pydantic import ValidationError

from kvcore.cost import Cost
from kvcore.errors import BadInput
from kvcore.files import first_error
from kvcore.instance import Instance, Request, Slo


def with_cost(instance: Instance, cost: Cost, tick: Fraction) -> Instance:
    """Return the instance with this cost, whose ticks last `tick` seconds.

    Arrivals and calls keep their seconds, to the nearest tick. BadInput where one is too long for so short a tick.
    """
    scale = instance.tick_seconds / tick
    try:
        requests = tuple(_rescaled(request, scale) for request in instance.requests)
        return instance.replace(cost=cost, tick_seconds=tick, requests=requests, coarsening=None)
    except ValidationError as error:
        raise BadInput(f"{instance.name} at a tick of {tick} s: {first_error(error)}") from None


def _rescaled(request: Request, scale: Fraction) -> Request:
    slo = None if request.slo is None else _slo(request.slo, scale)
    request = request.with_calls(lambda call: call.replace(duration=round(call.duration * scale)))
    return request.replace(arrival=round(request.arrival * scale), slo=slo)


def _slo(slo: Slo, scale: Fraction) -> Slo:
    """Return the objectives in the new ticks, whole ones rounded down: they are not made easier."""
    return Slo(
        ttft=None if slo.ttft is None else int(slo.ttft * scale),
        latency=None if slo.latency is None else int(slo.latency * scale),
        tpot=None if slo.tpot is None else slo.tpot * scale,
        normalized_latency=None if slo.normalized_latency is None else slo.normalized_latency * scale,
    )
