"""The activity of each request, as exact intervals of a trace."""

from itertools import groupby
from typing import Literal, NamedTuple

from kvcore.trace import BatchTrace, CallTrace, RequestTrace, Step, Trace

Kind = Literal[
    "prefill", "decode", "recompute", "transfer", "paused", "swapped-out", "waiting", "call-preserved",
    "call-discarded", "call-swapped", "call-mixed",
]  # fmt: skip
"""Activities. At work: `prefill`, `decode`, or `recompute` (the batch has tokens processed before). Ready without work:
`transfer` (KV is swapped in this batch), `paused` (device KV held), `swapped-out` (host KV only), `waiting` (no KV).
In a call, where the KV held at its start is: all on the device (`call-preserved`), all on the host (`call-swapped`),
gone (`call-discarded`), or anything else (`call-mixed`)."""


class Interval(NamedTuple):
    """The request does the same thing from tick `start` to the later tick `end`."""

    start: int
    end: int
    kind: Kind


def timeline(trace: Trace) -> dict[str, list[Interval]]:
    """Return the intervals of every request, in the order of the instance.

    Those of one request tile [arrival, completion]; neighbours differ in kind. KV is counted after the moves of a
    batch, from its start on; a call that returns within a batch ends its interval there.
    """
    return {request.request.id: _intervals(request, trace.batches) for request in trace.requests}


def _intervals(trace: RequestTrace, batches: list[BatchTrace]) -> list[Interval]:
    calls = {call.batch: call for call in trace.calls}
    row = _Row(trace.request.arrival)
    for j, group in groupby(trace.levels(), key=lambda level: level.event.batch):
        row.wait(batches[j].start)
        events, devices, hosts = zip(*group, strict=True)
        if isinstance(events[-1], Step):
            row.work(events[-1], batches[j].end, calls.get(j))
        elif row.ready and any(move.kind != "drop" for move in events):
            row.extend(batches[j].end, "transfer")
        row.device, row.host = devices[-1], hosts[-1]
    return row.intervals


class _Row:
    def __init__(self, arrival: int) -> None:
        self.now = arrival
        self.intervals: list[Interval] = []
        self.device = 0
        self.host = 0
        self.call: CallTrace | None = None  # the one started by the latest work

    @property
    def ready(self) -> bool:
        return self.call is None or self.call.end <= self.now

    def extend(self, end: int, kind: Kind) -> None:
        if end <= self.now:
            return
        if self.intervals and self.intervals[-1].kind == kind:
            self.intervals[-1] = self.intervals[-1]._replace(end=end)
        else:
            self.intervals.append(Interval(self.now, end, kind))
        self.now = end

    def wait(self, until: int) -> None:
        if self.call is not None:
            self.extend(min(until, self.call.end), self.kind_in(self.call))
        self.extend(until, "paused" if self.device else "swapped-out" if self.host else "waiting")

    def kind_in(self, call: CallTrace) -> Kind:
        if self.device == call.held:
            return "call-preserved"
        if self.device + self.host == 0:
            return "call-discarded"
        return "call-swapped" if self.host == call.held else "call-mixed"

    def work(self, step: Step, end: int, call: CallTrace | None) -> None:
        self.extend(end, "recompute" if step.recomputed else step.phase)
        self.call = call
