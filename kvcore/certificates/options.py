"""What one request may do in a batch: R2, R3, R4, R8, R9 and R10 of `docs/semantics.md`, with no reduction.

For searches that a checker runs again; shares only the nouns with the referee.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from operator import attrgetter, le
from typing import NamedTuple

from kvcore.instance import Machine, Request
from kvcore.limits import LIMITS, limits_of

PLAIN, WINDOW, DUE, WORKED = range(4)
"""Marks of a state. `WINDOW`: between the start of a free call and the next work. `DUE`: the next batch must make its
call's move. `WORKED`: in the batch before, inside its segment, without `pause`.
"""


class LocalState(NamedTuple):
    """One request at a batch boundary.

    `wait` is the ticks until it arrives or its call returns; -1 - duration at the end of an option that starts a call,
    before the batch's ticks. Done: `segment` is past the last, all else 0.
    """

    segment: int = 0
    generated: int = 0
    device: int = 0
    host: int = 0
    mark: int = PLAIN
    wait: int = 0

    def after(self, ticks: int) -> LocalState:
        """Return the state `ticks` later; a call that starts at the batch's end starts now."""
        return self._replace(wait=-1 - self.wait if self.wait < 0 else max(0, self.wait - ticks))


class Load(NamedTuple):
    """What an option adds to a batch; sums decide R5 to R7 and the duration."""

    blocks: int = 0
    host: int = 0
    tokens: int = 0
    prefill_tokens: int = 0
    decode_requests: int = 0
    prefill_requests: int = 0
    generated: int = 0
    decode_kv: int = 0
    prefill_kv: int = 0
    prefill_pairs: int = 0
    swap_out_tokens: int = 0
    swap_in_tokens: int = 0
    swap_outs: int = 0
    swap_ins: int = 0

    @property
    def requests(self) -> int:
        """Requests that work."""
        return self.decode_requests + self.prefill_requests

    @property
    def shared(self) -> tuple[int, ...]:
        """Of `LIMITS`."""
        return _shared(self)

    @property
    def acts(self) -> bool:
        """Whether there is work or a transfer, as every batch needs."""
        return self.tokens + self.swap_out_tokens + self.swap_in_tokens > 0


_shared: Callable[[Load], tuple[int, ...]] = attrgetter(*(limit.column for limit in LIMITS))


class Option(NamedTuple):
    """Moves and work of one request in a batch, the KV of others that it reuses, its load, and the state at its end."""

    drop: int
    swap_out: int
    swap_in: int
    work: int
    reuse: int
    load: Load
    end: LocalState


class RequestOptions:
    """The states and options of one request on a machine."""

    def __init__(self, machine: Machine, request: Request) -> None:
        self.machine, self.request = machine, request
        self.limits, self.segments = limits_of(machine, inf), len(request.segments)

    def start(self) -> LocalState:
        """Return the state at tick 0."""
        return LocalState(wait=self.request.arrival)

    def is_done(self, state: LocalState) -> bool:
        """Whether all tokens are generated."""
        return state.segment == self.segments

    @staticmethod
    def has_first_token(state: LocalState) -> bool:
        """Whether the first token is generated."""
        return state.segment > 0 or state.generated > 0

    def options(self, state: LocalState, common: int = 0) -> Iterator[Option]:
        """Yield every option that the request's rules and an empty machine allow; others may have `common` tokens."""
        if self.is_done(state):
            yield Option(0, 0, 0, 0, 0, Load(), state)
            return
        block, known = self.machine.block, self.known(state)
        for drop, swap_out, swap_in in self.moves(state):
            from_host = min(state.host, drop)
            device = state.device - (drop - from_host) - swap_out + swap_in
            host = state.host - from_host + swap_out - swap_in
            evicted = drop or swap_out
            works = not state.wait and not host and (not evicted or state.mark in (WINDOW, DUE))  # R2, R4
            reused = range(device // block * block + block, min(common, known - 1) + 1, block) if works else ()
            for there in (device, *reused):
                sizes = [0] if there == device and (evicted or state.mark != WORKED) else []  # R5: it goes on
                if works:
                    sizes += range(1 if self.machine.chunked else known - there, known - there + 1)  # R3
                for work in sizes:
                    option = self.option(state, (drop, swap_out, swap_in), there, host, work, there - device)
                    if self.fits(option.load):
                        yield option

    def tries(self, state: LocalState, ways: int = 1) -> int:
        """Return about how many moves and sizes of work are tried, with `ways` to reuse KV of others."""
        amounts = state.device + state.host + 1
        missing = 0 if self.is_done(state) or state.wait else self.known(state)
        return (amounts**3 if self.machine.partial else 8) + ways * (missing if self.machine.chunked else 1)

    def moves(self, state: LocalState) -> Iterator[tuple[int, int, int]]:
        """Yield every (drop, swap-out, swap-in) that R8, R9 and R10 allow."""
        for drop in self._amounts(state.device + state.host):
            host = max(0, state.host - drop)
            device = state.device - (drop - (state.host - host))
            for swap_out in self._amounts(device):
                for swap_in in self._amounts(host + swap_out):
                    if self._may_move(state, drop, swap_out, swap_in):
                        yield drop, swap_out, swap_in

    def _amounts(self, held: int) -> Sequence[int]:
        return range(held + 1) if self.machine.partial else sorted({0, held})

    def _may_move(self, state: LocalState, drop: int, swap_out: int, swap_in: int) -> bool:
        handling = self.request.calls[state.segment - 1].handling if state.segment else "preserve"
        if state.mark == DUE:
            return (drop, swap_out) == ((state.device, 0) if handling == "discard" else (0, state.device))
        if state.mark == WINDOW:
            return True
        if state.wait:
            return not (drop or swap_out) and not (swap_in and handling == "preserve")
        return self.machine.evict or not (drop or swap_out)

    def left(self, state: LocalState) -> int:
        """Return the tokens still to generate."""
        return sum(segment.decode for segment in self.request.segments[state.segment :]) - state.generated

    def known(self, state: LocalState) -> int:
        """Return the tokens known of a ready request."""
        return self.request.known[state.segment] + state.generated

    def option(
        self, state: LocalState, moves: tuple[int, int, int], device: int, host: int, work: int, reuse: int = 0
    ) -> Option:
        """Return the option that ends with `device` + `work` tokens there, and `host` on the host."""
        _, swap_out, swap_in = moves
        missing = self.known(state) - device
        decode = work > 0 and device > 0 and missing == 1
        prefill = work > 0 and not decode
        load = Load(
            blocks=self.machine.blocks(device + work),
            host=self.machine.hosted(host),
            tokens=work,
            prefill_tokens=work if prefill else 0,
            decode_requests=int(decode),
            prefill_requests=int(prefill),
            generated=int(0 < work == missing),
            decode_kv=device if decode else 0,
            prefill_kv=device if prefill else 0,
            prefill_pairs=work * work + 2 * work * device if prefill else 0,
            swap_out_tokens=swap_out,
            swap_in_tokens=swap_in,
            swap_outs=int(swap_out > 0),
            swap_ins=int(swap_in > 0),
        )
        worked, rested = PLAIN if self.machine.pause else WORKED, WINDOW if state.mark == WINDOW else PLAIN
        mark = worked if work else rested
        end = state._replace(device=device + work, host=host, mark=mark)
        return Option(*moves, work, reuse, load, self._generate(end) if load.generated else end)

    def _generate(self, state: LocalState) -> LocalState:
        segment = self.request.segments[state.segment]
        if state.generated + 1 < segment.decode:
            return state._replace(generated=state.generated + 1)
        if segment.call is None:
            return LocalState(segment=self.segments)
        mark = {"preserve": PLAIN, "free": WINDOW, "discard": DUE, "swap": DUE}[segment.call.handling]
        wait = -1 - segment.call.duration
        return state._replace(segment=state.segment + 1, generated=0, mark=mark, wait=wait)

    def fits(self, load: Load) -> bool:
        """Whether R5 to R7 allow such a batch; what is broken stays broken."""
        within = all(map(le, load.shared, self.limits))
        return within and (self.machine.hybrid or not (load.decode_requests and load.prefill_requests))
