"""What one request may do in a layer: the rules R2 to R4 and R8 to R10, as options of a state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from formulations.arc_flow.setting import Setting
from formulations.chains import Chain
from kvcore.instance import Machine, Request
from kvcore.trace import after_moves


class NodeState(NamedTuple):
    """One request between two layers: the segment, its tokens generated, KV on the device and on the host.

    `wait`: layers until its call returns. `mark`: `due` (its call orders a move in the next batch), `choose` (the first
    layer of the window of a free call), `free` (a later one), `worked` (in the batch before, and its segment goes on,
    on a machine without `pause`). For late-requests, `late`: an SLO has been exceeded; `due_by`: the layer in which it
    has to end, set by its first token and an SLO on TPOT, or -1.
    """

    segment: int = 0
    generated: int = 0
    device: int = 0
    host: int = 0
    wait: int = 0
    mark: str = ""
    late: bool = False
    due_by: int = -1


class Action(NamedTuple):
    """What a request does in a layer, and what it holds in it: tokens on the device (after growth) and the host."""

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
    idle: bool = False
    """Allowed only in a layer without work and transfers."""
    evicts: bool = False
    """A drop that R9 neither allows nor orders, which needs a layer with work or a transfer."""

    @property
    def resident(self) -> int:
        """Tokens on the device after the moves, before the work (of a request that works)."""
        return self.device - self.work

    @property
    def transfers(self) -> bool:
        """Whether KV is swapped."""
        return self.swap_out + self.swap_in > 0

    @property
    def is_batch(self) -> bool:
        """Whether it makes its layer a batch: work, or a transfer."""
        return self.work > 0 or self.transfers

    @property
    def moves(self) -> tuple[bool, bool, bool]:
        """Which moves are made: drop, swap_out, swap_in."""
        return self.drop > 0, self.swap_out > 0, self.swap_in > 0


class Transition(NamedTuple):
    """An action that lasts `span` layers, and the state that it leads to (None: the request is done)."""

    action: Action
    head: NodeState | None
    span: int = 1


class Transitions:
    """The states of one request and their options."""

    def __init__(self, machine: Machine, request: Request, setting: Setting) -> None:
        self.machine, self.request, self.setting = machine, request, setting
        self.chain = Chain(machine, request)
        self.known_at = [request.prompt]
        for segment, call in zip(request.segments, request.calls, strict=False):
            self.known_at.append(self.known_at[-1] + segment.decode + call.returns)
        self.options = cache(self._options)
        self.rest = cache(self._rest)

    def known(self, state: NodeState) -> int:
        """S of a request that is ready."""
        return self.known_at[state.segment] + state.generated

    def _rest(self, state: NodeState) -> int:
        """Return layers until it is done at the least: one for each token, and the calls."""
        generated = (self.chain.ends[state.segment - 1] if state.segment else 0) + state.generated
        steps = self.chain.outputs - generated
        for q in range(generated + 2, self.chain.outputs + 1):
            steps += self.chain.waits[q] if self.setting.timed else 0
        return state.wait + steps

    # --- options -------------------------------------------------------------------------------------------------

    def _options(self, state: NodeState) -> list[Transition]:
        """Return what the request may do next; a wait without a choice is one option of several layers."""
        if state.mark in ("choose", "free") and self.setting.free_places:
            return list(self.window(state))
        options = [*self.stays_due(state), *self.rests(state), *self.works(state)]
        if state.wait > 1 and len(options) == 1 and not any(options[0].action.moves):
            head = options[0].head
            assert head is not None
            return [Transition(options[0].action, head._replace(wait=0), state.wait)]
        return options

    def stays_due(self, state: NodeState) -> Iterator[Transition]:
        """An ordered swap waits for the next batch, as long as the layers are idle."""
        if self.owes_swap(state) and not self.setting.early_swaps:
            head = state._replace(wait=max(0, state.wait - 1))
            yield Transition(Action(device=state.device, idle=True), head)

    def owes_swap(self, state: NodeState) -> bool:
        """Whether the next batch must swap out the KV."""
        return state.mark == "due" and self.request.calls[state.segment - 1].handling == "swap"

    def moves(self, state: NodeState) -> Iterator[tuple[int, int, int]]:
        """Yield the (drop, swap_out, swap_in) that R8, R9 and R10 allow, without round trips that serve nothing."""
        if state.mark == "due":
            order = (0, state.device) if self.owes_swap(state) else (state.device, 0)
            yield from ((*order, back) for back in self.amounts(order[1]))
            return
        window, evict = state.mark in ("choose", "free"), self.machine.evict and not state.wait
        may_drop = state.mark == "choose" or (state.mark == "free" and not self.setting.early_drops) or evict
        for drop in self.amounts(state.device + state.host, may_drop):
            device, host = after_moves(state.device, state.host, drop)
            yield drop, 0, 0
            if device and (window or evict):
                yield from ((drop, out, 0) for out in self.amounts(device)[1:])
                if self.machine.evict:  # there and back: a transfer, which excuses a pause and makes a batch
                    tokens = 1 if self.machine.partial else device
                    yield drop, tokens, tokens
            yield from ((drop, 0, back) for back in self.amounts(host)[1:])

    def amounts(self, tokens: int, allowed: bool = True) -> Sequence[int]:
        """Return how much of it may be moved: nothing, all, or (with `partial`) any part."""
        if not allowed or not tokens:
            return (0,)
        return range(tokens + 1) if self.machine.partial else (0, tokens)

    def rests(self, state: NodeState) -> Iterator[Transition]:
        """Moves without work."""
        window = state.mark in ("choose", "free")
        for drop, swap_out, swap_in in self.moves(state):
            must_go_on = state.mark == "worked" and not (drop or swap_out)
            if (must_go_on and not self.setting.idle_layers) or (self.setting.late_returns and swap_in):
                continue
            device, host = after_moves(state.device, state.host, drop, swap_out, swap_in)
            if not self.fits(device, host):
                continue
            evicts = drop > 0 and not window and state.mark != "due"
            mark = "worked" if must_go_on else "free" if window and device + host else ""
            wait = max(0, state.wait - 1)
            head = state._replace(device=device, host=host, wait=wait, mark=mark)
            action = Action(drop, swap_out, swap_in, 0, device, host, idle=must_go_on, evicts=evicts)
            yield Transition(action, head)

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
            mark = "" if self.machine.pause else "worked"
            return state._replace(generated=count, device=device, host=0, mark=mark)
        call = self.request.segments[state.segment].call
        if call is None:
            return None
        free = "choose" if self.setting.early_drops else "free"
        mark = {"preserve": "", "free": free, "discard": "due", "swap": "due"}[call.handling]
        wait = call.duration if self.setting.timed else 0
        return state._replace(segment=state.segment + 1, generated=0, device=device, host=0, wait=wait, mark=mark)

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
