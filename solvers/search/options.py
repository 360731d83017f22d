"""What one batch may do with one request: the legal options of a local state, less those that the rules leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvbound.instance import Machine
from solvers.search.rules import Rules
from solvers.search.state import CALLING, DONE, FINISHED, NEVER, READY, WAITING, Kind, LocalState, Moves, Option

STAY = Moves(0, 0, 0)


class Options:
    """Options of local states, by kind of request."""

    def __init__(self, machine: Machine, rules: Rules, kinds: list[Kind]) -> None:
        self.machine = machine
        self.rules = rules
        self.kinds = kinds

    def known(self, state: LocalState) -> int:
        """Return S."""
        return self.kinds[state.kind].known(state.segment, state.left, state.status == CALLING)

    def of(self, state: LocalState) -> tuple[list[Option], list[Option]]:
        """Return the options of a state, and those that replace its first option where memory is short."""
        if state.status == DONE or (state.status == WAITING):
            return [_rest(state)], []
        ordered = self.ordered(state)
        chosen: list[Option] = []
        where_short: list[Option] = []
        for moves in self.moves(state, ordered):
            evicted = bool(moves.drop or moves.swap_out) and not (state.window or state.due)
            option = self.resting(state, moves, evicted)
            if not state.bound or evicted:
                if moves == ordered or state.bound or not self.rules.lazy or (self.rules.early_drop and evicted and moves.drop):
                    chosen.append(option)
                elif self.rules.forget and self.may_evict(state):
                    if moves.drop == state.device + state.host:
                        chosen.append(option)
                else:
                    where_short.append(self.undoable(state, moves, option))
            if state.status == READY and option.host == 0 and not evicted:
                chosen += self.working(state, moves)
        if self.rules.forget and self.may_evict(state):
            chosen = [o for o in chosen if o.work or o.moves.drop == state.device + state.host]
        chosen.sort(key=lambda o: (o.work > 0, o.moves != ordered))
        return chosen, where_short

    # --- moves ---------------------------------------------------------------------------------------------------

    def ordered(self, state: LocalState) -> Moves:
        """Return the move that the handling of the call orders in the next batch, if one is due."""
        if not state.due:
            return STAY
        handling = self.kinds[state.kind].call(state.segment).handling
        return Moves(state.device, 0, 0) if handling == "discard" else Moves(0, state.device, 0)

    def may_evict(self, state: LocalState) -> bool:
        """Whether KV may be dropped or swapped out at the will of the schedule (R8, R9)."""
        if state.device + state.host == 0 or state.due:
            return False
        return state.window or (self.machine.evict and state.status == READY)

    def moves(self, state: LocalState, ordered: Moves) -> Iterator[Moves]:
        """Yield the legal moves; swapping out and in at once only where an order or R5 gives a reason to."""
        may_swap_in = not (state.status == CALLING and self.kinds[state.kind].call(state.segment).handling == "preserve")
        if state.due:
            for swap_in in self.amounts(ordered.swap_out, may_swap_in):
                yield ordered._replace(swap_in=swap_in)
            return
        evict = self.may_evict(state)
        for drop in self.amounts(state.device + state.host, evict and not self.rules.swap):
            device, host = _dropped(state, drop)
            for swap_out in self.amounts(device, evict):
                for swap_in in self.amounts(host, may_swap_in and swap_out == 0):
                    yield Moves(drop, swap_out, swap_in)
        if state.bound and evict:
            there_and_back = 1 if self.machine.partial else state.device
            yield Moves(0, there_and_back, there_and_back)

    def amounts(self, available: int, allowed: bool) -> Iterable[int]:
        """Return how much of `available` tokens may be moved: nothing, all, or (with `partial`) any part."""
        if not allowed or available == 0:
            return (0,)
        return range(available + 1) if self.machine.partial else (0, available)

    # --- without work --------------------------------------------------------------------------------------------

    def resting(self, state: LocalState, moves: Moves, evicted: bool) -> Option:
        """Return the option of making `moves` and not working."""
        device, host = _moved(state, moves)
        after = state._replace(
            device=device, host=host, window=state.window and device + host > 0, due=False, bound=False
        )
        return Option(after, moves, 0, False, device, False, self.machine.blocks(device), host, needs_ready=evicted)

    def undoable(self, state: LocalState, moves: Moves, option: Option) -> Option:
        """Note what it would take not to make the last of these moves (one token of it, with `partial`)."""
        device, host, unit = option.after.device, option.after.host, self.machine.partial
        undo_device = undo_host = NEVER
        if moves.swap_in:
            undo_host = 1 if unit else moves.swap_in
        if moves.drop and moves.drop <= state.host:
            undo_host = 1 if unit else moves.drop
        elif moves.drop or moves.swap_out:
            back = 1 if unit else state.device
            undo_device = self.machine.blocks(device + back) - option.blocks
            if moves.swap_in:
                undo_device = NEVER
        return option._replace(undo_device=undo_device, undo_host=undo_host)

    # --- with work -----------------------------------------------------------------------------------------------

    def working(self, state: LocalState, moves: Moves) -> Iterator[Option]:
        """Yield the options of making `moves` and working, for every chunk that is to be tried."""
        device, _ = _moved(state, moves)
        missing = self.known(state) - device
        gives = moves.drop + moves.swap_out > 0 and not state.due
        for work in self.chunks(device, missing):
            if gives and not self.rules.drop_and_work:
                continue
            if gives and self.rules.lazy and self.machine.hybrid and device + work >= state.device:
                continue
            grown = device + work
            generates = work == missing
            after = self.generated(state, grown) if generates else self.advanced(state, grown)
            prefill = not (device > 0 and missing == 1)
            yield Option(after, moves, work, prefill, device, generates, self.machine.blocks(grown), 0, needs_ready=True)

    def chunks(self, device: int, missing: int) -> Iterator[int]:
        """Yield the numbers of tokens to process that are worth trying, at most what the budgets allow."""
        machine, rules = self.machine, self.rules
        decode = device > 0 and missing == 1
        limit = machine.batch_tokens if decode else machine.prefill_limit
        most = missing if limit is None else min(missing, limit)
        if not machine.chunked:
            sizes = {missing}
        elif rules.few_chunks:
            sizes = {missing} | ({missing - 1} if rules.last_token_chunk else set())
            sizes |= {1} if rules.single_chunk else set()
        else:
            sizes = set(range(1, most + 1))
        yield from (size for size in sorted(sizes) if 1 <= size <= most)

    def advanced(self, state: LocalState, device: int) -> LocalState:
        """Return the state after a chunk that generates nothing."""
        return state._replace(device=device, host=0, window=False, due=False, bound=not self.machine.pause)

    def generated(self, state: LocalState, device: int) -> LocalState:
        """Return the state after a token: in the segment, in or after its call, or done."""
        if state.left > 1:
            return self.advanced(state, device)._replace(left=state.left - 1)
        segments = self.kinds[state.kind].segments
        call = segments[state.segment].call
        if call is None:
            return FINISHED
        return state._replace(
            status=CALLING if call.duration else READY,
            segment=state.segment + 1,
            left=segments[state.segment + 1].decode,
            device=device,
            host=0,
            remaining=call.duration,
            window=call.handling == "free",
            due=call.handling in ("discard", "swap"),
            bound=False,
        )


def passed(state: LocalState, ticks: int) -> LocalState:
    """Return the state after `ticks` ticks in which no batch does anything with it."""
    if state.remaining == 0:
        return state
    if state.remaining <= ticks:
        return state._replace(status=READY, remaining=0)
    return state._replace(remaining=state.remaining - ticks)


def _rest(state: LocalState) -> Option:
    return Option(state, STAY, 0, False, 0, False, 0, 0)


def _dropped(state: LocalState, drop: int) -> tuple[int, int]:
    from_host = min(state.host, drop)
    return state.device - (drop - from_host), state.host - from_host


def _moved(state: LocalState, moves: Moves) -> tuple[int, int]:
    device, host = _dropped(state, moves.drop)
    back = moves.swap_in - moves.swap_out
    return device + back, host - back
