"""A schedule on the clock of measured batch times, and an instance at another cost and tick."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from kvcore.cost import Cost
from kvcore.files import valid
from kvcore.instance import Instance, Request, Slo
from kvcore.trace import BatchTrace, RequestTrace, Run, Trace

NANOSECOND = Fraction(1, 10**9)


def retimed(trace: Trace, seconds: Sequence[float | Fraction]) -> Trace:
    """Return the trace with batch j lasting `seconds[j]`, in ticks of nanoseconds, without SLOs.

    A batch begins when the one before has ended and all that work in it have arrived or returned; where the schedule
    waits longer, it still waits as long. Waste is 0: not measured.
    """
    if len(seconds) != len(trace.batches):
        raise ValueError(f"{len(trace.batches)} batches, and {len(seconds)} times")
    scale = trace.instance.tick_seconds / NANOSECOND

    def ticks(planned: int) -> int:
        return round(planned * scale)

    calls = {(r.request.id, call.batch): call for r in trace.requests for call in r.calls}
    ready = {r.request.id: (r.request.arrival, ticks(r.request.arrival)) for r in trace.requests}
    free = (0, 0)  # when the next batch may begin, and each request work again: as planned, and as it came
    batches: list[BatchTrace] = []
    for j, (planned, made) in enumerate(zip(trace.batches, trace.expanded().batches, strict=True)):
        could, can = (max(moments) for moments in zip(free, *(ready[id] for id in made.work), strict=True))
        duration = max(1, round(Fraction(seconds[j]) / NANOSECOND))
        batches.append(planned._replace(start=can + ticks(planned.start - could), duration=duration))
        free = (planned.end, batches[-1].end)
        for id in made.work:
            call = calls.get((id, j))
            if call is not None:
                ready[id] = (call.end, batches[-1].end + ticks(call.end - call.start))
    requests = tuple(_request(request, batches, ticks) for request in trace.requests)
    instance = trace.instance.replace(
        name=f"{trace.instance.name}, measured",
        tick_seconds=NANOSECOND,
        requests=tuple(request.request for request in requests),
    )
    runs = [Run(b.start, [b.end], b.features, [b.device], b.device_after, b.host) for b in batches]
    return replace(trace, instance=instance, runs=runs, requests=requests)


def _request(planned: RequestTrace, batches: Sequence[BatchTrace], ticks: Callable[[int], int]) -> RequestTrace:
    ends = [batches[call.batch].end for call in planned.calls]
    return replace(
        planned,
        request=planned.request.replace(arrival=ticks(planned.request.arrival), slo=None),
        calls=[
            replace(call, start=end, end=end + ticks(call.end - call.start))
            for call, end in zip(planned.calls, ends, strict=True)
        ],
        first_token=batches[next(step.batch for step in planned.steps if step.generated)].end,
        completion=batches[planned.steps[-1].batch].end,
    )


def with_cost(instance: Instance, cost: Cost, tick: Fraction) -> Instance:
    """Return the instance with this cost, whose ticks last `tick` seconds.

    Arrivals and calls keep their seconds, to the nearest tick. BadInput where one is too long in ticks.
    """
    scale = instance.tick_seconds / tick
    with valid(f"{instance.name} at a tick of {tick} s"):
        requests = tuple(_rescaled(request, scale) for request in instance.requests)
        return instance.replace(cost=cost, tick_seconds=tick, requests=requests, coarsening=None)


def _rescaled(request: Request, scale: Fraction) -> Request:
    slo = request.slo
    if slo is not None:
        ticks = {name: value * scale for name, value in slo if value is not None}
        slo = Slo(**ticks | {name: int(ticks[name]) for name in ("ttft", "latency") if name in ticks})
    request = request.with_calls(lambda call: call.replace(duration=round(call.duration * scale)))
    return request.replace(arrival=round(request.arrival * scale), slo=slo)
