"""The plan of a replay: a schedule executed ahead of time on the host, down to the blocks of every batch.

`make_plan` compares the blocks with the referee's memory at every batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_validation.allocator import Allocator, Piece
from kvcore.errors import BadInput
from kvcore.instance import Instance, Request
from kvcore.referee import verify_schedule
from kvcore.schedule import Batch, Schedule
from kvcore.trace import BatchTrace, Step, Trace

Integers = NDArray[np.int64]


class Mismatch(RuntimeError):
    """The allocator's memory differs from the referee's: a mistake in this package, never of the input."""


class DeviceWork(NamedTuple):
    """A request's work in a batch: `tokens` on top of `resident` ones, and the blocks of its context."""

    request: int  # its position in the instance
    resident: int
    tokens: int
    table: tuple[int, ...]
    samples: bool  # whether it generates a token


@dataclass
class BatchPlan:
    """One batch: its work, the moves out of the device and back, and the freed blocks."""

    work: tuple[DeviceWork, ...]
    out: list[Piece] = field(default_factory=list)
    back: list[Piece] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)  # device blocks freed since the last batch, up to the swap-outs
    freed_host: list[int] = field(default_factory=list)  # host blocks freed since then, up to the drops
    tails: list[tuple[int, int]] = field(default_factory=list)
    """After the moves: (device block, first token of it that is not held) of the requests that moved."""

    def __post_init__(self) -> None:
        """Note the waits for the same block: moves in for moves out, and the work for either."""
        touched = {block for work in self.work for block in work.table} if self.out or self.back else set()
        device, host = {piece.device for piece in self.out}, {piece.host for piece in self.out}
        self.back_after_out = any(piece.device in device or piece.host in host for piece in self.back)
        self.work_after_out = not touched.isdisjoint(device)
        self.work_after_back = any(piece.device in touched for piece in self.back)

    def starts(self) -> list[int]:
        """Return the first row of each request, and the number of rows."""
        return [0, *np.cumsum([work.tokens for work in self.work]).tolist()]

    def positions(self) -> Integers:
        """Return the position of each row in its request."""
        return _joined([span for _, span in self._spans()])

    def slots(self, block: int) -> Integers:
        """Return where the KV of each row goes: device block * block + offset."""
        return _joined([np.array(work.table)[span // block] * block + span % block for work, span in self._spans()])

    def places(self, width: int) -> Integers:
        """Return the place of each row's token in `EnginePlan.history`."""
        return _joined([1 + work.request * width + span for work, span in self._spans()])

    def _spans(self) -> list[tuple[DeviceWork, Integers]]:
        return [(work, np.arange(work.resident, work.resident + work.tokens)) for work in self.work]

    def sampled(self) -> Integers:
        """Return the rows that generate a token."""
        return np.array([end - 1 for end, work in zip(self.starts()[1:], self.work, strict=True) if work.samples], int)


@dataclass
class EnginePlan:
    """A replay for the engine; its pools must hold `blocks` and `host_blocks`."""

    ids: tuple[str, ...]
    block: int
    width: int  # the longest context: tokens known at the end of a request
    given: list[list[tuple[int, int]]]  # by request: ranges of positions that are not generated
    batches: list[BatchPlan]
    blocks: int
    host_blocks: int
    trace: Trace | None = None  # the referee's execution (None for a batch made by `synthetic_plan`)

    def history(self, vocabulary: int, seed: int) -> Integers:
        """Return the tokens known ahead: place 0 is for scratch, request r at position p stands at 1 + r * width + p.

        Given tokens depend on the seed, the id and the position alone; those to be generated are -1, which has no
        embedding.
        """
        tokens = np.full(1 + len(self.ids) * self.width, -1)
        tokens[0] = 0
        for r, (id, ranges) in enumerate(zip(self.ids, self.given, strict=True)):
            stream = np.random.PCG64([seed, *id.encode()])  # its raw numbers are the same in all versions of numpy
            row = (stream.random_raw(max(last for _, last in ranges)) % vocabulary).astype(np.int64)
            for first, last in ranges:
                tokens[1 + r * self.width + first : 1 + r * self.width + last] = row[first:last]
        return tokens


def make_plan(instance: Instance, schedule: Schedule) -> EnginePlan:
    """Execute a schedule ahead of time.

    Raises:
        InvalidSchedule, BadInput: by the referee. BadInput: requests share contents.
        Mismatch: the blocks of a batch differ from the referee's memory.
    """
    if instance.contents:
        raise BadInput(f"{instance.name}: requests share contents, which the engine keeps apart; it replays none")
    trace = verify_schedule(instance, schedule)
    planner = _Planner(instance, trace)
    batches = [
        planner.batch(j, batch, traced)
        for j, (batch, traced) in enumerate(zip(trace.expanded().batches, trace.batches, strict=True))
    ]
    return EnginePlan(
        ids=tuple(request.id for request in instance.requests),
        block=instance.machine.block,
        width=max(request.peak for request in instance.requests) + 1,
        given=[_given(request) for request in instance.requests],
        batches=batches,
        blocks=planner.allocator.device.made,
        host_blocks=planner.allocator.host.made,
        trace=trace,
    )


def synthetic_plan(
    work: Sequence[tuple[int, int]], block: int, swap_out_tokens: int = 0, swap_in_tokens: int = 0
) -> EnginePlan:
    """Return a plan of one batch in which each request of `work` = [(c, m), ..] processes c tokens on top of m.

    One more request is swapped out, and one in. Every request of `work` generates a token; all tokens are given.
    """
    n = len(work)
    allocator = Allocator(n + 2, block)
    for i, (_, resident) in enumerate(work):
        allocator.grow(i, resident)
    for i, tokens in ((n, swap_out_tokens), (n + 1, swap_in_tokens)):
        allocator.grow(i, tokens)
    allocator.swap_out(n + 1, swap_in_tokens)
    out, back = allocator.swap_out(n, swap_out_tokens), allocator.swap_in(n + 1, swap_in_tokens)
    for i, (tokens, _) in enumerate(work):
        allocator.grow(i, tokens)
    works = tuple(DeviceWork(i, m, c, allocator.table(i), True) for i, (c, m) in enumerate(work))
    batch = BatchPlan(works, out, back)
    width = max((c + m for c, m in work), default=0) + 1
    ids = tuple(f"S{i}" for i in range(n + 2))
    given = [[(0, width)]] * len(ids)
    return EnginePlan(ids, block, width, given, [batch], allocator.device.made, allocator.host.made)


class _Planner:
    def __init__(self, instance: Instance, trace: Trace) -> None:
        self.instance = instance
        self.allocator = Allocator(len(instance.requests), instance.machine.block)
        self.steps: list[dict[int, Step]] = [{} for _ in trace.batches]
        for i, request in enumerate(trace.requests):
            for step in request.steps:
                self.steps[step.batch][i] = step
        self.last = [request.steps[-1].batch for request in trace.requests]

    def batch(self, j: int, batch: Batch, traced: BatchTrace) -> BatchPlan:
        moved = self.index(batch.drop) + self.index(batch.swap_out) + self.index(batch.swap_in)
        for i, tokens in self.index(batch.drop):
            self.allocator.drop(i, tokens)
        freed_host = self.allocator.host.collect()
        out = [piece for i, tokens in self.index(batch.swap_out) for piece in self.allocator.swap_out(i, tokens)]
        freed = self.allocator.device.collect()
        back = [piece for i, tokens in self.index(batch.swap_in) for piece in self.allocator.swap_in(i, tokens)]
        tails = [tail for i in sorted({i for i, _ in moved}) for tail in self.allocator.tail(i)]
        work = tuple(self.work(i, tokens, self.steps[j][i]) for i, tokens in self.index(batch.work))
        plan = BatchPlan(work, out, back, freed, freed_host, tails)
        self.compare(j, traced.device, traced.host)
        for work_done in work:
            if self.last[work_done.request] == j:
                self.allocator.finish(work_done.request)
        self.compare(j, traced.device_after, traced.host)
        return plan

    def index(self, tokens_of: dict[str, int]) -> list[tuple[int, int]]:
        return [(self.instance.index[id], tokens) for id, tokens in tokens_of.items()]

    def work(self, i: int, tokens: int, step: Step) -> DeviceWork:
        resident = self.allocator.resident(i)
        if (resident, tokens) != (step.resident, step.tokens):
            raise Mismatch(f"request {i} in batch {step.batch}: {resident} + {tokens}, the referee has {step}")
        self.allocator.grow(i, tokens)
        return DeviceWork(i, resident, tokens, self.allocator.table(i), step.generated)

    def compare(self, j: int, device: int, host: int) -> None:
        memory, held = self.instance.machine.memory, self.allocator.device.held * self.instance.machine.block
        if held != device or (memory is not None and held > memory) or self.allocator.host_tokens != host:
            raise Mismatch(
                f"batch {j}: the blocks hold {held} tokens and the host {self.allocator.host_tokens}, "
                f"the referee counts {device} and {host}, memory is {memory}"
            )


def _given(request: Request) -> list[tuple[int, int]]:
    ranges = [(0, request.prompt)]
    for k, call in enumerate(request.calls):
        first = request.context_at_call(k) + 1
        ranges.append((first, first + call.returns))
    return ranges


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
