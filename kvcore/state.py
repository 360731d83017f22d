"""The state of requests during an execution: one by one, and together while they decode on."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from kvcore.instance import Request
from kvcore.trace import CallTrace, RequestTrace, Span, StreamClock

READY, CALLING, DONE = range(3)


class RequestState:
    """State of one request: S, m, h of the semantics, and where it stands.

    While it is in the `Stream`, what changes is as it was when it joined; `Stream.leave` brings it up to date.
    """

    __slots__ = ("blocks", "call", "computed", "device", "handling", "host", "joined", "known", "position",
                 "request", "segment", "status", "ticket", "to_generate", "trace", "window")  # fmt: skip

    def __init__(self, position: int, request: Request) -> None:
        self.position = position
        self.request = request
        self.trace = RequestTrace(request)
        self.known = request.prompt  # S
        self.device = 0  # m
        self.host = 0  # h
        self.blocks = 0  # device blocks
        self.computed = 0  # tokens processed at least once
        self.segment = 0
        self.to_generate = request.segments[0].decode  # tokens left to generate in the segment
        self.status = READY  # from its arrival on
        self.call: CallTrace | None = None  # the latest call
        self.handling = ""  # what the instance asks for the latest call
        self.window = False  # between the start of the latest call and the next work
        self.joined = -1  # its first step in the stream; -1: not in it
        self.ticket = -1  # which of all that joined the stream; -1: not in it


class Stream:
    """The decodes that go on: requests that generated a token in the batch before, and whose segment did not end.

    In each step all of them process and generate one token; one that does not has to `leave` first. A batch in which
    none of them works is no step: they pause together. What they hold together is kept in sums, so that a batch costs
    no more for having many of them.
    """

    def __init__(self, block: int) -> None:
        self.members: dict[str, RequestState] = {}
        self.kv = 0
        """Tokens that they hold on the device."""
        self.blocks = 0
        """Device blocks that they hold."""
        self.steps = 0
        """Steps made so far."""
        self.batch = -1
        """The batch of the latest step."""
        self._clock = StreamClock()
        self._block = block
        self._phases: Counter[int] = Counter()  # (m - step) mod block: how many need a block when that is -step
        self._ends: list[tuple[int, int, int, RequestState]] = []  # heap: last step, position, ticket, state
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.members)

    def join(self, state: RequestState) -> None:
        """Let a request decode on from the next step."""
        state.joined = self.steps
        state.ticket = self._tickets = self._tickets + 1
        self.members[state.request.id] = state
        self.kv += state.device
        self.blocks += state.blocks
        if self._block > 1:
            self._phases[(state.device - self.steps) % self._block] += 1
        heappush(self._ends, (self.steps + state.to_generate - 1, state.position, state.ticket, state))

    def leave(self, state: RequestState) -> None:
        """Take a request out, before the next step, and bring its state up to date."""
        del self.members[state.request.id]
        steps, first = self.steps - state.joined, state.joined
        if self._block > 1:
            self._phases[(state.device - first) % self._block] -= 1
        if steps:
            batch = self._clock.batch(first)
            paused = self._clock.batch(self.steps - 1) - batch >= steps
            state.trace.spans.append(
                Span(batch, steps, state.device, 1, "decode", 0, True, first, self._clock if paused else None)
            )
            state.device += steps
            state.known += steps
            state.to_generate -= steps
            state.computed = max(state.computed, state.device)
            state.blocks = -(-state.device // self._block)
        state.joined = state.ticket = -1
        self.kv -= state.device
        self.blocks -= state.blocks

    def growth(self, ahead: int = 0) -> int:
        """Return the device blocks that they need in the next step (or `ahead` after it) beside those they hold."""
        return len(self.members) if self._block == 1 else self._phases[-(self.steps + ahead) % self._block]

    def advance(self, steps: int, growth: int, batch: int) -> None:
        """Let them make steps in `batch` and those after it, for which they take `growth` blocks."""
        if batch != self.batch + 1 or not self.steps:
            self._clock.resume(self.steps, batch)
        self.batch = batch + steps - 1
        self.steps += steps
        self.kv += steps * len(self.members)
        self.blocks += growth

    def until_end(self) -> int:
        """Return the number of steps up to the first that ends a segment, that one included."""
        ends = self._ends
        while ends[0][3].ticket != ends[0][2]:  # it has left since
            heappop(ends)
        return ends[0][0] - self.steps + 1

    def ended(self) -> list[RequestState]:
        """Take out, and return, those whose segment the latest step has ended."""
        ended: list[RequestState] = []
        while self.members and self.until_end() == 0:
            state = heappop(self._ends)[3]
            self.leave(state)
            ended.append(state)
        return ended
