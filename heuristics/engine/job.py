"""A request as a policy sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from heuristics.engine.demand import Demand, Effort
from kvcore.decode_stream import StreamExecution
from kvcore.instance import Handling, Slo
from kvcore.state import CALLING, DONE, RequestState
from kvcore.trace import Phase

Knows = Literal["online", "predictions", "clairvoyant"]
"""`online`: what has happened; `predictions`: also the sizes and calls of the requests that have arrived;
`clairvoyant`: everything."""


class NotKnown(Exception):
    """A policy asked for facts unknown to it."""


class Job:
    """One request, as it stands at a batch boundary after the moves that the batch being decided makes.

    Only a `Plan` changes it. Tokens and ticks throughout. `id`, `arrival`, `prompt`, `weight`, `slo` and `max_new` are
    the request's, `index` is its position, `path` has its shared contents. `demand` and what follows need a
    policy that knows predictions.
    """

    __slots__ = ("_demand", "_effort", "_effort_of", "_execution", "_held", "_state", "arrival", "finds", "id", "index",
                 "max_new", "path", "prompt", "slo", "spares", "weight")  # fmt: skip

    def __init__(self, execution: StreamExecution, state: RequestState, demand: Demand | None) -> None:
        request = state.request
        self._execution = execution
        self._state = state
        self._demand = demand
        self._held: tuple[int, int, int] | None = None  # device, host, blocks that the plan leaves it
        self.finds: Callable[[Job], int] | None = None
        self.spares: Callable[[Job, int], int] | None = None
        self._effort = Effort(0, 0)
        self._effort_of: tuple[int, int, int] | None = None
        self.id: str = request.id
        self.index: int = state.position  # position in the instance's list of requests
        self.arrival: int = request.arrival
        self.prompt: int = request.prompt
        self.weight: int = request.weight
        self.slo: Slo | None = request.slo
        self.max_new: int | None = request.max_new  # of each segment; every policy may know it
        self.path = execution.instance.parts[state.position]  # the contents with which its context begins

    def hold(self, device: int, host: int, blocks: int) -> None:
        """Note where the batch being decided leaves its KV, until `forget`."""
        self._held = device, host, blocks

    def forget(self) -> None:
        """Show the state of the execution again."""
        self._held = None

    def _decoded(self) -> int:
        joined = self._state.joined
        return 0 if joined < 0 else self._execution.stream.steps - joined

    # --- what every policy may know ------------------------------------------------------------------------------

    @property
    def known(self) -> int:
        """S: tokens of prompt, generated and returned."""
        return self._state.known + self._decoded()

    @property
    def device(self) -> int:
        """m: tokens of KV on the device."""
        return self._state.device + self._decoded() if self._held is None else self._held[0]

    @property
    def tokens(self) -> int:
        """Tokens on the device before the batch."""
        return self._state.device + self._decoded()

    @property
    def found(self) -> int:
        """Tokens after its KV that it reuses in this batch."""
        return 0 if self.finds is None else self.finds(self)

    @property
    def host(self) -> int:
        """h: tokens of KV on the host."""
        return self._state.host if self._held is None else self._held[1]

    @property
    def blocks(self) -> int:
        """Device blocks held, in this batch once it has been taken into it."""
        if self._held is not None:
            return self._held[2]
        if self._state.joined < 0 and not self.path:
            return self._state.blocks
        return self._execution.machine.blocks(self.device)

    def growth(self, tokens: int) -> int:
        """Return the device blocks that it lacks to process `tokens`, KV on the host included."""
        state = self._state
        if self._held is None and state.joined < 0 and self.finds is None and not self.path:  # at rest
            return self._execution.machine.blocks(state.device + state.host + tokens) - state.blocks
        after = self.device + self.host + self.found + tokens
        return self._execution.machine.blocks(after) - self.blocks - self.spared(after)

    def spared(self, after: int) -> int:
        """Return how many blocks that others hold it has with `after` tokens, less now."""
        return 0 if self.spares is None else self.spares(self, after)

    @property
    def segment(self) -> int:
        """Segment that it is in, or that follows the running call (from 0)."""
        return self._state.segment

    @property
    def generated(self) -> int:
        """Tokens generated in this segment."""
        state = self._state
        return state.request.segments[state.segment].decode - state.to_generate + self._decoded()

    @property
    def window(self) -> bool:
        """Whether it has not worked since its latest call started."""
        return self._state.window

    @property
    def handling(self) -> Handling | None:
        """Handling that the instance asks for the latest call, while `window`."""
        state = self._state
        return state.request.calls[state.segment - 1].handling if state.window else None

    @property
    def call_start(self) -> int | None:
        """Tick at which the latest call started, while `window`."""
        state = self._state
        return state.call.start if state.window and state.call is not None else None

    @property
    def call_ended(self) -> int | None:
        """Tick at which the latest call ended, while `window`."""
        state = self._state
        return state.call.end if state.window and state.call is not None and not self.calling else None

    @property
    def calling(self) -> bool:
        """Whether it is in a call."""
        return self._state.status == CALLING

    @property
    def done(self) -> bool:
        """Whether it is done."""
        return self._state.status == DONE

    @property
    def worked(self) -> bool:
        """Whether it worked in the batch before."""
        return self.last == self._execution.count - 1 >= 0

    @property
    def last(self) -> int:
        """Its last batch of work, or -1."""
        if self._decoded():
            return self._execution.stream.batch
        spans = self._state.trace.spans
        return spans[-1].last if spans else -1

    @property
    def missing(self) -> int:
        """Tokens to process until it generates the next one, but for host KV and `found`."""
        state, held = self._state, self._held
        if held is None and state.joined >= 0:
            return 1
        known = state.known if state.joined < 0 else self.known
        device, host = (state.device, state.host) if held is None else held[:2]
        return known - device - host - (0 if self.finds is None else self.finds(self))

    @property
    def phase(self) -> Phase:
        """The phase of its next work."""
        return "decode" if self.missing == 1 and self.known > 1 else "prefill"

    # --- its demand, for policies that know predictions ----------------------------------------------------------

    @property
    def demand(self) -> Demand:
        """Its predicted demand up to its end. NotKnown for an online policy."""
        if self._demand is None:
            raise NotKnown(
                f"an online policy does not know the demand of request {self.id}; "
                'one that may know has knows = "predictions"'
            )
        return self._demand

    @property
    def remaining(self) -> int:
        """Tokens left to generate in this segment."""
        return self.demand.remaining(self.segment, self.generated)

    @property
    def peak(self) -> int:
        """KV tokens that it holds at its end."""
        return self.demand.peak

    @property
    def work(self) -> int:
        """Ticks of its remaining batches if it ran alone: decodes, prefills, refills and transfers."""
        return self._efforts().ticks

    @property
    def call_time(self) -> int:
        """Ticks of all its coming calls."""
        return self.demand.call_ticks[self.segment]

    @property
    def area(self) -> int:
        """Remaining memory-time in token-ticks: KV over time if it ran alone, and the waste of its calls."""
        return self._efforts().area

    @property
    def call_end(self) -> int | None:
        """Tick at which the latest call ends, while `window`."""
        demand = self.demand
        return None if self.call_start is None else self.call_start + demand.durations[self.segment - 1]

    def _efforts(self) -> Effort:
        state, decoded = self._state, self._decoded()
        device, host, _ = self._held or (state.device + decoded, state.host, 0)
        device += self.found
        now = state.known + decoded, device, host
        if now != self._effort_of:
            self._effort_of = now
            missing = now[0] - device - host
            self._effort = self.demand.effort(state.segment, device, host, missing, self.generated)
        return self._effort
