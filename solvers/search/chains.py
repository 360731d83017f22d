"""The chain of a request: the least that it still needs, whatever the others do."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kvbound.cost import CostFunction, Features
from kvbound.instance import Instance
from solvers.search.state import CALLING, DONE, Kind, LocalState


class Chain(NamedTuple):
    """The least that a request still needs; ticks count from now."""

    completion: int = 0
    """Ticks until it is done."""
    first: int = 0
    """Ticks until its first token (0 if it has been generated)."""
    batches: int = 0
    tokens: int = 0
    area: int = 0
    """Blocks that it occupies, summed over those batches."""


class Chains:
    """Chains of local states."""

    def __init__(self, instance: Instance, kinds: list[Kind]) -> None:
        self.machine = instance.machine
        self.kinds = kinds
        functions = instance.cost.functions
        self.chunk_ticks = max([1, *(-(-_least_of_work(f) // f.divisor) for f in functions)])
        self.token_ticks = cache(lambda known: max([1, *(-(-_least_of_token(f, known) // f.divisor) for f in functions)]))

    def of(self, state: LocalState) -> Chain:
        """Return the chain of a local state."""
        if state.status == DONE:
            return Chain()
        kind = self.kinds[state.kind]
        calling = state.status == CALLING
        known = kind.known(state) + (kind.call(state).returns if calling else 0)
        discarded = state.due and kind.call(state).handling == "discard"
        token = self._token(known, 0 if discarded else state.device + state.host)
        first = 0 if kind.begun(state) else state.remaining + token.completion
        later = self._later[state.kind][sum(s.decode for s in kind.segments[: state.segment + 1]) - state.left]
        return _sum(Chain(completion=state.remaining), token, later)._replace(first=first)

    def _after_each_token(self, kind: Kind) -> list[Chain]:
        """Return, for every token of a request, what is needed after it was generated."""
        chain = Chain()
        known = kind.prompt + sum(s.decode + (s.call.returns if s.call else 0) for s in kind.segments)
        chains = []
        for segment in reversed(kind.segments):
            call = segment.call
            if call is not None:
                # `known` is S after the return; the next token needs what was returned, or all of it
                held = 0 if call.handling == "discard" else known - call.returns - 1
                chain = _sum(Chain(completion=call.duration), self._token(known, held), chain)
                known -= call.returns
            for _ in range(segment.decode):
                chains.append(chain)
                known -= 1
                ...
        return chains[::-1]

    def _token(self, known: int, held: int) -> Chain:
        """Return what it takes to generate a token with `known` tokens known and `held` of them in the KV."""
        limit = self.machine.prefill_limit
        batches = 1 if limit is None else -(-(known - held) // limit)
        completion = self.token_ticks(known) + (batches - 1) * self.chunk_ticks
        return Chain(completion, 0, batches, known - held, self.machine.blocks(known))


def _least_of_work(f: CostFunction) -> int:
    """The least that a batch with work can make of f: one token, in the cheaper phase."""
    return f.busy + f.tokens + min(f.any_decode + f.decode_requests, f.any_prefill + f.prefill_requests)


def _least_of_token(f: CostFunction, known: int) -> int:
    """The least of f over the ways to generate a token: decode, or prefill on top of m tokens of KV.

    Without the hinge, which only adds, f of the prefill is concave in m, so that its least is at an end of the range.
    """
    ways = [_prefill(0, known)]
    if known >= 2:
        ways.append(Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=known - 1))
    if known >= 3:
        ways.append(_prefill(known - 2, 2))
    return min(sum(coefficient * way[k] for k, coefficient in f.terms) for way in ways)


def _prefill(resident: int, work: int) -> Features:
    pairs = work * work + 2 * work * resident
    return Features(
        busy=1, any_prefill=1, tokens=work, generated=1, prefill_requests=1, prefill_kv=resident, prefill_pairs=pairs
    )
