"""A request as a policy sees it."""

from __future__ import annotations

from typing import Literal

from heuristics.alone import Effort
from heuristics.outlook import Outlook
from kvbound.instance import Handling, Slo
from kvbound.trace import Phase
from kvbound.validator import RequestState

Knows = Literal["online", "predictions", "clairvoyant"]
"""What a policy may know: `online`, what has happened; `predictions`, also the sizes and calls of the requests that
have arrived; `clairvoyant`, everything."""


class NotKnown(Exception):  # noqa: N818 - the name says what it is
    """A policy asked for what it said that it does not know."""


class Job:
    """One request, as it stands at a batch boundary after the moves that rule R9 orders in this batch.

    A job is a copy: changing it changes nothing but the policy's own picture. Tokens and ticks throughout.
    """

    __slots__ = ("_ahead", "_effort", "arrival", "blocks", "call_start", "calling", "device", "generated", "handling",
                 "host", "id", "index", "known", "prompt", "segment", "slo", "weight", "window", "worked")  # fmt: skip

    def __init__(self, state: RequestState, ahead: Outlook | None) -> None:
        request = state.request
        self._ahead = ahead
        self.id: str = request.id
        self.index: int = state.position
        """Position in the instance's list of requests."""
        self.arrival: int = request.arrival
        self.prompt: int = request.prompt
        self.weight: int = request.weight
        self.slo: Slo | None = request.slo
        self.worked = False
        """Whether it worked in the batch before."""
        self.refresh(state, 0)

    def refresh(self, state: RequestState, now: int) -> None:
        """Copy the exact state at tick `now`."""
        self._effort: Effort | None = None
        self.known: int = state.known
        """S: tokens of prompt, generated and returned."""
        self.device: int = state.device
        """m: tokens of KV on the device."""
        self.host: int = state.host
        """h: tokens of KV on the host."""
        self.blocks: int = state.blocks
        """Device blocks held, in this batch once it has been taken into the batch."""
        self.segment: int = state.segment
        """Segment that it is in, or that follows the running call (from 0)."""
        self.generated: int = state.request.segments[state.segment].decode - state.left
        """Tokens generated in this segment."""
        self.window: bool = state.window
        """Whether it has not worked since its latest call started."""
        self.handling: Handling | None = state.request.calls[state.segment - 1].handling if state.window else None
        """What the instance asks for the latest call, while `window`."""
        self.call_start: int | None = state.call.start if state.window and state.call is not None else None
        self.calling: bool = state.call is not None and state.window and state.call.end > now
        """Whether it is in a call."""

    def put(self, device: int, host: int) -> None:
        """Note where its KV is after a move that the batch being decided makes."""
        self._effort = None
        self.device, self.host = device, host

    @property
    def missing(self) -> int:
        """Tokens to process until it generates the next one (KV on the host is brought back, not processed)."""
        return self.known - self.device - self.host

    @property
    def phase(self) -> Phase:
        """The phase of its next work."""
        return "decode" if self.missing == 1 and self.device + self.host > 0 else "prefill"

    # --- what lies ahead, for policies that know predictions -----------------------------------------------------

    @property
    def ahead(self) -> Outlook:
        """What lies ahead of it, as predicted. NotKnown for an online policy."""
        if self._ahead is None:
            raise NotKnown(f"an online policy does not know what lies ahead of request {self.id}")
        return self._ahead

    @property
    def left(self) -> int:
        """Tokens left to generate in this segment."""
        return self.ahead.left(self.segment, self.generated)

    @property
    def peak(self) -> int:
        """KV tokens that it holds at its end."""
        return self.ahead.peak

    @property
    def work(self) -> int:
        """Ticks of its remaining batches if it ran alone: decodes, prefills, recomputations and transfers."""
        return (self._effort or self._efforts()).ticks

    @property
    def call_time(self) -> int:
        """Ticks of all its coming calls."""
        return self.ahead.calls[self.segment]

    @property
    def area(self) -> int:
        """Remaining memory-time in token-ticks: KV held over time if it ran alone, and the waste of its calls."""
        return (self._effort or self._efforts()).area

    @property
    def call_end(self) -> int | None:
        """Tick at which the latest call ends, while `window`."""
        ahead = self.ahead
        return None if self.call_start is None else self.call_start + ahead.durations[self.segment - 1]

    def _efforts(self) -> Effort:
        self._effort = self.ahead.effort(self.segment, self.device, self.host, self.missing, self.generated)
        return self._effort
