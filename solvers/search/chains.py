"""The chain of a request: the least that it still needs, whatever the others do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kvbound.cost import CostFunction, Features
from kvbound.instance import Instance
from solvers.search.state import CALLING, DONE, Kind, LocalState


@dataclass(frozen=True)
class Chain:
    """The least that a request still needs: ticks to its completion (from now) and to its first token, batches,
    tokens to process, and block-batches of memory."""

    ticks: int = 0
    first: int = 0
    batches: int = 0
    tokens: int = 0
    area: int = 0


class Chains:
    """Chains of local states."""

    def __init__(self, instance: Instance, kinds: list[Kind]) -> None:
        self.machine = instance.machine
        self.functions = instance.cost.functions
        self.kinds = kinds
        self.token_ticks = cache(self._token_ticks)
        self.chunk_ticks = max([1, *(-(-_least_work(f) // f.divisor) for f in self.functions)])
        limit = self.machine.prefill_limit
        self.limit = limit

    def of(self, state: LocalState) -> Chain:
        """Return the chain of a local state."""
        if state.status == DONE:
            return Chain()
        kind = self.kinds[state.kind]
        known = kind.known(state.segment, state.left, state.status == CALLING)
        if state.status == CALLING:
            known += kind.call(state.segment).returns
        held = state.device + state.host
        if state.due and kind.call(state.segment).handling == "discard":
            held = 0
        ticks, batches, tokens, area, first = state.remaining, 0, 0, 0, 0
        left = state.left
        for segment in range(state.segment, len(kind.segments)):
            for _ in range(left):
                chunks = 1 if self.limit is None else -(-(known - held) // self.limit)
                chunks = max(1, chunks)
                ticks += self.token_ticks(known) + (chunks - 1) * self.chunk_ticks
                batches += chunks
                tokens += known - held
                area += self.machine.blocks(known)
                held = known
                known += 1
                first = first or ticks
            call = kind.segments[segment].call
            if call is not None:
                ticks += call.duration
                known += call.returns
                left = kind.segments[segment + 1].decode
                if call.handling == "discard":
                    held = 0
        begun = state.segment > 0 or state.left < kind.segments[0].decode
        return Chain(ticks, 0 if begun else first, batches, tokens, area)

    def _token_ticks(self, known: int) -> int:
        """Return a lower bound on the ticks of a batch that generates a token with `known` tokens known."""
        return max([1, *(-(-_least_token(f, known) // f.divisor) for f in self.functions)])


def _least_work(f: CostFunction) -> int:
    """The least that a batch with work can make of f: one token, in the cheaper phase."""
    return f.busy + f.tokens + min(f.any_decode + f.decode_requests, f.any_prefill + f.prefill_requests)


def _least_token(f: CostFunction, known: int) -> int:
    """The least of f over the ways to generate a token: decode, or prefill on top of any part of the KV.

    Without the hinge, f of a prefill on top of m tokens is concave in m, so that its least is at an end.
    """
    ways = [_features(0, known)]
    if known >= 2:
        ways.append(Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=known - 1))
    if known >= 3:
        ways.append(_features(known - 2, 2))
    return min(sum(coefficient * way[k] for k, coefficient in f.terms) for way in ways)


def _features(resident: int, work: int) -> Features:
    pairs = work * work + 2 * work * resident
    return Features(
        busy=1, any_prefill=1, tokens=work, generated=1, prefill_requests=1, prefill_kv=resident, prefill_pairs=pairs
    )
