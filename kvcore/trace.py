"""The trace: an executed schedule, batch by batch and request by request. Only the referee makes it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Literal, NamedTuple

from kvcore.cost import Features
from kvcore.instance import Instance, Request
from kvcore.schedule import Batch, Schedule

Phase = Literal["prefill", "decode"]
MoveKind = Literal["drop", "swap_out", "swap_in", "reuse"]


class BatchTrace(NamedTuple):
    """One executed batch. Memory is in tokens, on the device of occupied blocks."""

    start: int
    duration: int
    features: Features
    device: int  # device memory during the batch, after its moves and growth (R6)
    device_after: int  # device memory from its end to the next batch
    host: int

    @property
    def end(self) -> int:
        """Tick at which the batch ends."""
        return self.start + self.duration


class Run(NamedTuple):
    """Consecutive batches of the same decodes; a single batch of any kind is a run of one."""

    start: int
    ends: Sequence[int]  # end of each batch, in ticks
    features: Features  # of the first batch; from each to the next, each decode reads one more token of KV
    devices: Sequence[int]  # device memory during each batch
    device_after: int
    host: int
    retained: int = 0  # device memory of contents that no request holds
    retained_after: int = 0

    def batches(self) -> Iterator[BatchTrace]:
        """Yield the batches one by one."""
        start, after = self.start, [*self.devices[:-1], self.device_after]
        for i, (end, device) in enumerate(zip(self.ends, self.devices, strict=True)):
            read = self.features.decode_kv + i * self.features.decode_requests
            features = self.features._replace(decode_kv=read) if i else self.features
            yield BatchTrace(start, end - start, features, device, after[i], self.host)
            start = end


class Step(NamedTuple):
    """The work of one request in one batch: `tokens` on top of `resident` ones."""

    batch: int
    resident: int
    tokens: int
    phase: Phase
    recomputed: int  # tokens processed before, too
    generated: bool


class StreamClock:
    """The batch of each step of the stream: consecutive, but for pauses."""

    def __init__(self) -> None:
        self._steps: list[int] = []  # the steps before which it paused, and the batches they were in
        self._batches: list[int] = []

    def resume(self, step: int, batch: int) -> None:
        """Continue with `step` in `batch`."""
        self._steps.append(step)
        self._batches.append(batch)

    def batch(self, step: int) -> int:
        """Return the batch of a step."""
        k = bisect_right(self._steps, step) - 1
        return self._batches[k] + step - self._steps[k]

    def stretches(self, count: int) -> list[range]:
        """Return the batches of all steps in order, up to batch `count`: a range up to each pause."""
        lengths = [after - before for before, after in pairwise(self._steps)]
        firsts = zip(self._batches, [*lengths, count - self._batches[-1]], strict=True)
        return [range(first, first + length) for first, length in firsts]


class Span(NamedTuple):
    """The work of one request in `length` batches of the same kind; more than one only for decodes.

    With a `clock`, the batches are those of `step` and later ones; otherwise `batch` and later ones.
    """

    batch: int
    length: int
    resident: int
    tokens: int
    phase: Phase
    recomputed: int
    generated: bool
    step: int = 0
    clock: StreamClock | None = None

    @property
    def last(self) -> int:
        """Its last batch."""
        more = self.length - 1
        return self.batch + more if self.clock is None else self.clock.batch(self.step + more)

    def steps(self) -> Iterator[Step]:
        """Yield the work in each batch."""
        for i in range(self.length):
            batch = self.batch + i if self.clock is None else self.clock.batch(self.step + i)
            yield Step(batch, self.resident + i, self.tokens, self.phase, self.recomputed, self.generated)


class Move(NamedTuple):
    """One move of KV at the start of a batch."""

    batch: int
    kind: MoveKind
    tokens: int


class Level(NamedTuple):
    """A request's KV after a move or work: tokens on the device and on the host."""

    event: Move | Step
    device: int
    host: int


def after_moves(
    device: int, host: int, drop: int = 0, swap_out: int = 0, swap_in: int = 0, reuse: int = 0
) -> tuple[int, int]:
    """Return device and host tokens after moves (R10): a drop takes from the host first."""
    from_host = min(host, drop)
    back = swap_in - swap_out
    return device - (drop - from_host) + back + reuse, host - from_host - back


class State(NamedTuple):
    """A request at a batch boundary: tokens known, on the device, on the host, and its progress."""

    known: int
    device: int
    host: int
    status: Literal["waiting", "ready", "call", "done"]


@dataclass(slots=True)
class CallTrace:
    """One call as it happened; `handling` is what was done to the KV before the next work."""

    segment: int
    batch: int  # the batch whose token starts the call
    start: int
    end: int
    held: int  # KV tokens at its start
    dropped: bool = False
    swapped: bool = False
    all_dropped: bool = False
    all_swapped: bool = False

    @property
    def handling(self) -> Literal["preserve", "discard", "swap", "mixed"]:
        """The handling of the KV, for reports."""
        if not self.dropped and not self.swapped:
            return "preserve"
        if self.all_dropped and not self.swapped:
            return "discard"
        if self.all_swapped and not self.dropped:
            return "swap"
        return "mixed"


@dataclass
class RequestTrace:
    """One executed request."""

    request: Request
    spans: list[Span] = field(default_factory=list, repr=False)
    moves: list[Move] = field(default_factory=list, repr=False)
    calls: list[CallTrace] = field(default_factory=list, repr=False)
    first_token: int = -1
    completion: int = -1

    @cached_property
    def steps(self) -> list[Step]:
        """Its work, batch by batch."""
        return [step for span in self.spans for step in span.steps()]

    def levels(self) -> Iterator[Level]:
        """Yield moves and work in order (moves come first in a batch), and the KV after each."""
        device = host = 0
        events: list[Move | Step] = [*self.moves, *self.steps]
        for event in sorted(events, key=lambda event: (event.batch, isinstance(event, Step))):
            if isinstance(event, Step):
                device += event.tokens
            else:
                device, host = after_moves(device, host, **{event.kind: event.tokens})
            yield Level(event, device, host)


@dataclass
class Trace:
    """An executed schedule that passed the referee, for `kvcore.metrics`.

    Long traces are kept as runs and spans; `batches` and `RequestTrace.steps` write them out.
    """

    instance: Instance
    schedule: Schedule
    runs: list[Run]
    requests: tuple[RequestTrace, ...]

    def __repr__(self) -> str:
        batches, end = sum(len(run.ends) for run in self.runs), self.runs[-1].ends[-1]
        what = f"{self.instance.name!r}: {len(self.requests)} requests in {batches} batches"
        return f"Trace({what}, ticks {self.runs[0].start} to {end})"

    @cached_property
    def batches(self) -> list[BatchTrace]:
        """The executed batches, one by one."""
        return [batch for run in self.runs for batch in run.batches()]

    def expanded(self) -> Schedule:
        """Return the schedule with no `repeat` above 1."""
        if all(batch.repeat == 1 for batch in self.schedule.batches):
            return self.schedule
        starts = iter(self.batches)
        batches: list[Batch] = []
        for batch in self.schedule.batches:
            batches.append(batch.model_copy(update={"start": next(starts).start, "repeat": 1}))
            batches += [batch.again(next(starts).start) for _ in range(batch.repeat - 1)]
        return Schedule(instance_sha256=self.schedule.instance_sha256, batches=tuple(batches))

    def memory_curve(self) -> list[tuple[int, int]]:
        """Return device memory over time: (tick, tokens of occupied blocks from this tick on)."""
        curve: list[tuple[int, int]] = []
        for j, batch in enumerate(self.batches):
            curve.append((batch.start, batch.device))
            if j + 1 == len(self.batches) or self.batches[j + 1].start > batch.end:
                curve.append((batch.end, batch.device_after))
        return curve

    def host_curve(self) -> list[tuple[int, int]]:
        """Return host memory over time: (tick, tokens from this tick on)."""
        return [(batch.start, batch.host) for batch in self.batches]

    def states(self, boundary: int) -> dict[str, State]:
        """Return the state of every request at the start of batch `boundary`, before its moves.

        `boundary` may be the number of batches.
        """
        if not 0 <= boundary <= len(self.batches):
            raise IndexError(f"boundary {boundary} is not in 0..{len(self.batches)}")
        last = boundary == len(self.batches)
        now = (self.batches[-1].end if self.batches else 0) if last else self.batches[boundary].start
        return {trace.request.id: self._state(trace, boundary, now) for trace in self.requests}

    def _state(self, trace: RequestTrace, boundary: int, now: int) -> State:
        if 0 <= trace.completion <= now:
            return State(trace.request.peak + 1, 0, 0, "done")
        device, host, known = 0, 0, trace.request.prompt
        for event, *kv in takewhile(lambda level: level.event.batch < boundary, trace.levels()):
            device, host = kv
            known += isinstance(event, Step) and event.generated
        status: Literal["waiting", "ready", "call"] = "ready" if trace.request.arrival <= now else "waiting"
        for call in trace.calls:
            if call.batch < boundary:
                if call.end <= now:
                    known += trace.request.calls[call.segment].returns
                else:
                    status = "call"
        return State(known, device, host, status)
