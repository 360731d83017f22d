"""An instance at another cost: the same requests in the same seconds, counted in the ticks of the cost."""

from __future__ import annotations

from fractions import Fraction

from kvcore.cost import Cost
from kvcore.files import valid
from kvcore.instance import Instance, Request, Slo


def with_cost(instance: Instance, cost: Cost, tick: Fraction) -> Instance:
    """Return the instance with this cost, whose ticks last `tick` seconds.

    Arrivals and calls keep their seconds, to the nearest tick. BadInput where one is too long for so short a tick.
    """
    scale = instance.tick_seconds / tick
    with valid(f"{instance.name} at a tick of {tick} s"):
        requests = tuple(_rescaled(request, scale) for request in instance.requests)
        return instance.replace(cost=cost, tick_seconds=tick, requests=requests, coarsening=None)


def _rescaled(request: Request, scale: Fraction) -> Request:
    """Return a request in the new ticks; objectives are rounded down, so that they are not made easier."""
    slo = request.slo
    if slo is not None:
        ticks = {name: value * scale for name, value in slo if value is not None}
        slo = Slo(**ticks | {name: int(ticks[name]) for name in ("ttft", "latency") if name in ticks})
    request = request.with_calls(lambda call: call.replace(duration=round(call.duration * scale)))
    return request.replace(arrival=round(request.arrival * scale), slo=slo)
