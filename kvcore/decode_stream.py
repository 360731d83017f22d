"""The rules, executed faster: continuing decodes are kept together, and repeated batches are executed as one.

`StreamExecution` replaces work for each request and batch in `kvcore.rules.Execution` by sums over the stream. Tests
compare traces and broken rules of both.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, filterfalse, islice
from math import inf
from operator import countOf

from kvcore.cost import Features
from kvcore.instance import LIMIT, Instance, KvGroup, KvLayout, Machine
from kvcore.limits import BUDGETS, use_of
from kvcore.rules import MOST_BATCHES, Execution, MoveMade, Work
from kvcore.schedule import Batch
from kvcore.state import RequestState
from kvcore.trace import MoveKind, Run, Span, StreamClock

LONGEST = 2**20
"""Batches of one stretch, 80 bytes each until packed."""


class Stream:
    """Continuing decodes: requests that generated a token in the batch before, and whose segment did not end.

    In each step all process and generate one token; others `leave` first. A batch in which none works is no step: they
    pause together. Sums make a batch's cost independent of their number. They hold their whole path.
    """

    def __init__(self, machine: Machine) -> None:
        self.members: dict[str, RequestState] = {}
        self.kv = 0  # tokens on the device
        self.blocks = 0  # blocks on the device
        self.steps = 0
        self.batch = -1  # of the latest step
        self._clock = StreamClock()
        self._machine, self._block = machine, machine.block
        layout = machine.layout or KvLayout(groups=(KvGroup(),))
        self._weight = sum(group.weight for group in layout.groups if group.window is None)
        self._windows = [(group.weight, group.window) for group in layout.groups if group.window is not None]
        self._phases: Counter[int] = Counter()  # (m - step) mod block: the blocks needed when that is -step
        self._fills: list[tuple[int, int, int, int, RequestState]] = []  # heap: step, ticket, group: a full window
        self._ends: list[tuple[int, int, int, RequestState]] = []  # heap: last step, position, ticket, state
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.members)

    def join(self, state: RequestState) -> None:
        """Add a request from the next step on."""
        state.joined = self.steps
        state.ticket = self._tickets = self._tickets + 1
        self.members[state.request.id] = state
        self.kv += state.device
        self.blocks += state.blocks
        self._phases[(state.device - self.steps) % self._block] += self._rate(state.device)
        for k, (weight, window) in enumerate(self._windows):
            if state.device < window:
                heappush(self._fills, (self.steps + window - state.device, state.ticket, k, weight, state))
        heappush(self._ends, (self.steps + state.to_generate - 1, state.position, state.ticket, state))

    def leave(self, state: RequestState) -> None:
        """Take a request out before the next step; update its state."""
        del self.members[state.request.id]
        steps, first = self.steps - state.joined, state.joined
        self._phases[(state.device - first) % self._block] -= self._rate(state.device + steps)
        if steps:
            batch = self._clock.batch(first)
            paused = self.batch - batch >= steps
            state.trace.spans.append(
                Span(batch, steps, state.device, 1, "decode", 0, True, first, self._clock if paused else None)
            )
            state.device += steps
            state.known += steps
            state.to_generate -= steps
            state.computed = max(state.computed, state.device)
            state.blocks = self._machine.blocks(state.device) - state.path
        state.joined = state.ticket = -1
        self.kv -= state.device
        self.blocks -= state.blocks

    def _rate(self, tokens: int) -> int:
        """The blocks that the block after these tokens takes."""
        if not self._windows:
            return self._weight
        return self._weight + sum(weight for weight, window in self._windows if tokens < window)

    def growth(self) -> int:
        """Return the device blocks gained in the next step."""
        return self._phases.get(-self.steps % self._block, 0)

    def growths(self) -> Iterator[int]:
        """Return the device blocks gained in each step, before `until_full`."""
        phases, block = self._phases, self._block
        return (phases.get(-step % block, 0) for step in count(self.steps))

    def until_full(self) -> int:
        """Return the number of steps before the next in which a window is full."""
        return self._fills[0][0] - self.steps if self._fills else LIMIT

    def advance(self, steps: int, growth: int, batch: int) -> None:
        """Make steps in `batch` and those after it, with `growth` more blocks."""
        if batch != self.batch + 1 or not self.steps:
            self._clock.resume(self.steps, batch)
        self.batch = batch + steps - 1
        self.steps += steps
        self.kv += steps * len(self.members)
        self.blocks += growth
        while self._fills and self.until_full() <= 0:
            _, ticket, _, weight, state = heappop(self._fills)
            if state.ticket == ticket:
                self._phases[(state.device - state.joined) % self._block] -= weight

    def until_end(self) -> int:
        """Return the number of steps through the first that ends a segment."""
        ends = self._ends
        while ends[0][3].ticket != ends[0][2]:  # it has left since
            heappop(ends)
        return ends[0][0] - self.steps + 1

    def ended(self) -> list[RequestState]:
        """Take out and return those whose segment the latest step ended."""
        ended: list[RequestState] = []
        while self.members and self.until_end() == 0:
            state = heappop(self._ends)[3]
            self.leave(state)
            ended.append(state)
        return ended


class StreamExecution(Execution):
    """As `Execution`, faster."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.stream = Stream(self.machine)
        self.streams = False  # the stream works in this batch
        self.ended: list[RequestState] = []  # the previous batch ended their segment
        self.most_blocks = inf if self.machine.block_limit is None else self.machine.block_limit
        self.budgets = [LIMIT if (most := limit.of(self.machine)) is None else most for limit in BUDGETS]
        decode = use_of(1, 1, 0)
        self.most_decodes = min([most for column, most, limit in self.limits if limit.rule == 5 and decode[column]],
                                default=LIMIT)  # fmt: skip

    @property
    def continuing(self) -> list[RequestState]:
        """Requests of `Execution.continuing`, on a machine without `pause`."""
        return [*self.stream.members.values(), *self.unfinished]

    def execute(self, batch: Batch) -> None:
        """As `Execution.execute`."""
        repeats = batch.repeat
        while repeats:
            repeats -= self.execute_some(batch, repeats)
            batch = batch.again(self.end) if repeats else batch

    def execute_some(self, batch: Batch, most: int) -> int:
        """Execute a batch, repeated up to `most` times while none but its decodes do anything; return how often."""
        moves = batch.drop or batch.swap_out or batch.swap_in or batch.forget or batch.reuse
        done = 0 if moves or batch.start < self.end else self.stretch(batch.work, most, start=batch.start)
        if not done:
            self.execute_once(batch)
        return done or 1

    def rule_11_completion(self) -> None:
        """R11: every request is done at the end."""
        for state in list(self.stream.members.values()):
            self.stream.leave(state)
        super().rule_11_completion()

    def make_move(self, kind: MoveKind, state: RequestState, tokens: int) -> MoveMade:
        """Make one move; its request leaves the stream."""
        if state.joined >= 0:
            self.stream.leave(state)
        return super().make_move(kind, state, tokens)

    def forget(self, blocks_of: dict[str, int]) -> None:
        """As `Execution.forget`; if it breaks a rule, the stream ends."""
        super().forget(blocks_of)
        for state in list(self.stream.members.values()) if self.broken else ():
            self.stream.leave(state)

    def read_work(self, start: int, work: dict[str, int]) -> list[Work]:
        """Return the batch's work that R2 and R3 allow, but for the stream.

        A request in the stream is ready with one token to process; those that do anything else leave, unless all pause.
        """
        members = self.stream.members
        others = {id: work[id] for id in filterfalse(members.__contains__, work)}
        ones = countOf(work.values(), 1) - countOf(others.values(), 1)
        if ones < len(work) - len(others):
            others = {id: tokens for id, tokens in work.items() if tokens != 1 or id not in members}
        self.streams = len(others) < len(work)
        if len(work) < len(others) + len(members):
            for id in [id for id in members if id in others or (self.streams and id not in work)]:
                self.stream.leave(members[id])
        return super().read_work(start, others)

    def features(self, works: list[Work], moves: list[MoveMade], decodes: int = 0, decode_kv: int = 0) -> Features:
        """As `Execution.features`."""
        return super().features(works, moves, *((len(self.stream), self.stream.kv) if self.streams else (0, 0)))

    def held(self, works: list[Work]) -> int:
        """As `Execution.held`, with the stream."""
        return super().held(works) + (self.stream.blocks if self.streams else 0)

    def needed(self, works: list[Work]) -> int:
        """As `Execution.needed`, with the stream."""
        return super().needed(works) + (self.stream.blocks + self.stream.growth() if self.streams else 0)

    def process(self, works: list[Work]) -> None:
        """As `Execution.process`; continuing decodes join the stream."""
        self.ended, self.unfinished = [], []
        if self.streams:
            self.stream.advance(1, self.stream.growth(), self.count)
            self.end_segments()
        for work in works:
            if not self.work(*work):
                self.ended.append(work.state)
            elif work.state.trace.spans[-1].generated and work.state.device >= work.state.path * self.machine.block:
                self.stream.join(work.state)
            else:
                self.unfinished.append(work.state)

    def end_segments(self) -> None:
        """End the segments whose last token the stream generated."""
        self.ended = self.stream.ended()
        for state in self.ended:
            self.end_segment(state)

    def stretch(self, work: dict[str, int], most: int, until: float = inf, start: int | None = None) -> int:
        """Let the stream, if it is all the work, decode in up to `most` batches from `start` on; return how many.

        Only memory can break a rule. The last one ends a segment, or ends at `until` or later, or is before one that
        lacks memory.
        """
        stream, block = self.stream, self.machine.block
        members, count = stream.members.keys(), len(stream.members)
        if self.due or self.unfinished or not 0 < count <= self.most_decodes or work.keys() != members:
            return 0
        if countOf(work.values(), 1) < count:
            return 0
        self.streams = True
        features = Features(1, 1, 0, count, count, count, 0, stream.kv)
        most = min(most, stream.until_end(), stream.until_full(), MOST_BATCHES - self.count, LONGEST)
        start = end = self.end if start is None else start
        blocks, retained = self.blocks, self.resident.retained
        limit = self.most_blocks
        ends: list[int] = []
        devices: list[int] = []
        for growth, duration in islice(zip(stream.growths(), self.cost.durations(features), strict=False), most):
            blocks += growth
            if blocks > limit:
                break
            end += duration
            ends.append(end)
            devices.append(blocks * block)
            if end >= until:
                break
        if not ends:
            return 0
        grown = devices[-1] // block - self.blocks
        stream.advance(len(ends), grown, self.count)
        self.end = ends[-1]
        self.blocks += grown
        self.count += len(ends) - 1
        self.end_segments()
        self.count += 1
        self.runs.append(Run(start, _packed(ends), features, _packed(devices), self.blocks * block, self.host,
                             retained * block, self.resident.retained * block))  # fmt: skip
        return len(ends)


def _packed(numbers: list[int]) -> Sequence[int]:
    return array("q", numbers) if len(numbers) > 1 and numbers[-1] < 2**63 else tuple(numbers)
