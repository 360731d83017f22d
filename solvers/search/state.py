"""Local states: where one request stands at a batch boundary, and what a batch may do with it.

A state of the search is one local state for each request. Local states are numbered as they are met, requests of one
kind share them, and time is relative (ticks until the arrival or the return), so that the same situation is one state
whenever it comes about. `docs/search.md` has the definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvbound.cost import Features
from kvbound.instance import Call, Instance, Machine, Request, Segment

DONE, WAITING, CALLING, READY = range(4)
"""Where a request stands: done, before its arrival, in a call, ready."""

NEVER = 2**62
"""A tick that does not come, an amount that never fits."""


class LocalState(NamedTuple):
    """State of one request at a batch boundary; `device` is m of the semantics and `host` is h, in tokens."""

    kind: int
    status: int
    segment: int
    left: int
    """Tokens left to generate in the segment."""
    device: int
    host: int
    remaining: int
    """Ticks until it arrives, or until its call returns (0 when ready)."""
    window: bool
    """A call handled by `free` has started, and the request has not worked since."""
    due: bool
    """The next batch makes the move that the handling of its call orders."""
    bound: bool
    """It worked in the batch before, and may not pause."""
    deadline: int
    """Tick at which it must be done to be on time (late-requests only; -1: nothing to lose)."""


FINISHED = LocalState(0, DONE, 0, 0, 0, 0, 0, False, False, False, -1)
"""The one state of every request that is done; its number is 0."""


@dataclass(frozen=True)
class Kind:
    """What requests that share their local states have in common. Ticks are relative where time does not matter."""

    prompt: int
    segments: tuple[Segment, ...]
    rate: int
    """What a tick costs while the request is unfinished (before its first token, for total-ttft)."""
    arrival: int
    first_by: int
    done_by: int
    tpot_ticks: int
    label: int

    def known(self, segment: int, left: int, calling: bool) -> int:
        """Return S: the prompt, what was generated, and what the calls returned that have ended."""
        generated = sum(s.decode for s in self.segments[:segment]) + self.segments[segment].decode - left
        ended = self.segments[: segment - 1] if calling else self.segments[:segment]
        return self.prompt + generated + sum(s.call.returns for s in ended if s.call is not None)

    def call(self, segment: int) -> Call:
        """Return the call between `segment` - 1 and `segment`."""
        call = self.segments[segment - 1].call
        assert call is not None
        return call


class Moves(NamedTuple):
    """The moves of one request at the start of a batch, in tokens."""

    drop: int
    swap_out: int
    swap_in: int


STAY = Moves(0, 0, 0)


class Option(NamedTuple):
    """What a batch may do with a request: its moves, its work, and what it then takes of the batch.

    `undo_device` is the device memory (blocks) that not making its last eviction would take, `undo_host` the host
    memory (tokens) that not freeing the host would take; NEVER where an option has nothing to undo.
    """

    after: LocalState
    moves: Moves
    work: int
    prefill: bool
    resident: int
    generates: bool
    blocks: int
    host: int
    undo_device: int = NEVER
    undo_host: int = NEVER
    needs_ready: bool = False

    def features(self) -> Features:
        """Return what this option alone adds to the features of its batch."""
        work = self.work
        decode, prefill = int(work > 0 and not self.prefill), int(work > 0 and self.prefill)
        return Features(
            busy=int(work > 0),
            any_decode=decode,
            any_prefill=prefill,
            tokens=work,
            generated=int(self.generates),
            decode_requests=decode,
            prefill_requests=prefill,
            decode_kv=decode * self.resident,
            prefill_kv=prefill * self.resident,
            prefill_pairs=prefill * (work * work + 2 * work * self.resident),
            swap_out_tokens=self.moves.swap_out,
            swap_in_tokens=self.moves.swap_in,
            swap_outs=int(self.moves.swap_out > 0),
            swap_ins=int(self.moves.swap_in > 0),
        )


def known(kinds: list[Kind], state: LocalState) -> int:
    """Return S of a local state that is not done."""
    return kinds[state.kind].known(state.segment, state.left, state.status == CALLING)
