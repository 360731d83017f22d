"""What one batch may do with one request: the legal options of a local state, less those that the rules leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvcore.instance import Machine
from kvcore.trace import after_moves
from solvers.search.rules import Rules
from solvers.search.state import (
    CALLING,
    DONE,
    FINISHED,
    READY,
    STAY,
    WAITING,
    LocalOption,
    LocalState,
    Moves,
    RequestKind,
)


class Options:
    """Options of local states, by kind of request."""

    def __init__(self, machine: Machine, rules: Rules, kinds: list[RequestKind]) -> None:
        self.machine = machine
        self.rules = rules
        self.kinds = kinds

    def of(self, state: LocalState) -> tuple[list[LocalOption], list[LocalOption]]:
        """Return the options of a state, and those that may replace the first of them where a memory is short.

        If the request may rest, the first option is to rest, with the fewest moves.
        """
        if state.status in (DONE, WAITING):
            return [LocalOption(state, STAY, 0, False, 0, False, 0, 0)], []
        resting: list[LocalOption] = []
        where_short: list[LocalOption] = []
        working: list[LocalOption] = []
        for moves in self.moves(state):
            option = self.rest(state, moves)
            if not state.refills and (not state.bound or option.needs_ready):
                (resting if self.always(state, option) else where_short).append(option)
            if state.status == READY and option.host == 0 and not option.needs_ready:
                working += self.work(state, moves)
        if self.rules.forget and self.may_evict(state):
            resting = [option for option in resting + where_short if option.blocks + option.host == 0]
            where_short = []
        return resting + working + self.for_refill(resting), [self.undoable(state, option) for option in where_short]

    def for_refill(self, resting: list[LocalOption]) -> list[LocalOption]:
        """Return the evictions that drop KV, as made in a batch that a round trip makes: work must follow."""
        if not self.rules.makes_batches:
            return []
        drops = (o for o in resting if o.needs_ready and o.moves.drop and (o.makes_batch or not o.moves.swap_out))
        found = (o._replace(after=o.after._replace(refills=True), drops_for_refill=True) for o in drops)
        return [option for option in found if any(self.of(option.after)[0])]

    def always(self, state: LocalState, option: LocalOption) -> bool:
        """Whether these moves without work are tried even where no memory is short (all, but for rule `moves`)."""
        rules, moves = self.rules, option.moves
        as_few_as_can_be = moves == self.ordered(state)
        return (
            not rules.lazy
            or as_few_as_can_be
            or state.bound
            or (rules.early_drop and moves.drop > 0 and option.needs_ready)
        )

    # --- moves ---------------------------------------------------------------------------------------------------

    def ordered(self, state: LocalState) -> Moves:
        """Return the move that the handling of the call orders in the next batch, if one is due."""
        if not state.due:
            return STAY
        drops = self.kinds[state.kind].call(state).handling == "discard"
        return Moves(state.device, 0, 0) if drops else Moves(0, state.device, 0)

    def may_evict(self, state: LocalState) -> bool:
        """Whether KV may be dropped or swapped out at the will of the schedule (R8, R9)."""
        if state.device + state.host == 0 or state.due:
            return False
        return state.window or (self.machine.evict and state.status == READY)

    def moves(self, state: LocalState) -> Iterator[Moves]:
        """Yield the legal moves, the fewest first; out and in at once only where an order or R5 gives a reason to."""
        preserved = state.status == CALLING and self.kinds[state.kind].call(state).handling == "preserve"
        if state.due:
            ordered = self.ordered(state)
            yield from (ordered._replace(swap_in=tokens) for tokens in self.amounts(ordered.swap_out))
            return
        evicts = self.may_evict(state)
        for drop in self.amounts(state.device + state.host, evicts and not self.rules.swap):
            device, host = after_moves(state.device, state.host, drop)
            for swap_out in self.amounts(device, evicts):
                for swap_in in self.amounts(host, not preserved and swap_out == 0):
                    yield Moves(drop, swap_out, swap_in)
        if evicts:
            yield from self.there_and_back(state)

    def there_and_back(self, state: LocalState) -> Iterator[Moves]:
        """Yield the least swap-outs that come back at once, after every drop.

        They change no KV, but they are transfers: they let a request rest (R5 without `pause`), and they make a batch
        of drops that would be none.
        """
        makes_batches = self.rules.makes_batches
        for drop in self.amounts(state.device + state.host, makes_batches and not self.rules.swap):
            device, _ = after_moves(state.device, state.host, drop)
            if device and (state.bound or makes_batches):
                tokens = 1 if self.machine.partial else device
                yield Moves(drop, tokens, tokens)

    def amounts(self, available: int, allowed: bool = True) -> Iterable[int]:
        """Return how much of `available` tokens may be moved: nothing, all, or (with `partial`) any part."""
        if not allowed or available == 0:
            return (0,)
        return range(available + 1) if self.machine.partial else (0, available)

    # --- without work --------------------------------------------------------------------------------------------

    def rest(self, state: LocalState, moves: Moves) -> LocalOption:
        """Return the option of making `moves` and not working; `needs_ready` if R8 and not R9 allows them."""
        device, host = after_moves(state.device, state.host, *moves)
        window = state.window and device + host > 0
        after = state._replace(device=device, host=host, window=window, due=False, bound=False, fresh=False)
        evicts = moves.drop + moves.swap_out > 0 and not (state.window or state.due)
        makes_batch = moves.swap_out > 0 and moves.swap_in > 0 and not (state.bound or state.due)
        blocks = self.machine.blocks(device)
        return LocalOption(
            after, moves, 0, False, device, False, blocks, host, needs_ready=evicts, makes_batch=makes_batch
        )

    def undoable(self, state: LocalState, option: LocalOption) -> LocalOption:
        """Note what it would take not to make the last of the moves (one token less of it, with `partial`)."""
        moves, partial = option.moves, self.machine.partial
        if moves.swap_in:
            return option._replace(undo_host=1 if partial else moves.swap_in)
        if moves.drop and moves.drop <= state.host:
            return option._replace(undo_host=1 if partial else moves.drop)
        back = 1 if partial else state.device
        return option._replace(undo_device=self.machine.blocks(option.after.device + back) - option.blocks)

    # --- with work -----------------------------------------------------------------------------------------------

    def work(self, state: LocalState, moves: Moves) -> Iterator[LocalOption]:
        """Yield the options of making `moves` and working, for every chunk that is to be tried."""
        gives = moves.drop > 0 and not state.due
        if gives and not self.rules.drop_and_work:
            return
        device, _ = after_moves(state.device, state.host, *moves)
        missing = self.kinds[state.kind].known(state) - device
        for work in self.chunks(device, missing):
            grown = device + work
            in_vain = gives and self.rules.lazy and self.machine.hybrid and grown >= state.device
            if not in_vain:
                generates = work == missing
                after = self.generated(state, grown) if generates else self.grown(state, grown)
                prefill = device == 0 or missing > 1
                blocks = self.machine.blocks(grown)
                yield LocalOption(after, moves, work, prefill, device, generates, blocks, 0, needs_ready=True)

    def chunks(self, device: int, missing: int) -> list[int]:
        """Return the numbers of tokens to process that are to be tried, within the budgets."""
        machine, rules = self.machine, self.rules
        decode = device > 0 and missing == 1
        limit = machine.batch_tokens if decode else machine.prefill_limit
        most = missing if limit is None else min(missing, limit)
        if not machine.chunked:
            sizes = {missing}
        elif rules.few_chunks:
            single = rules.single_chunk or (rules.first_token_chunk and device == 0)
            sizes = {missing, missing - 1 if rules.last_token_chunk else missing, 1 if single else missing}
        else:
            sizes = set(range(1, most + 1))
        return sorted(size for size in sizes if 1 <= size <= most)

    def grown(self, state: LocalState, device: int) -> LocalState:
        """Return the state after work that does not end the segment."""
        bound = not self.machine.pause
        return state._replace(device=device, host=0, window=False, due=False, bound=bound, fresh=False, refills=False)

    def generated(self, state: LocalState, device: int) -> LocalState:
        """Return the state after a token was generated: in the segment, in or after its call, or done."""
        segments = self.kinds[state.kind].segments
        call = segments[state.segment].call
        if state.to_generate > 1:
            return self.grown(state, device)._replace(to_generate=state.to_generate - 1)
        if call is None:
            return FINISHED
        return self.grown(state, device)._replace(
            status=CALLING if call.duration else READY,
            segment=state.segment + 1,
            to_generate=segments[state.segment + 1].decode,
            remaining=call.duration,
            window=call.handling == "free",
            due=call.handling in ("discard", "swap"),
            bound=False,
        )
