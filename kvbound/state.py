"""The state of requests during an execution: one by one, and together while they decode on."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from kvbound.instance import Request
from kvbound.trace import CallTrace, RequestTrace, Span

READY, CALLING, DONE = range(3)


class RequestState:
    """State of one request: S, m, h of the semantics, and where it stands.

    While it is in the `Stream`, what changes is as it was when it joined; `Stream.leave` brings it up to date.
    """

    __slots__ = ("blocks", "call", "computed", "device", "handling", "host", "joined", "known", "left", "position",
                 "request", "segment", "status", "trace", "window")  # fmt: skip

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
        self.left = request.segments[0].decode  # tokens left to generate in the segment
        self.status = READY  # from its arrival on
        self.call: CallTrace | None = None  # the latest call
        self.handling = ""  # what the instance asks for the latest call
        self.window = False  # between the start of the latest call and the next work
        self.joined = -1  # the first batch in the stream; -1: not in it


class Stream:
    """The decodes that go on: requests that generated a token in the batch before, and whose segment did not end.

    In every batch each of them processes and generates one token; one that does not has to `leave` first. What they
    hold together is kept in sums, so that a batch costs no more for having many of them.
    """

    def __init__(self, block: int) -> None:
        self.members: dict[str, RequestState] = {}
        self.kv = 0
        """Tokens that they hold on the device."""
        self.blocks = 0
        """Device blocks that they hold."""
        self._block = block
        self._phases: Counter[int] = Counter()  # (m - batch) mod block: how many need a block when that is -batch
        self._ends: list[tuple[int, int, int, RequestState]] = []  # heap: last batch, position, first batch, state

    def __len__(self) -> int:
        return len(self.members)

    def join(self, state: RequestState, batch: int) -> None:
        """Let a request decode on from `batch`."""
        state.joined = batch
        self.members[state.request.id] = state
        self.kv += state.device
        self.blocks += state.blocks
        if self._block > 1:
            self._phases[(state.device - batch) % self._block] += 1
        heappush(self._ends, (batch + state.left - 1, state.position, batch, state))

    def leave(self, state: RequestState, batch: int) -> None:
        """Take a request out, before `batch`, and bring its state up to date."""
        del self.members[state.request.id]
        steps = batch - state.joined
        if self._block > 1:
            self._phases[(state.device - state.joined) % self._block] -= 1
        if steps:
            state.trace.spans.append(Span(state.joined, steps, state.device, 1, "decode", 0, True))
            state.device += steps
            state.known += steps
            state.left -= steps
            state.computed = max(state.computed, state.device)
            state.blocks = -(-state.device // self._block)
        state.joined = -1
        self.kv -= state.device
        self.blocks -= state.blocks

    def growth(self, batch: int) -> int:
        """Return the device blocks that they need in `batch` beside those they hold."""
        return len(self.members) if self._block == 1 else self._phases[-batch % self._block]

    def advance(self, batches: int, growth: int) -> None:
        """Let them process a token in each of `batches` batches, for which they take `growth` blocks."""
        self.kv += batches * len(self.members)
        self.blocks += growth

    def first_end(self) -> int:
        """Return the first batch in which a segment ends (there is one)."""
        ends = self._ends
        while ends[0][3].joined != ends[0][2]:
            heappop(ends)
        return ends[0][0]

    def ending(self, batch: int) -> list[RequestState]:
        """Take out, and return, those whose segment ends in `batch`, after it."""
        ended: list[RequestState] = []
        while self.members and self.first_end() == batch:
            state = heappop(self._ends)[3]
            self.leave(state, batch + 1)
            ended.append(state)
        return ended
