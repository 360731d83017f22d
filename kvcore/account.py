"""What each request of a trace does at every tick, and the KV that it holds: the one account of time and memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from kvcore.trace import CallTrace, Move, RequestTrace, Span, StreamClock, Trace, after_moves


@dataclass(slots=True)
class Waste:
    """Memory waste in token-ticks, by cause (INFERCEPT's measure; `docs/semantics.md` defines each part)."""

    calls: int = 0
    queued: int = 0
    transfer: int = 0
    recomputation: int = 0
    retained: int | None = None  # None: the instance has no contents

    def __repr__(self) -> str:
        return f"Waste({', '.join(f'{name}={ticks}' for name, ticks in self._given().items())})"

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self._given().values())

    def parts(self) -> dict[str, int]:
        """Return each part and the total, by name."""
        return {**self._given(), "total": self.total}

    def _given(self) -> dict[str, int]:
        return {name: ticks for name, ticks in asdict(self).items() if ticks is not None}


def memory_waste(trace: Trace) -> Waste:
    """Return the memory that a schedule held without progress. Time: linear in runs, spans, moves and pauses."""
    block, held = trace.instance.machine.block, Counter[str]()
    for _, periods in account(trace):
        for period in periods:
            held[period.kind] += -(-period.device // block) * block * (period.end - period.start)
    found = Waste(held["call"], held["ready"], held["transfer"], held["recompute"])
    if trace.instance.contents:
        found.retained = sum(run.retained * (run.ends[-1] - run.start) for run in trace.runs)
        found.retained += sum(run.retained_after * (after.start - run.ends[-1]) for run, after in pairwise(trace.runs))
    return found


PeriodKind = Literal["work", "recompute", "transfer", "ready", "call"]


class Period(NamedTuple):
    """A request does one thing from tick `start` to the later tick `end`; where it works, in batches without a pause.

    `recompute` is work on tokens processed before, a `transfer` a batch that moves its KV without its work. KV is after
    the moves at the start and, where it works, after the growth of the first batch; `before` is that before the moves.
    """

    start: int
    end: int
    kind: PeriodKind
    device: int
    host: int
    before: int
    known: int  # tokens known at the start
    work: Span | None
    call: CallTrace | None


def account(trace: Trace) -> Iterator[tuple[RequestTrace, list[Period]]]:
    """Yield each request with its periods, which tile [arrival, completion]."""
    times = _BatchTimes(trace)
    return ((request, _Account(times, request).periods()) for request in trace.requests)


class _BatchTimes:
    """When the batches of a trace start and end, and what passes between two batches in a row."""

    def __init__(self, trace: Trace) -> None:
        self.start: list[int] = []
        self.end: list[int] = []
        for run in trace.runs:
            self.start += [run.start, *run.ends[:-1]]
            self.end += run.ends
        self.gaps: dict[int, list[int]] = {}

    def pauses(self, clock: StreamClock | None) -> list[int]:
        """Return the steps of a clock before which time passed without it."""
        if id(clock) not in self.gaps:
            stretches = [range(len(self.start))] if clock is None else clock.stretches(len(self.start))
            neighbours = enumerate(pairwise(chain.from_iterable(stretches)), 1)
            self.gaps[id(clock)] = [k for k, (before, j) in neighbours if self.start[j] > self.end[before]]
        return self.gaps[id(clock)]

    def cuts(self, span: Span) -> Sequence[int]:
        """Return where a span is cut: at pauses, and at each batch that recomputes."""
        if span.recomputed or span.length == 1:
            return range(span.length + 1)
        first = span.batch if span.clock is None else span.step
        steps = self.pauses(span.clock)
        some = steps[bisect_right(steps, first) : bisect_left(steps, first + span.length)]
        return [0, *(step - first for step in some), span.length]


class _Account:
    """One request up to `now`: its KV, and the call that it is in."""

    def __init__(self, times: _BatchTimes, trace: RequestTrace) -> None:
        self.times, self.trace = times, trace
        self.now, self.known = trace.request.arrival, trace.request.prompt
        self.device = self.host = self.before = 0
        self.call: CallTrace | None = None
        self.found: list[Period] = []

    def periods(self) -> list[Period]:
        """Go through what the request does, batch by batch."""
        calls = {call.batch: call for call in self.trace.calls}
        for batch, moves, span in self.events():
            self.wait(self.times.start[batch])
            for move in moves:
                self.device, self.host = after_moves(self.device, self.host, **{move.kind: move.tokens})
            if span is not None:
                self.work(span)
                self.call = calls.get(span.last)
            elif self.call is None and any(move.kind != "drop" for move in moves):
                self.until(self.times.end[batch], "transfer")
        return self.found

    def events(self) -> Iterator[tuple[int, list[Move], Span | None]]:
        """Yield the batches in which it moves or begins to work, in order, with moves and span."""
        moves: dict[int, list[Move]] = {}
        for move in self.trace.moves:
            moves.setdefault(move.batch, []).append(move)
        spans = {span.batch: span for span in self.trace.spans}
        for batch in sorted(moves.keys() | spans.keys()):
            yield batch, moves.get(batch, []), spans.get(batch)

    def until(self, end: int, kind: PeriodKind, work: Span | None = None, call: CallTrace | None = None) -> None:
        """Do one thing up to a tick."""
        if end > self.now:
            self.found.append(Period(self.now, end, kind, self.device, self.host, self.before, self.known, work, call))
            self.before, self.now = self.device + self.host, end

    def wait(self, end: int) -> None:
        """Do nothing up to a tick: first in the call, if it runs, then ready."""
        if self.call is not None:
            self.until(min(end, self.call.end), "call", call=self.call)
            if self.call.end > end:
                return
            self.known += self.trace.request.calls[self.call.segment].returns
            self.call = None
        self.until(end, "ready")

    def work(self, span: Span) -> None:
        """Work in the batches of a span, and wait at its pauses."""
        _, _, resident, tokens, phase, recomputed, generated, step, clock = span
        for first, last in pairwise(self.times.cuts(span)):
            batch = span.batch + first if clock is None else clock.batch(step + first)
            self.until(self.times.start[batch], "ready")
            self.device = resident + first + tokens
            part = Span(batch, last - first, resident + first, tokens, phase, recomputed, generated)
            self.until(self.times.end[batch + last - first - 1], "recompute" if recomputed else "work", part)
            self.device += last - first - 1
            self.before = self.device + self.host
            self.known += generated * (last - first)
