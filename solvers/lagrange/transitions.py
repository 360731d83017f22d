"""What one request may do in a slot: the rules R2 to R4 and R8 to R10, as options of a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from formulations.chains import Chain
from kvcore.instance import Machine, Request
from kvcore.trace import after_moves
from solvers.lagrange.setting import Setting


class NodeState(NamedTuple):
    """One request between two slots: the segment, its tokens generated, KV on the device and on the host.

    `wait`: slots until its call returns. `mark`: `due` (its call orders a move in the next batch), `choose` (the first
    slot of the window of a free call, where a drop is made now or never), `free` (a later one).
    """

    segment: int = 0
    generated: int = 0
    device: int = 0
    host: int = 0
    wait: int = 0
    mark: str = ""


class Action(NamedTuple):
    """What a request does in a slot, and what it holds in it: tokens on the device (after growth) and the host."""

    drop: int = 0
    swap_out: int = 0
    swap_in: int = 0
    work: int = 0
    device: int = 0
    host: int = 0
    decode: bool = False
    generated: bool = False
    place: int = -1
    """The segment after a free call whose KV, of `device` tokens, is on the device or the host; -1: on the device."""
    evicts: bool = False
    """A drop that R9 neither allows nor orders, which needs a batch."""


class Transition(NamedTuple):
    """An action that lasts `span` slots, and the state that it leads to (None: the request is done)."""

    action: Action
    head: NodeState | None
    span: int = 1


class Transitions:
    """The states of one request and their options, breaks included (where they are forbidden they are of no use)."""

    def __init__(self, machine: Machine, request: Request, setting: Setting) -> None:
        self.machine, self.request, self.setting = machine, request, setting
        self.chain = Chain(machine, request)
        self.known_at = [request.prompt]
        for segment, call in zip(request.segments, request.calls, strict=False):
            self.known_at.append(self.known_at[-1] + segment.decode + call.returns)

    def known(self, state: NodeState) -> int:
        """S of a request that is ready."""
        return self.known_at[state.segment] + state.generated

    def rest(self, state: NodeState) -> int:
        """Return slots until it is done at the least: one for each token, and the calls."""
        generated = (self.chain.ends[state.segment - 1] if state.segment else 0) + state.generated
        return state.wait + self.chain.outputs - generated + sum(self.chain.waits[generated + 2 :])

    # --- options -------------------------------------------------------------------------------------------------

    def options(self, state: NodeState) -> list[Transition]:
        """Return what the request may do next; a wait without a choice is one option of several slots."""
        if state.mark in ("choose", "free") and self.setting.free_places:
            return list(self.window(state))
        options = [*self.rests(state), *self.works(state)]
        if state.wait > 1 and len(options) == 1 and not any(options[0].action[:3]):
            head = options[0].head
            assert head is not None
            return [Transition(options[0].action, head._replace(wait=0), state.wait)]
        return options

    def moves(self, state: NodeState) -> Iterator[tuple[int, int, int]]:
        """Yield the (drop, swap_out, swap_in) that R8, R9 and R10 allow, without round trips that serve nothing."""
        device, host = state.device, state.host
        if state.mark == "due":
            swaps = self.request.calls[state.segment - 1].handling == "swap"
            yield from [(0, device, 0), (0, device, device)] if swaps else [(device, 0, 0)]
            return
        window, evict = state.mark in ("choose", "free"), self.machine.evict and not state.wait
        yield 0, 0, 0
        if device and (window or evict):
            yield 0, device, 0
            if self.machine.evict:  # there and back: a transfer, which makes a batch
                yield 0, device, device
        if host:
            yield 0, 0, host
        may_drop = state.mark == "choose" or (state.mark == "free" and not self.setting.early_drops) or evict
        if may_drop and device + host:
            yield device + host, 0, 0

    def rests(self, state: NodeState) -> Iterator[Transition]:
        """Moves without work."""
        window = state.mark in ("choose", "free")
        for drop, swap_out, swap_in in self.moves(state):
            if self.setting.hosted and swap_in:
                continue
            device, host = after_moves(state.device, state.host, drop, swap_out, swap_in)
            if not self.fits(device, host):
                continue
            evicts = drop > 0 and not window and state.mark != "due"
            mark = "free" if window and device + host else ""
            head = state._replace(device=device, host=host, wait=max(0, state.wait - 1), mark=mark)
            yield Transition(Action(drop, swap_out, swap_in, 0, device, host, evicts=evicts), head)

    def works(self, state: NodeState) -> Iterator[Transition]:
        """Moves and work (R2, R3, R4); in a window, swapping out and in just before the work serves nothing."""
        for drop, swap_out, swap_in in self.moves(state) if not state.wait else ():
            device, host = after_moves(state.device, state.host, drop, swap_out, swap_in)
            r9 = state.mark == "due" or (state.mark in ("choose", "free") and not swap_out)
            if host == 0 and (r9 or not (drop or swap_out)):
                yield from self.work(state, (drop, swap_out, swap_in), device)

    def work(self, state: NodeState, moves: tuple[int, int, int], device: int) -> Iterator[Transition]:
        """Every number of tokens that may be processed on top of `device` resident ones."""
        missing = self.known(state) - device
        decode = device > 0 and missing == 1
        limit = self.machine.batch_tokens if decode else self.machine.prefill_limit
        for tokens in self.parts(device, missing):
            if (limit is None or tokens <= limit) and self.fits(device + tokens, 0):
                generated = tokens == missing
                action = Action(*moves, tokens, device + tokens, 0, decode, generated)
                yield Transition(action, self.after_work(state, device + tokens, generated))

    def parts(self, device: int, missing: int) -> Iterator[int]:
        """Yield the numbers of tokens that may be processed at once: all, or a part that leaves little resident."""
        most = self.setting.most_partial
        yield from range(1, missing if most is None else min(missing, most - device + 1))
        yield missing

    def after_work(self, state: NodeState, device: int, generated: bool) -> NodeState | None:
        """Return the state after work; a token may end the segment, and then start a call or end the request."""
        count = state.generated + generated
        if count < self.request.segments[state.segment].decode:
            return state._replace(generated=count, device=device, host=0, mark="")
        call = self.request.segments[state.segment].call
        if call is None:
            return None
        free = "choose" if self.setting.early_drops else "free"
        mark = {"preserve": "", "free": free, "discard": "due", "swap": "due"}[call.handling]
        return NodeState(state.segment + 1, 0, device, 0, call.duration, mark)

    def window(self, state: NodeState) -> Iterator[Transition]:
        """The window of a free call where places are free: keep the KV somewhere, drop it at once, or work."""
        span = max(1, state.wait)
        held = 0 if self.setting.hosted else state.device
        yield Transition(Action(device=held, place=state.segment), state._replace(wait=0, mark="free"), span)
        drops = state.mark == "choose" and not self.setting.hosted
        if drops:
            yield Transition(Action(drop=state.device), state._replace(device=0, wait=0, mark=""), span)
        if not state.wait:
            yield from self.work(state, (0, 0, 0), state.device)
            if drops:
                yield from self.work(state, (state.device, 0, 0), 0)

    # --- memory --------------------------------------------------------------------------------------------------

    def fits(self, device: int, host: int) -> bool:
        """Whether the request alone fits (R6, R7)."""
        machine = self.machine
        on_device = machine.block_limit is None or machine.blocks(device) <= machine.block_limit
        return on_device and (machine.host_memory is None or host <= machine.host_memory)
