"""The least that a request needs (docs/bounds.md, Shares of time)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import ceil, lcm
from operator import sub
from typing import Any, NamedTuple

from library.checker.files import Amount, Box, spend
from library.checker.instance import WORK, duration, most_prefill, occupied, output


class Token(NamedTuple):
    """An output token: A tokens resident when it comes; low to own of them since the one before, `wait` ticks ago.

    Work for a first token counts from `free` on. `lead` blocks are others'.
    """

    A: int
    own: int
    low: int
    wait: int
    free: int | None
    lead: int


Line = Mapping[str, Amount]
Job = tuple[Amount, Amount, Amount, int]


def tokens_of(one: Box, machine: Box) -> list[Token]:
    """The output tokens of a request, in order."""
    b = machine.block
    spend(20 * output(one), "its tokens")
    result, before, A, kept, wait = list[Token](), 0, one.prompt, 0, 0
    prefix = one.get("prefix") or Box(path=0, others=0, earlier=0, free=0)
    drops = machine.evict or any(segment.call.handling in ("discard", "free") for segment in one.segments[:-1])
    for segment in one.segments:
        for _ in range(segment.decode):
            hit = max(min(prefix.path, before), min(prefix.others, A - 1))
            own, low, free = max(kept, hit // b * b), 0 if drops else kept, None if result else prefix.free
            result.append(Token(A, own, low, wait, free, prefix.earlier // b))
            before, A, kept, wait = A, A + 1, A, 0
        if after := segment.call:
            A, wait = A + after.returns, after.duration
            kept = 0 if after.handling == "discard" else kept
    return result


def lines_of(cost: list[Box]) -> Iterator[dict[str, Fraction]]:
    """The lines of each cost function, as prices: `base` of a batch, `prefill` of one with a prefill, and of work."""
    for function in cost:
        q, over = function.divisor, function.tokens_above
        base = function.busy + min(function.any_decode, function.any_prefill)
        line = {name: Fraction(function[name], q) for name in WORK}
        line |= {"base": Fraction(base, q), "prefill": Fraction(max(0, function.any_prefill - function.any_decode), q)}
        yield line
        if over and over.coefficient:
            fixed = over.knee * over.coefficient
            x = Fraction(1) if base >= fixed else Fraction(base, fixed)
            yield line | {"base": (base - x * fixed) / q, "tokens": line["tokens"] + x * over.coefficient / q}
    yield dict.fromkeys((*WORK, "prefill"), Fraction(0)) | {"base": Fraction(1)}


class Tariff:
    """What work costs: prices of what is done, of a `batch`, of `prefill` and a `block` of KV in it, of `packed`."""

    def __init__(self, machine: Box, prices: Line, packs: int = 1) -> None:
        self.machine, self.P, self.packs = machine, most_prefill(machine), packs
        given = {name: Fraction(price) for name, price in prices.items() if price and name not in ("base", "packed")}
        self.unit = lcm(*(price.denominator for price in given.values()))
        self.prices = {name: int(price * self.unit) for name, price in given.items()}  # so that ways are whole numbers
        self.packed, self.least = Fraction(prices.get("packed", 0)), cache(self.cheapest)

    def cheapest(self, token: Token) -> Fraction:
        """The least that the work for a token costs, over all ways to generate it."""
        spend(50, "what tokens cost")
        return Fraction(min(self.ways(token)), self.unit) + self.packing(token)

    def last(self, token: Token) -> Fraction:
        """The least that the one batch costs which generates a token: a decode, or a prefill of all from m on."""
        A, block = token.A, self.held(token, token.A)
        ways = [{"tokens": 1, "decode_requests": 1, "decode_kv": A - 1}]
        if token.low < A - 1:  # KV may have been dropped, or there is more than one token to process
            refill = {"prefill": 1, "prefill_requests": 1}
            amounts = ({"tokens": A - m, "prefill_token": A - m, "prefill_kv": m} for m in (0, A - 2))
            ways += [refill | each | {"prefill_pairs": A * A - each["prefill_kv"] ** 2} for each in amounts]
        least = min(sum(price * way.get(name, 0) for name, price in self.prices.items()) for way in ways)
        each = sum(self.prices.get(name, 0) * amount for name, amount in (("generated", 1), ("block", block)))
        return Fraction(least + each, self.unit) + self.packing(token)

    def held(self, token: Token, tokens: int, times: int = 1) -> int:
        """Its own blocks, at least, for tokens in several batches together."""
        return max(0, occupied(tokens, self.machine) - token.lead * times)

    def packing(self, token: Token) -> Fraction:
        """The price of the memory of its last batch by the dual feasible function u."""
        if not self.packed:
            return Fraction(0)
        k, x = self.packs, Fraction(self.held(token, token.A), self.machine.memory // self.machine.block)
        return self.packed * (x if ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k))

    def ways(self, token: Token) -> Iterator[int]:
        """The costs to generate a token by a decode (1) or by a prefill (0), from s tokens of KV on."""
        P, chunked, partial = self.P, self.machine.chunked, self.machine.partial
        A, own, low, free = token.A, token.own, token.low, token.free
        for decodes in (1, 0):
            end = A - decodes  # where the prefills end
            if free is not None:
                starts = {free} if not decodes or (chunked and A > 1) or own == end > 0 else ()
            elif decodes:
                starts = {s for s in (low, own) if s == end or chunked} if A > 1 else ()
            else:
                most = min(own, A - 2) if partial else own
                starts = {s for s in (low, most) if low <= s and (s == 0 or s <= A - 2)}
            for s in starts:
                count = -(-(end - own) // P) if P else int(end > own)  # prefills
                count = count if decodes else max(1, count)
                n = count - (not decodes)  # prefills before the last batch, and the KV after each of them, summed
                held = n * end - (P or 0) * n * (n - 1 + 2 * (not decodes)) // 2
                last = end if decodes and count else 0  # what the last prefill before a decode holds
                rest = self.held(token, held - last, n - (last > 0))
                amounts = {
                    "generated": 1, "batch": count + decodes, "tokens": A - s, "decode_requests": decodes,
                    "decode_kv": decodes * end, "prefill": count, "prefill_requests": count, "prefill_token": end - s,
                    "prefill_kv": s * (end > s) * (free is None), "prefill_pairs": end**2 - s**2,
                    "block": self.held(token, A) + self.held(token, last) + rest,
                }  # fmt: skip
                yield sum(price * amounts[name] for name, price in self.prices.items())


def ticks_of(instance: Box) -> Callable[[Token], int]:
    """d, by token: the least total duration of the batches in which a request works for it."""
    batches = Tariff(instance.machine, {"batch": 1}).least
    lines = [(line["base"], Tariff(instance.machine, line).least) for line in lines_of(instance.cost)]
    return cache(lambda token: max(ceil(base * batches(token) + least(token)) for base, least in lines))


class Work:
    """Of (`most`) tokens of a request: d, what `ticks` counts; release and tail in such; share, by a tariff."""

    def __init__(
        self, one: Box, machine: Box, ticks: Any, shares: Any, most: int | None = None, calls: bool = True
    ) -> None:
        self.one, self.tokens = one, tokens_of(one, machine)[:most]
        self.d: list[int] = [*map(ticks, self.tokens)]
        self.share: list[Fraction] = [*map(shares, self.tokens)]
        ends = list(accumulate(d + token.wait * calls for d, token in zip(self.d, self.tokens, strict=True)))
        self.chain, self.release = ends[-1], list(map(sub, ends, self.d))
        self.tail = [self.chain - end for end in ends]


def least_step(instance: Box) -> int:
    """e: ticks that every batch with work lasts: one decode on the least KV, or the first token of a prefill."""
    shortest = min(one.prompt for one in instance.requests)
    decode = {"any_decode": 1, "decode_requests": 1, "generated": 1}
    decode["decode_kv"] = max(1, shortest - (instance.machine.chunked or bool(instance.contents)))
    prefill = {"any_prefill": 1, "prefill_requests": 1, "prefill_pairs": 1}
    return min(duration(instance.cost, {"busy": 1, "tokens": 1, **work}) for work in (decode, prefill))


def served(jobs: Collection[Job]) -> Iterator[tuple[Amount, int, int, int, int]]:
    """What one machine that may interrupt works on, the lowest rank first: (rank, owner, from, to, unit) by piece.

    Jobs are (release, work, rank, owner); from and to are whole numbers of 1 / unit.
    """
    unit, ready, now = lcm(*{job[1].denominator for job in jobs}), list[Any](), 0
    waiting = sorted((int(release * unit), int(work * unit), rank, owner) for release, work, rank, owner in jobs)
    waiting.reverse()
    while waiting or ready:
        now = now if ready else max(now, waiting[-1][0])
        while waiting and waiting[-1][0] <= now:
            _, work, rank, owner = waiting.pop()
            heapq.heappush(ready, [rank, owner, -len(waiting), work])
        rank, owner, _, left = ready[0]
        step = min(left, waiting[-1][0] - now) if waiting else left
        yield rank, owner, now, now + step, unit
        now += step
        ready[0][3] -= step
        if not ready[0][3]:
            heapq.heappop(ready)


def fresh_tokens(one: Box, most: int | None = None) -> list[tuple[int, int]]:
    """Of (`most`) output tokens of a request, the tokens processed for it for the first time, and the call after it."""
    tokens = tokens_of(one, Box(block=1, evict=False))[:most]
    befores, waits = [0, *(token.A for token in tokens)], [*(token.wait for token in tokens[1:]), 0]
    return [(token.A - before, wait) for before, token, wait in zip(befores, tokens, waits, strict=False)]
