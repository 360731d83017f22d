"""The chain of a request: the least that it still needs, whatever the others do."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kvcore.cost import CostFunction, Features
from kvcore.instance import Instance
from solvers.search.state import CALLING, DONE, LocalState, RequestKind


class LeastNeed(NamedTuple):
    """The least that a request still needs; ticks count from now."""

    completion: int = 0
    """Ticks until it is done."""
    first: int = 0
    """Ticks until its first token (0 if it has been generated)."""
    batches: int = 0
    tokens: int = 0
    area: int = 0
    """Blocks that it occupies, summed over those batches."""
    loads: tuple[int, ...] = ()
    """What it adds to each cost function over those batches, apart from what a batch costs whatever works in it."""


class Chains:
    """Chains of local states."""

    def __init__(self, instance: Instance, kinds: list[RequestKind]) -> None:
        self.machine = instance.machine
        self.kinds = kinds
        self.functions = functions = instance.cost.functions
        self.none = LeastNeed(loads=(0,) * len(functions))
        self.chunk_ticks = max([1, *(-(-_least_of_work(f) // f.divisor) for f in functions)])
        self.token_ticks = cache(
            lambda known: max([1, *(-(-_least_of_token(f, known) // f.divisor) for f in functions)])
        )
        self.later = [self._later(kind) for kind in kinds]

    def of(self, state: LocalState) -> LeastNeed:
        """Return the chain of a local state."""
        if state.status == DONE:
            return self.none
        kind = self.kinds[state.kind]
        calling = state.status == CALLING
        known = kind.known(state) + (kind.call(state).returns if calling else 0)
        discarded = state.due and kind.call(state).handling == "discard"
        token = self._token(known, 0 if discarded else state.device + state.host)
        later = self.later[state.kind][kind.generated(state)]
        first = 0 if kind.begun(state) else state.remaining + token.completion
        return _sum(token, later)._replace(
            completion=state.remaining + token.completion + later.completion, first=first
        )

    def _later(self, kind: RequestKind) -> list[LeastNeed]:
        """Return, for each token of a request, the chain from the moment when it has been generated."""
        later = [self.none]
        known = kind.prompt + sum(s.decode + (s.call.returns if s.call else 0) for s in kind.segments) - 1
        for segment in reversed(kind.segments):
            if segment.call is not None:
                held = 0 if segment.call.handling == "discard" else known - segment.call.returns - 1
                call = self.none._replace(completion=segment.call.duration)
                later.append(_sum(call, self._token(known, held), later[-1]))
                known -= segment.call.returns + 1
            for _ in range(segment.decode - 1):
                later.append(_sum(self._token(known, known - 1), later[-1]))
                known -= 1
        return later[::-1]

    def _token(self, known: int, held: int) -> LeastNeed:
        """Return what it takes to generate a token with `known` tokens known and `held` of them in the KV."""
        limit = self.machine.prefill_limit
        batches = 1 if limit is None else -(-(known - held) // limit)
        completion = self.token_ticks(known) + (batches - 1) * self.chunk_ticks
        loads = tuple(_load_of_token(f, known, held) for f in self.functions)
        return LeastNeed(completion, 0, batches, known - held, self.machine.blocks(known), loads)


def _sum(*chains: LeastNeed) -> LeastNeed:
    totals: list[int] = [sum(column) for column in zip(*(chain[:-1] for chain in chains), strict=True)]
    loads = tuple(map(sum, zip(*(chain.loads for chain in chains), strict=True)))
    return LeastNeed(totals[0], totals[1], totals[2], totals[3], totals[4], loads)


def _load_of_token(f: CostFunction, known: int, held: int) -> int:
    """The least that a request adds to f, over any number of batches, until a token is generated.

    `known` tokens are known and the KV of at most `held` of them is there. Dropping some of it first only adds tokens
    and pairs. What is missing is prefilled, but for a last token, which may be decoded.
    """
    prefill = f.prefill_requests + f.tokens * (known - held) + f.prefill_pairs * ((known - 1) ** 2 - held**2)
    if known - held > 1 or held == 0:
        return prefill + f.generated
    decode = f.decode_requests + f.tokens + f.decode_kv * held
    refill = f.prefill_requests + f.tokens * 2 + f.prefill_pairs * (2 * known - 1)
    return min(decode, refill) + f.generated


def _least_of_work(f: CostFunction) -> int:
    """The least that a batch with work can make of f: one token, in the cheaper phase."""
    return f.busy + f.tokens + min(f.any_decode + f.decode_requests, f.any_prefill + f.prefill_requests)


def _least_of_token(f: CostFunction, known: int) -> int:
    """The least of f over the ways to generate a token: decode, or prefill on top of m tokens of KV.

    Without the hinge, which only adds, f of the prefill is concave in m, so that its least is at an end of the range.
    """
    features = [_prefill(0, known)]
    if known >= 2:
        features.append(Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=known - 1))
    if known >= 3:
        features.append(_prefill(known - 2, 2))
    return min(sum(coefficient * way[k] for k, coefficient in f.terms) for way in features)


def _prefill(resident: int, work: int) -> Features:
    pairs = work * work + 2 * work * resident
    return Features(
        busy=1, any_prefill=1, tokens=work, generated=1, prefill_requests=1, prefill_kv=resident, prefill_pairs=pairs
    )
