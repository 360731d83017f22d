"""A schedule on the clock of measured batch times: the same batches in the same order, each begun when it can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from kvcore.instance import Request
from kvcore.trace import BatchTrace, CallTrace, RequestTrace, Run, Trace

NANOSECOND = Fraction(1, 10**9)


def retimed(trace: Trace, seconds: Sequence[float | Fraction]) -> Trace:
    """Return the trace as it is when batch j lasts `seconds[j]`; its ticks are nanoseconds, its SLOs are left out.

    A batch begins when the one before has ended and all that work in it have arrived or returned. Where the schedule
    waits for longer than that, so long does it still wait. Waste is not measured: its parts are 0.
    """
    if len(seconds) != len(trace.batches):
        raise ValueError(f"{len(trace.batches)} batches, and {len(seconds)} times")
    clock = MeasuredTime(trace)
    for j, duration in enumerate(seconds):
        clock.run(j, max(1, round(Fraction(duration) / NANOSECOND)))
    return clock.trace()


class MeasuredTime:
    """The measured time, batch after batch, beside the planned one."""

    def __init__(self, planned: Trace) -> None:
        self.planned = planned
        self.scale = planned.instance.tick_seconds / NANOSECOND
        self.batches: list[BatchTrace] = []
        self.works = [batch.work for batch in planned.expanded().batches]
        self.calls = {(r.request.id, call.batch): call for r in planned.requests for call in r.calls}
        self.ready = {r.request.id: (r.request.arrival, self.ticks(r.request.arrival)) for r in planned.requests}
        """When each may work next: as planned, and in nanoseconds as it came."""

    def ticks(self, planned: int) -> int:
        """Return nanoseconds for ticks of the plan, rounded."""
        return round(planned * self.scale)

    def run(self, j: int, duration: int) -> None:
        """Let batch j last so long, and start the calls that it ends with."""
        planned, work = self.planned.batches[j], self.works[j]
        before = (self.planned.batches[j - 1].end, self.batches[-1].end) if j else (0, 0)
        could, can = (max(moments) for moments in zip(before, *(self.ready[id] for id in work), strict=True))
        start = can + self.ticks(planned.start - could)
        self.batches.append(planned._replace(start=start, duration=duration))
        for id in work:
            call = self.calls.get((id, j))
            if call is not None:
                self.ready[id] = (call.end, start + duration + self.ticks(call.end - call.start))

    def trace(self) -> Trace:
        """Return what came of it."""
        requests = tuple(map(self._request, self.planned.requests))
        instance = self.planned.instance.replace(
            name=f"{self.planned.instance.name}, measured",
            tick_seconds=NANOSECOND,
            requests=tuple(request.request for request in requests),
        )
        runs = [Run(b.start, [b.end], b.features, [b.device], b.device_after, b.host) for b in self.batches]
        return replace(self.planned, instance=instance, runs=runs, requests=requests, waste=type(self.planned.waste)())

    def _request(self, planned: RequestTrace) -> RequestTrace:
        steps = planned.steps
        request: Request = planned.request.replace(arrival=self.ticks(planned.request.arrival), slo=None)
        first = next(step.batch for step in steps if step.generated)
        return replace(
            planned,
            request=request,
            calls=[self._call(call) for call in planned.calls],
            first_token=self.batches[first].end,
            completion=self.batches[steps[-1].batch].end,
        )

    def _call(self, planned: CallTrace) -> CallTrace:
        start = self.batches[planned.batch].end
        return replace(planned, start=start, end=start + self.ticks(planned.end - planned.start))


def planned_seconds(trace: Trace) -> list[Fraction]:
    """Return what the instance's own cost says of each batch, in seconds."""
    tick = trace.instance.tick_seconds
    return [batch.duration * tick for batch in trace.batches]
