"""Every batch that `docs/semantics.md` allows at a batch boundary: the rules, for the exhaustive search.

Written from that page alone: nothing is shared with the referee but the nouns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from operator import add
from typing import NamedTuple

from kvcore.cost import Features
from kvcore.instance import Call, Instance, alike
from kvcore.schedule import Batch

UNWATCHED = -1
"""Stands for a time that the objective does not need (any more)."""


class TooManyStates(RuntimeError):
    """The search has seen as much as it may, without an answer."""


class BoundaryState(NamedTuple):
    """One request at a batch boundary; S follows from `segment` and `generated`. Done: `segment` is past the last."""

    segment: int = 0
    generated: int = 0  # tokens of this segment
    device: int = 0  # m
    host: int = 0  # h
    wait: int = 0  # ticks until it arrives, or until its call returns
    mark: str = ""
    """`free`: between the start of a free call and the next work; `due`: the next batch must make the move that its
    call orders; `worked`: in the batch before, inside its segment, on a machine without `pause`."""
    age: int = UNWATCHED  # ticks since its arrival, 0 before it
    decoding: int = UNWATCHED  # ticks since its first token
    late: bool = False  # it exceeds an SLO, or will


Node = tuple[BoundaryState, ...]


class Load(NamedTuple):
    """What a request adds to a batch; the sum over the requests is what budgets, memories and cost look at."""

    blocks: int = 0
    host: int = 0
    tokens: int = 0
    prefill_tokens: int = 0
    decodes: int = 0
    prefills: int = 0
    generated: int = 0
    decode_kv: int = 0
    prefill_kv: int = 0
    prefill_pairs: int = 0
    swap_out_tokens: int = 0
    swap_in_tokens: int = 0
    swap_outs: int = 0
    swap_ins: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Option:
    """What one request may do in a batch: its moves and its work, and where they leave its KV."""

    drop: int
    swap_out: int
    swap_in: int
    work: int
    device: int  # after the moves and the growth
    host: int
    load: Load

    @property
    def swaps(self) -> tuple[int, ...]:
        """Tokens swapped out and in, and how many swaps these are."""
        return self.load[-4:]


Choice = tuple[Option | None, ...]
"""An option of each request; None for all of them is waiting."""


class Batches:
    """The legal batches of an instance; `tries` is how many moves, options and choices may still be looked at.

    `whole`: prefills are split only as `splits.py` says.
    """

    def __init__(self, instance: Instance, whole: bool = False) -> None:
        self.tries: float = math.inf
        self.whole = whole
        self.machine = instance.machine
        self.cost = instance.cost
        self.requests = instance.requests
        self.like_before: list[int | None] = [None] * len(self.requests)
        """Of each request, the one before it that is like it."""
        for group in alike(self.requests):
            for j, i in pairwise(group):
                self.like_before[i] = j
        self.options = cache(self._options)
        self.known_at_start = cache(self._known_at_start)
        self.legal = lru_cache(maxsize=1000)(self._legal)
        self.duration = cache(self._duration)

    def starting_at(self, node: Node) -> list[tuple[Choice, int]]:
        """Return the legal batches that start at once, an option of each request, and the ticks that they last.

        Of requests that are alike and in one state, none takes an earlier option than the one before: the others are
        the same batches with their roles exchanged.
        """
        twins = [None if j is None or node[j] != node[i] else j for i, j in enumerate(self.like_before)]
        return self.legal(tuple(map(_timeless, node)), tuple(twins))

    def spend(self, tries: int = 1) -> None:
        """Count a try, or more (TooManyStates: there is none left)."""
        self.tries -= tries
        if self.tries < 0:
            raise TooManyStates("too many batches to try")

    def is_done(self, i: int, state: BoundaryState) -> bool:
        """Whether the request has generated all its tokens."""
        return state.segment == len(self.requests[i].segments)

    def known(self, i: int, state: BoundaryState) -> int:
        """Return S of a request that is ready."""
        return self.known_at_start(i, state.segment) + state.generated

    def _known_at_start(self, i: int, segment: int) -> int:
        """S at the start of a segment, once the call before it has returned."""
        past = sum(s.decode + s.call.returns for s in self.requests[i].segments[:segment] if s.call is not None)
        return self.requests[i].prompt + past

    def call(self, i: int, state: BoundaryState) -> Call:
        """Return the latest call; before the first, one that allows what a request without KV can do: nothing."""
        return self.requests[i].calls[state.segment - 1] if state.segment else Call(duration=0, handling="preserve")

    def _options(self, i: int, state: BoundaryState) -> list[Option]:
        """Return what a request may do as far as it alone is concerned: R2, R3, R4, R5 (pause), R8, R9, R10."""
        if self.is_done(i, state):
            return [Option(0, 0, 0, 0, 0, 0, Load())]
        options = []
        for moves in self.moves(i, state):
            evicted = moves[0] or moves[1]
            resting = self.option(i, state, moves, 0)
            if evicted or state.mark != "worked":
                options.append(resting)
            if not state.wait and not resting.host and (not evicted or state.mark in ("free", "due")):
                missing = self.known(i, state) - resting.device
                options += [self.option(i, state, moves, work) for work in self.chunks(resting.device, missing)]
        return _undominated(options)

    def chunks(self, resident: int, missing: int) -> Sequence[int]:
        """Return how many tokens a request may process (R3)."""
        if not self.machine.chunked:
            return range(max(1, missing), missing + 1)
        if self.whole:
            sizes = {missing, missing - 1} | (set() if resident else {1})
            return sorted(size for size in sizes if 1 <= size <= missing)
        return range(1, missing + 1)

    def moves(self, i: int, state: BoundaryState) -> Iterator[tuple[int, int, int]]:
        """Yield every (drop, swap_out, swap_in) that R8, R9 and R10 allow."""
        call = self.call(i, state)
        for drop, swap_out, swap_in in self.possible_moves(state):
            self.spend()
            if state.mark == "due":
                ordered = (state.device, 0) if call.handling == "discard" else (0, state.device)
                legal = (drop, swap_out) == ordered
            elif state.mark == "free":
                legal = True
            elif state.wait:  # in a call, or still to arrive and without any KV
                legal = not (drop or swap_out) and not (swap_in and call.handling == "preserve")
            else:
                legal = self.machine.evict or not (drop or swap_out)
            if legal:
                yield drop, swap_out, swap_in

    def possible_moves(self, state: BoundaryState) -> Iterator[tuple[int, int, int]]:
        """Yield every (drop, swap_out, swap_in) of what is there; without `partial`, all of it or nothing."""

        def amounts(held: int) -> Sequence[int]:
            return range(held + 1) if self.machine.partial else sorted({0, held})

        for drop in amounts(state.device + state.host):
            device, host = after_moves(state, (drop, 0, 0))
            for swap_out in amounts(device):
                for swap_in in amounts(host + swap_out):
                    yield drop, swap_out, swap_in

    def option(self, i: int, state: BoundaryState, moves: tuple[int, int, int], work: int) -> Option:
        """Return an option with what it adds to the batch."""
        self.spend()
        device, host = after_moves(state, moves)
        missing = self.known(i, state) - device
        decode = work > 0 and device > 0 and missing == 1
        prefill = work > 0 and not decode
        _, swap_out, swap_in = moves
        load = Load(
            blocks=-(-(device + work) // self.machine.block),
            host=host,
            tokens=work,
            prefill_tokens=work if prefill else 0,
            decodes=int(decode),
            prefills=int(prefill),
            generated=int(work > 0 and work == missing),
            decode_kv=device if decode else 0,
            prefill_kv=device if prefill else 0,
            prefill_pairs=work * work + 2 * work * device if prefill else 0,
            swap_out_tokens=swap_out,
            swap_in_tokens=swap_in,
            swap_outs=int(swap_out > 0),
            swap_ins=int(swap_in > 0),
        )
        return Option(*moves, work, device + work, host, load)

    def _legal(self, node: Node, twins: tuple[int | None, ...]) -> list[tuple[Choice, int]]:
        batches: list[tuple[tuple[int, ...], Load]] = [((), Load())]
        options = [self.options(i, state) for i, state in enumerate(node)]
        for i, twin in enumerate(twins):
            batches = [
                ((*places, place), together)
                for places, load in batches
                for place in range(0 if twin is None else places[twin], len(options[i]))
                if self.is_within_limits(together := self._together(load, options[i][place]))
            ]
        return [
            (tuple([options[i][place] for i, place in enumerate(places)]), self.duration(load))
            for places, load in batches
            if load.tokens or load.swap_out_tokens or load.swap_in_tokens
        ]

    def _together(self, load: Load, option: Option) -> Load:
        self.spend()
        return Load._make(map(add, load, option.load))

    def is_within_limits(self, load: Load) -> bool:
        """Check R5 (budgets), R6 and R7. Loads only add up, so that what breaks a limit is broken for good."""
        machine = self.machine
        return (
            _at_most(load.tokens, machine.batch_tokens)
            and _at_most(load.prefill_tokens, machine.prefill_tokens)
            and _at_most(load.decodes + load.prefills, machine.batch_requests)
            and (machine.hybrid or not (load.decodes and load.prefills))
            and _at_most(load.blocks * machine.block, machine.memory)
            and _at_most(load.host, machine.host_memory)
        )

    def _duration(self, load: Load) -> int:
        features = Features(
            busy=int(load.tokens > 0),
            any_decode=int(load.decodes > 0),
            any_prefill=int(load.prefills > 0),
            tokens=load.tokens,
            generated=load.generated,
            decode_requests=load.decodes,
            prefill_requests=load.prefills,
            decode_kv=load.decode_kv,
            prefill_kv=load.prefill_kv,
            prefill_pairs=load.prefill_pairs,
            swap_out_tokens=load.swap_out_tokens,
            swap_in_tokens=load.swap_in_tokens,
            swap_outs=load.swap_outs,
            swap_ins=load.swap_ins,
        )
        return self.cost.duration(features)


def _at_most(amount: int, limit: int | None) -> bool:
    return limit is None or amount <= limit


def after_moves(state: BoundaryState, moves: tuple[int, int, int]) -> tuple[int, int]:
    """Return m and h after the moves; a drop takes the host part first."""
    drop, swap_out, swap_in = moves
    host = max(0, state.host - drop)
    device = state.device - (drop - (state.host - host))
    return device - swap_out + swap_in, host + swap_out - swap_in


def _timeless(state: BoundaryState) -> BoundaryState:
    """Keep what decides which options a request has: of its time, only whether it is ready."""
    return state._replace(wait=min(state.wait, 1), age=UNWATCHED, decoding=UNWATCHED, late=False)


def _undominated(options: list[Option]) -> list[Option]:
    """Leave out each option that leads where another leads with no more tokens and swaps in any count.

    Coefficients are not negative, so it costs at least as much time. Nothing else tells the two apart: which may work
    or rest has been decided, and the order of the moves is over. Only a transfer as such does, which makes a batch of
    what would be drops alone; so options with a transfer are compared with each other.
    """
    kept: dict[tuple[int, int, int, bool], list[Option]] = {}
    for option in sorted(options, key=lambda option: option.swaps):
        others = kept.setdefault((option.device, option.host, option.work, any(option.swaps)), [])
        if not any(all(map(int.__le__, other.swaps, option.swaps)) for other in others):
            others.append(option)
    return [option for others in kept.values() for option in others]


def as_batch(start: int, ids: list[str], choice: Choice) -> Batch:
    """Return the batch in which each request takes its option."""
    taken = {id: option for id, option in zip(ids, choice, strict=True) if option is not None}
    tokens = {
        kind: {id: getattr(option, kind) for id, option in taken.items() if getattr(option, kind)}
        for kind in ("work", "drop", "swap_out", "swap_in")
    }
    return Batch.model_validate({"start": start, **tokens})
