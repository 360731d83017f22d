"""Where the memory of a schedule went, from its trace (`docs/semantics.md`, Memory waste)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kvcore.trace import CallTrace, Move, RequestTrace, Span, StreamClock, Trace, after_moves


@dataclass(slots=True)
class Waste:
    """Memory waste in token-ticks, by cause (INFERCEPT's measure)."""

    calls: int = 0
    queued: int = 0
    transfer: int = 0
    recomputation: int = 0

    @property
    def total(self) -> int:
        """All four parts."""
        return self.calls + self.queued + self.transfer + self.recomputation

    def parts(self) -> dict[str, int]:
        """Return each part and the total, by name."""
        return {**asdict(self), "total": self.total}


def memory_waste(trace: Trace) -> Waste:
    """Return the memory held without progress, in time linear in runs, spans, moves and pauses."""
    clock, found = _BatchTimes(trace), Waste()
    for request in trace.requests:
        _Account(clock, request, found).fill()
    return found


class _BatchTimes:
    def __init__(self, trace: Trace) -> None:
        self.block = trace.instance.machine.block
        self.start: list[int] = []
        self.end: list[int] = []
        for run in trace.runs:
            self.start += [run.start, *run.ends[:-1]]
            self.end += run.ends
        is_small = self.end[-1] * sum(request.request.peak + self.block for request in trace.requests) < 2**62
        self.kind: Any = np.int64 if is_small else object
        self.gaps: dict[int, tuple[Any, Any]] = {}

    def held(self, tokens: Any) -> Any:
        return -(-tokens // self.block) * self.block

    @cached_property
    def arrays(self) -> tuple[Any, Any]:
        return np.array(self.start, self.kind), np.array(self.end, self.kind)

    def pauses(self, clock: StreamClock | None) -> tuple[Any, Any]:
        """The steps of a clock before which time passed without it, and how much."""
        if id(clock) not in self.gaps:
            starts, ends = self.arrays
            stretches = [range(len(starts))] if clock is None else clock.stretches(len(starts))
            batches = np.concatenate([np.arange(each.start, each.stop) for each in stretches])
            passed = starts[batches[1:]] - ends[batches[:-1]]
            steps = np.flatnonzero(passed > 0)
            self.gaps[id(clock)] = steps + 1, passed[steps]
        return self.gaps[id(clock)]


class _Account:
    def __init__(self, times: _BatchTimes, trace: RequestTrace, found: Waste) -> None:
        self.times, self.trace, self.found = times, trace, found
        self.now = self.device = self.host = 0
        self.call: CallTrace | None = None

    def fill(self) -> None:
        calls = {call.batch: call for call in self.trace.calls}
        for batch, moves, span in self.events():
            self.wait(self.times.start[batch])
            for move in moves:
                self.device, self.host = after_moves(self.device, self.host, **{move.kind: move.tokens})
            if span is not None:
                self.work(span)
                self.call = calls.get(span.last, self.call)
            elif (self.call is None or self.call.end <= self.now) and any(move.kind != "drop" for move in moves):
                self.found.transfer += self.times.held(self.device) * (self.times.end[batch] - self.now)
                self.now = self.times.end[batch]

    def events(self) -> Iterator[tuple[int, list[Move], Span | None]]:
        moves: dict[int, list[Move]] = {}
        for move in self.trace.moves:
            moves.setdefault(move.batch, []).append(move)
        spans = {span.batch: span for span in self.trace.spans}
        for batch in sorted(moves.keys() | spans.keys()):
            yield batch, moves.get(batch, []), spans.get(batch)

    def wait(self, until: int) -> None:
        memory = self.times.held(self.device)
        if self.call is not None and self.call.end > self.now:
            end = min(until, self.call.end)
            self.found.calls += memory * (end - self.now)
            self.now = end
        self.found.queued += memory * (until - self.now)
        self.now = until

    def work(self, span: Span) -> None:
        if span.recomputed:
            for step in span.steps():
                ticks = self.times.end[step.batch] - self.times.start[step.batch]
                self.found.recomputation += self.times.held(step.resident + step.tokens) * ticks
        if span.length > 1:
            first = span.batch if span.clock is None else span.step
            steps, passed = self.times.pauses(span.clock)
            some = slice(*np.searchsorted(steps, (first + 1, first + span.length)))
            self.found.queued += int((self.times.held(span.resident + steps[some] - first) * passed[some]).sum())
        self.device, self.now = span.resident + span.length - 1 + span.tokens, self.times.end[span.last]
