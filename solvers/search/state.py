"""Local states: where one request stands at a batch boundary.

A state of the search is one local state for each request. Local states are numbered as they are met, requests of one
kind share them, and time in them is relative (ticks until the arrival or the return), so that the same situation is
one state whenever it comes about. `docs/search.md` has the definitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kvcore.cost import Features
from kvcore.instance import Call, Segment

DONE, WAITING, CALLING, READY = range(4)
"""Where a request stands: done, before its arrival, in a call, ready."""

NEVER = 2**62
"""A tick that does not come; an amount that never fits."""


class LocalState(NamedTuple):
    """State of one request at a batch boundary; `device` is m of the semantics and `host` is h, in tokens."""

    kind: int
    status: int
    segment: int
    to_generate: int
    """Tokens left to generate in the segment."""
    device: int = 0
    host: int = 0
    remaining: int = 0
    """Ticks until it arrives, or until its call returns (0 when ready)."""
    window: bool = False
    """A call handled by `free` has started, the request has not worked since, and it holds KV."""
    due: bool = False
    """The next batch makes the move that the handling of its call orders."""
    bound: bool = False
    """It worked in the batch before, its segment goes on, and the machine does not pause."""
    fresh: bool = False
    """It became ready while the machine waited for it: the next batch has to be one that could not start earlier."""
    refills: bool = False
    """Its KV was dropped in a batch made for that alone: it works in the next batch."""
    deadline: int = -1
    """Tick at which it must be done to be on time (late-requests only; -1: nothing to lose)."""


FINISHED = LocalState(0, DONE, 0, 0)
"""The one state of every request that is done; its number is 0."""


@dataclass(frozen=True)
class RequestKind:
    """What requests that share their local states have in common.

    `rate` is what a tick costs while the request is unfinished (for total-ttft: before its first token). The ticks are
    absolute and only matter to the objectives that need them: `arrival` to max-flow-time, the others to late-requests.
    """

    prompt: int
    segments: tuple[Segment, ...]
    rate: int
    arrival: int
    first_by: int
    done_by: int
    tpot_ticks: int
    label: int

    def generated(self, state: LocalState) -> int:
        """Return the number of tokens generated so far."""
        return sum(s.decode for s in self.segments[: state.segment + 1]) - state.to_generate

    def known(self, state: LocalState) -> int:
        """Return S: the prompt, what was generated, and what the calls returned that have ended."""
        ended = self.segments[: state.segment - (state.status == CALLING)]
        return self.prompt + self.generated(state) + sum(s.call.returns for s in ended if s.call is not None)

    def call(self, state: LocalState) -> Call:
        """Return the latest call of a state that has had one."""
        call = self.segments[state.segment - 1].call
        assert call is not None
        return call

    def begun(self, state: LocalState) -> bool:
        """Whether the first token has been generated."""
        return state.segment > 0 or state.to_generate < self.segments[0].decode


class Moves(NamedTuple):
    """The moves of one request at the start of a batch, in tokens, made in this order."""

    drop: int
    swap_out: int
    swap_in: int


STAY = Moves(0, 0, 0)


class LocalOption(NamedTuple):
    """What a batch may do with a request: its moves, its work, and what it then takes of the batch.

    `undo_device` (blocks) and `undo_host` (tokens) are what it would take not to make the last of its moves; NEVER
    where there is nothing to undo.
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
    makes_batch: bool = False
    """It swaps out and in for nothing but to make a batch of drops, which alone are none."""
    drops_for_refill: bool = False
    """It drops KV in such a batch."""

    def features(self) -> Features:
        """Return the features of a batch that does this and nothing else."""
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


def passed(state: LocalState, ticks: int, waited: bool = False) -> LocalState:
    """Return the state after `ticks` ticks; `waited`: without a batch, up to the next arrival or return."""
    if state.remaining == 0:
        return state
    if state.remaining <= ticks:
        return state._replace(status=READY, remaining=0, fresh=waited)
    return state._replace(remaining=state.remaining - ticks)
