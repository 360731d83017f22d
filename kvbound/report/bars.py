"""What the chart of a schedule is made of: bars, each with the batches, tokens and KV that it stands for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvbound.timeline import Interval, Kind, timeline
from kvcore.trace import BatchTrace, RequestTrace, Trace

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
        request.request.id: list(_bars(request, trace.batches, rows[request.request.id], each))
        for request in trace.requests
    }


def _bars(
    request: RequestTrace, batches: Sequence[BatchTrace], intervals: Sequence[Interval], each: bool
) -> Iterator[Bar]:
    """Yield the bars of a request, with `each` one for every batch in which it works."""
    steps, levels = request.steps, list(request.levels())
    starts = [batches[step.batch].start for step in steps]
    ticks = [batches[level.event.batch].start for level in levels]
    calls = [call.start for call in request.calls]
    for start, end, kind in intervals:
        k = bisect_right(ticks, start)
        device, host = levels[k - 1][1:] if k else (0, 0)
        if kind not in WORK:
            call = bisect_right(calls, start) if kind.startswith("call") else None
            yield Bar(start, end, kind, device, host, device, call=call)
            continue
        worked = steps[bisect_left(starts, start) : bisect_left(starts, end)]
        for some in ([step] for step in worked) if each else (worked,):
            first, last = some[0], some[-1]
            began = batches[first.batch].start
            yield Bar(
                began, batches[last.batch].end, kind, first.resident + first.tokens,
                levels[bisect_right(ticks, began) - 1][2], last.resident + last.tokens, (first.batch, last.batch),
                sum(step.tokens for step in some), sum(step.recomputed for step in some),
            )  # fmt: skip
