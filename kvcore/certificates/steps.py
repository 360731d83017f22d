"""The least that every output token takes of its batches: arrays over all tokens, exact in 64-bit integers.

A *step* is an output token q of a request. What the request processes after token q - 1 and up to the batch that
generates q is the work *for* q. `docs/bounds.md`, "Shares of time", has the proofs.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.certificates.least import may_drop
from kvcore.certificates.prefixes import Prefix, prefixes
from kvcore.cost import Cost, CostFunction
from kvcore.instance import Instance, Request

Integers = npt.NDArray[np.int64]

MOST_KV = 2**30
"""Tokens of KV of one request; the square is far below 2^62."""
MOST = 2**62
"""Sums over one request stay below this."""


class StepPrices(NamedTuple):
    """Prices of units of a request's work; blocks are those held in batches that it works in.

    `packed` is paid for each 1 / (packs * blocks in all) of the memory that the last of them count for.
    """

    tokens: int = 0
    generated: int = 0
    decode_requests: int = 0
    prefill_requests: int = 0
    decode_kv: int = 0
    prefill_kv: int = 0
    prefill_pairs: int = 0
    prefill_tokens: int = 0
    blocks: int = 0
    packed: int = 0


class DurationLine(NamedTuple):
    """A batch with work lasts (base + [has a prefill] prefill + the prices of what is done in it) / divisor or more."""

    base: int
    prefill: int
    prices: StepPrices
    divisor: int


def lines(cost: Cost) -> list[DurationLine]:
    """Return linear functions below all durations: the cost without its hinges, each hinge made a line, one."""
    found = []
    for function in cost.functions:
        found += [_line(function), *_hinge(function)]
    return [*found, DurationLine(1, 0, StepPrices(), 1)]


def _line(f: CostFunction) -> DurationLine:
    """Every batch has a decode or a prefill; one with a prefill pays the difference if prefills are dearer."""
    prices = StepPrices(
        f.tokens, f.generated, f.decode_requests, f.prefill_requests, f.decode_kv, f.prefill_kv, f.prefill_pairs
    )
    return DurationLine(
        f.busy + min(f.any_decode, f.any_prefill), max(0, f.any_prefill - f.any_decode), prices, f.divisor
    )


def _hinge(f: CostFunction) -> Iterator[DurationLine]:
    """The line of max(0, tokens - knee) >= x (tokens - knee), with x at most 1 and the base at least 0."""
    if f.tokens_above is None or f.tokens_above.coefficient == 0:
        return
    line, coefficient = _line(f), f.tokens_above.coefficient
    drop = coefficient * f.tokens_above.knee
    p, q = (1, 1) if line.base >= drop else (line.base, drop)  # x = p / q
    prices = StepPrices(*(q * price for price in line.prices))
    prices = prices._replace(tokens=prices.tokens + p * coefficient)
    yield DurationLine(q * line.base - p * drop, q * line.prefill, prices, q * f.divisor)


class Steps:
    """All steps: request i has steps `first[i]` to `first[i + 1] - 1`.

    `context` is the KV resident when the token is generated. Since the token before, `waits` ticks of a call ago, the
    request processes what is beyond `own`, is charged from `start` on, and holds at least `low`.

    `packs` is the k of the dual feasible function of `StepPrices.packed`: counts of blocks that fit together add up to
    at most packs * blocks in all.

    Raises InvalidCertificate for more than 10 million steps, or a request with more than 2^30 tokens of KV.
    """

    def __init__(self, instance: Instance, packs: int = 1) -> None:
        requests = instance.requests
        self.machine, self.packs = instance.machine, packs
        self.first = np.cumsum([0, *(_checked(request).output for request in requests)], dtype=np.int64)
        if self.first[-1] > Most.steps:
            raise InvalidCertificate(f"{self.first[-1]} output tokens are more than {Most.steps}")
        self.context, self.own, self.start, self.low, self.waits = np.empty((5, int(self.first[-1])), dtype=np.int64)
        found = prefixes(instance)
        for request, prefix, start, stop in zip(requests, found, self.first, self.first[1:], strict=False):
            self._fill(request, prefix, slice(int(start), int(stop)))
        earlier = [prefix.earlier // prefix.block for prefix in found]
        self.earlier = np.repeat(np.array(earlier, dtype=np.int64), np.diff(self.first))
        """Leading blocks in the memory of an earlier request."""
        self.later = np.ones(len(self.context), dtype=bool)
        self.later[self.first[:-1]] = False
        limit = self.machine.prefill_limit if self.machine.chunked else None
        self.limit = MOST_KV if limit is None else min(limit, MOST_KV)
        self.batches = -(-(self.context - self.own) // self.limit)
        """Least batches for the token."""
        self.decodes = ((self.own == self.context - 1) & (self.own > 0)) | (self.machine.chunked & (self.context > 1))
        """Where a decode may generate it."""
        partial = self.machine.partial or bool(instance.contents)
        short = (self.own <= self.context - 2) | (partial & (self.low <= self.context - 2))
        self.prefills = short | ~self.later
        """Where a prefill may, from more than the least KV."""

    def _fill(self, request: Request, prefix: Prefix, span: slice) -> None:
        grown = np.ones(request.output, dtype=np.int64)
        waits, discarded, calls, q = np.zeros_like(grown), [0], [0], 0
        grown[0] = request.prompt
        for segment in request.segments[:-1]:
            call, q = segment.call, q + segment.decode
            if call is not None:
                grown[q] += call.returns
                waits[q] = call.duration
                calls.append(q)
                discarded += [q] if call.handling == "discard" else []
        context = np.cumsum(grown)
        kept = np.concatenate(([0], context[:-1]))
        before = kept[calls].tolist()
        kept[discarded] = 0
        self.context[span], self.waits[span], self.own[span] = context, waits, kept
        self.low[span] = 0 if may_drop(self.machine, request) else kept
        for q, held in zip(calls, before, strict=True):
            self.own[span][q] = max(kept[q], prefix.reach(held, int(context[q])))
        self.start[span] = self.own[span]
        self.start[span][0] = prefix.free

    def sums(self, values: Integers) -> list[int]:
        """Return the sums of `values`, one for each step and none below 0, by request."""
        check_size(self.largest(values))
        return [int(total) for total in np.add.reduceat(values, self.first[:-1])]

    def largest(self, values: Integers) -> int:
        """Return a number above all such sums, in floating point."""
        return int(np.add.reduceat(values.astype(float), self.first[:-1]).max() * (1 + 2**-20)) + 1

    def prefilled(self) -> int:
        """Return the fewest prefilled tokens."""
        return int((self.context - self.start - self.decodes).sum())

    def most(self, prices: StepPrices) -> int:
        """Return a number that no way to do the work for a token costs."""
        peak = int(self.context.max())
        parts = peak // self.limit + 2
        one = peak * (prices.tokens + prices.prefill_tokens + prices.decode_kv + prices.prefill_kv)
        blocks = max(peak + 1, self.machine.blocks(peak))
        one += prices.packed * (self.packs + 1) * blocks
        one += prices.generated + prices.decode_requests + parts * prices.prefill_requests
        return one + prices.prefill_pairs * peak**2 + prices.blocks * (parts + 1) * blocks

    def least(self, prices: StepPrices) -> Integers:
        """Return the least price of the work for each token: by a decode or a prefill, from the most or the least KV.

        The caller keeps `most(prices)` below 2^62.
        """
        context, low = self.context, self.low
        best = np.where(self.decodes, self._price(prices, self.start, 1), MOST)
        short = np.where(self.later, np.minimum(self.start, context - 2), self.start)
        np.minimum(best, np.where(self.prefills, self._price(prices, short, 0), MOST), out=best)
        less = self.later & (low < self.own)
        if less.any():
            several = less & self.machine.chunked
            np.minimum(best, np.where(several, self._price(prices, low, 1), MOST), out=best)
            np.minimum(best, np.where(less, self._price(prices, low, 0), MOST), out=best)
        return best

    def last(self, prices: StepPrices) -> Integers:
        """Return the least price of the one batch that generates each token after the first of a request.

        It is a decode, or a prefill of more than one token or from nothing. First tokens have that of `least`.
        """
        context = self.context
        both = prices.generated + prices.blocks * self._blocks(context) + prices.tokens
        if prices.packed:
            both = both + prices.packed * self._packed(self._blocks(context))
        best = prices.decode_requests + prices.decode_kv * (context - 1)
        for start in (0 * context, np.maximum(0, context - 2)):
            prefill = (prices.tokens + prices.prefill_tokens) * (context - start) - prices.tokens
            prefill += prices.prefill_requests + prices.prefill_kv * start
            prefill += prices.prefill_pairs * (context**2 - start**2)
            best = np.where(self.low == context - 1, best, np.minimum(best, prefill))
        least = self.least(prices)
        later = np.minimum(least, both + best)
        later[self.first[:-1]] = least[self.first[:-1]]
        return np.asarray(later)

    def _price(self, prices: StepPrices, start: Integers, last: int) -> Integers:
        """The price of all from `start` on once, the `last` (0 or 1) token of it by a decode.

        Prefills from `own` on come in the fewest, longest parts; of first tokens, perhaps by others, they read nothing.
        """
        end = self.context - last
        parts = -(-(end - self.own) // self.limit)
        total = prices.tokens * (self.context - start) + prices.generated + prices.prefill_requests * parts
        total += prices.prefill_tokens * (end - start) + prices.prefill_pairs * (end**2 - start**2)
        total += prices.prefill_kv * np.where(self.later & (end > start), start, 0)
        if prices.blocks:
            others = np.maximum(0, parts - 1)
            rest = others * end - self.limit * (parts * (parts - 1) // 2)
            total += prices.blocks * (np.where(parts > 0, self._blocks(end), 0) + self._blocks(rest, others))
        if prices.packed:
            total += prices.packed * self._packed(self._blocks(self.context))
        if last:
            total += prices.decode_requests + prices.decode_kv * (self.context - 1)
            total += prices.blocks * self._blocks(self.context)
        return total

    def _blocks(self, tokens: Integers, times: int | Integers = 1) -> Integers:
        """The least blocks of its own for `tokens` held in several batches together: a layout is concave."""
        block = min(self.machine.block, MOST_KV)
        blocks = -(-tokens // block)
        if (layout := self.machine.layout) is not None:
            held = [g.weight * np.minimum(blocks, -(-(g.window or MOST_KV**2) // block)) for g in layout.groups]
            blocks = sum(held, layout.state * (tokens > 0))
        return np.asarray(np.maximum(0, blocks - times * self.earlier))

    def _packed(self, blocks: Integers) -> Integers:
        """Return packs * limit * u(blocks / limit), where u(x) = floor((k + 1) x) / k, or x if (k + 1) x is whole."""
        limit, times = self.machine.block_limit or 1, (self.packs + 1) * blocks
        return np.where(times % limit == 0, self.packs * blocks, times // limit * limit)

    def ticks(self, instance: Instance) -> Integers:
        """Return the least time of a request's batches for each token.

        Raises InvalidCertificate where 64 bits might not hold the numbers.
        """
        longest = self.batches.copy()
        for line in lines(instance.cost)[:-1]:
            prices = line.prices._replace(prefill_requests=line.prices.prefill_requests + line.prefill)
            check_size(self.most(prices) + line.base * int(self.batches.max()), line.divisor)
            longest = np.maximum(longest, -(-(line.base * self.batches + self.least(prices)) // line.divisor))
        return longest


def check_size(*numbers: Any) -> None:
    """Refuse what 64 bits might not hold."""
    if max(numbers) >= MOST:
        raise InvalidCertificate("the numbers of this instance are too large for shares of time")


def _checked(request: Request) -> Request:
    if request.output > Most.steps:
        raise InvalidCertificate(f"request {request.id} generates more than {Most.steps} tokens")
    if request.peak > MOST_KV or request.call_time + request.arrival >= MOST // 4:
        raise InvalidCertificate(f"request {request.id} is too large for shares of time")
    return request
