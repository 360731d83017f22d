"""What the chart of a schedule is made of: bars, each with the batches, tokens and KV that it stands for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvbound.timeline import Interval, Kind, timeline
from kvcore.trace import BatchTrace, CallTrace, RequestTrace, Step, Trace

CELLS = 1_500
"""Up to this many batch steps of all requests, each is a bar; beyond, those that follow without a break are one."""

WORK = ("prefill", "decode", "recompute")


class Bar(NamedTuple):
    """A request does one thing from tick `start` to tick `end`; KV is in tokens of this request."""

    start: int
    end: int
    kind: Kind
    device: int
    """KV on the device at the start; where it works, after the growth of the first batch."""
    host: int
    last: int
    """KV on the device in the last of the batches; `device` where it does not work."""
    batches: tuple[int, int] | None = None
    """The first and the last of the batches in which it works."""
    tokens: int = 0
    recomputed: int = 0
    call: int | None = None
    """The call that it is in, from 1."""


def bars_of(trace: Trace) -> dict[str, list[Bar]]:
    """Return the bars of every request; those of one request tile [arrival, completion] as `timeline` does."""
    each = sum(span.length for request in trace.requests for span in request.spans) <= CELLS
    rows = timeline(trace)
    return {
        request.request.id: list(_Lane(request, trace.batches).bars(rows[request.request.id], each))
        for request in trace.requests
    }


class _Lane:
    """One request: its steps, its calls, and its KV from each batch on that changes it."""

    def __init__(self, request: RequestTrace, batches: Sequence[BatchTrace]) -> None:
        self.batches = batches
        self.steps = request.steps
        self.starts = [batches[step.batch].start for step in self.steps]
        self.calls: list[CallTrace] = request.calls
        self.levels = list(request.levels())
        self.ticks = [batches[level.event.batch].start for level in self.levels]

    def level(self, tick: int) -> tuple[int, int]:
        """Return the KV on the device and on the host from a tick on."""
        k = bisect_right(self.ticks, tick)
        return self.levels[k - 1][1:] if k else (0, 0)

    def bars(self, intervals: Sequence[Interval], each: bool) -> Iterator[Bar]:
        """Yield the bars of the intervals, with `each` a bar for every batch in which it works."""
        for interval in intervals:
            if interval.kind in WORK:
                first, last = (bisect_left(self.starts, tick) for tick in interval[:2])
                for k, after in ((i, i + 1) for i in range(first, last)) if each else ((first, last),):
                    yield self._work(interval.kind, self.steps[k:after])
            else:
                yield self._rest(interval)

    def _work(self, kind: Kind, steps: Sequence[Step]) -> Bar:
        first, last = steps[0], steps[-1]
        return Bar(
            self.batches[first.batch].start,
            self.batches[last.batch].end,
            kind,
            first.resident + first.tokens,
            self.level(self.batches[first.batch].start)[1],
            last.resident + last.tokens,
            (first.batch, last.batch),
            sum(step.tokens for step in steps),
            sum(step.recomputed for step in steps),
        )

    def _rest(self, interval: Interval) -> Bar:
        device, host = self.level(interval.start)
        called = bisect_right([call.start for call in self.calls], interval.start)
        call = called if interval.kind.startswith("call") else None
        return Bar(*interval, device, host, device, call=call)
