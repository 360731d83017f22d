"""Where the memory of a schedule went, from its trace: KV held without progress (`docs/semantics.md`, Memory waste)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, pairwise

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
    clock, found = _BatchTimes(trace), Waste()
    for request in trace.requests:
        _Account(clock, request, found).fill()
    if trace.instance.contents:
        found.retained = sum(run.retained * (run.ends[-1] - run.start) for run in trace.runs)
        found.retained += sum(run.retained_after * (after.start - run.ends[-1]) for run, after in pairwise(trace.runs))
    return found


class _BatchTimes:
    """When the batches of a trace start and end, and what passes between two batches in a row."""

    def __init__(self, trace: Trace) -> None:
        self.block = trace.instance.machine.block
        self.start: list[int] = []
        self.end: list[int] = []
        for run in trace.runs:
            self.start += [run.start, *run.ends[:-1]]
            self.end += run.ends
        self.gaps: dict[int, tuple[list[int], list[int]]] = {}

    def held(self, tokens: int) -> int:
        """Return the device memory of a request's `tokens`, in tokens of whole blocks."""
        return -(-tokens // self.block) * self.block

    def pauses(self, clock: StreamClock | None) -> tuple[list[int], list[int]]:
        """Return the steps of a clock before which time passed without it, and how much."""
        if id(clock) not in self.gaps:
            stretches = [range(len(self.start))] if clock is None else clock.stretches(len(self.start))
            passed = [self.start[j] - self.end[before] for before, j in pairwise(chain.from_iterable(stretches))]
            steps = [step for step, ticks in enumerate(passed, 1) if ticks]
            self.gaps[id(clock)] = steps, [passed[step - 1] for step in steps]
        return self.gaps[id(clock)]


class _Account:
    """One request up to `now`: its KV, and its latest call."""

    def __init__(self, times: _BatchTimes, trace: RequestTrace, found: Waste) -> None:
        self.times, self.trace, self.found = times, trace, found
        self.now = self.device = self.host = 0
        self.call: CallTrace | None = None

    def fill(self) -> None:
        """Go through what the request does, batch by batch."""
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
        """Yield the batches in which it moves or begins to work, in order, with moves and span."""
        moves: dict[int, list[Move]] = {}
        for move in self.trace.moves:
            moves.setdefault(move.batch, []).append(move)
        spans = {span.batch: span for span in self.trace.spans}
        for batch in sorted(moves.keys() | spans.keys()):
            yield batch, moves.get(batch, []), spans.get(batch)

    def wait(self, until: int) -> None:
        """Hold what there is up to a tick: first in the call, if it runs, then ready."""
        memory = self.times.held(self.device)
        if self.call is not None and self.call.end > self.now:
            end = min(until, self.call.end)
            self.found.calls += memory * (end - self.now)
            self.now = end
        self.found.queued += memory * (until - self.now)
        self.now = until

    def work(self, span: Span) -> None:
        """Work in the batches of a span, and hold what there is between them."""
        if span.recomputed:
            for step in span.steps():
                ticks = self.times.end[step.batch] - self.times.start[step.batch]
                self.found.recomputation += self.times.held(step.resident + step.tokens) * ticks
        if span.length > 1:
            first = span.batch if span.clock is None else span.step
            steps, passed = self.times.pauses(span.clock)
            some = range(bisect_right(steps, first), bisect_left(steps, first + span.length))
            self.found.queued += sum(self.times.held(span.resident + steps[k] - first) * passed[k] for k in some)
        self.device, self.now = span.resident + span.length - 1 + span.tokens, self.times.end[span.last]
