"""Prices of work over time, where a small batch that is fast pays more for its work than a full one that is slow.

While a batch of length D runs, each request in it pays the price of that moment times its share / (D - f), where f is
the fixed part of a batch that nothing shares: together at most the price. `docs/bounds.md` ("Speed has a price") has
the proof. All is in integers: work and ticks in units of 2^-bits, tokens of 2^-fine, what is paid is rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import CALL, Budget
from kvcore.certificates.proof import InvalidCertificate
from kvcore.certificates.shares import UNIT, Division, PricedSteps
from kvcore.certificates.steps import Integers
from kvcore.instance import LIMIT, Instance, alike
from kvcore.metrics import SUMS, Value, weight

ONE = 64
"""Ratios are given in 64ths."""
SQUARE = 12
"""Squares of ratios are in units of 2^-12."""
BLOCK = 16
"""Ends that are looked at together."""
MOST_SLOTS = 2**18
EXACT = 30
"""Bits of the largest price of a token, and one less than those of the tokens of a request."""
CLAMP = 1 << EXACT + 1
"""What a token pays in the last slot is counted up to this."""


class Speed(Division):
    """A `price` of work for each slot of so many ticks from the first arrival on, in units of 1/`scale`; none later.

    `ratios` are those D / (D - f) at which tangents bound what a token pays by its speed, in 64ths and increasing.
    """

    kind: Literal["speed"] = "speed"
    slot: Annotated[int, Field(ge=1, le=LIMIT)]
    scale: Annotated[int, Field(ge=1, le=2**40)]
    price: Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=MOST_SLOTS)]
    ratios: Annotated[tuple[Annotated[int, Field(gt=ONE, le=2**20)], ...], Field(max_length=64)] = ()

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what all requests take and pay at the least, less all prices times the length of their slots."""
        if objective not in SUMS:
            raise InvalidCertificate(f"prices of work prove {', '.join(SUMS)}, not {objective}")
        if any(a >= b for a, b in pairwise(self.ratios)):
            raise InvalidCertificate("the ratios must increase")
        self.check(instance)
        self.spend(instance, budget)
        slots = PricedWork(instance, self, objective)
        total = sum(len(same) * slots.least(same[0], budget) for same in alike(instance.requests))
        return Fraction(total, self.scale << slots.bits + SQUARE) - Fraction(self.slot * sum(self.price), self.scale)

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"at these prices of work in {len(self.price)} slots, no request finds a cheaper speed"


class Tokens(NamedTuple):
    """So many tokens of a request, each of at least so much work, none of which begins before `begin` (in ticks)."""

    count: int
    work: int
    begin: int


class PricedWork:
    """What the requests of an instance take and pay, each at the least."""

    def __init__(self, instance: Instance, proof: Speed, objective: str) -> None:
        self.instance, self.proof, self.objective = instance, proof, objective
        self.steps = PricedSteps(instance, proof)
        self.work, self.bits = self.steps.shares()
        whole = self.steps.mixed[0] * 2**self.bits
        self.whole, self.fixed = int(whole), int(whole * (UNIT - proof.shared) / UNIT)
        """The fixed part of a batch, and what of it is not shared, in units of 2^-bits ticks."""
        self.prices = np.array([*proof.price, 0], np.int64)
        self.origin = instance.first_arrival

    def least(self, i: int, budget: Budget) -> int:
        """Return the least that request i takes and pays, in units of 1/scale and 2^-(bits + SQUARE)."""
        request, steps, first = self.instance.requests[i], self.steps, int(self.steps.steps.first[i])
        last = first if self.objective == "total-ttft" else int(steps.steps.first[i + 1]) - 1
        rate = int(weight(request, self.objective) * self.proof.scale)
        begun, alone = int(steps.done[first]), int(steps.done[last])
        arrival = request.arrival - self.origin
        groups = [Fill(self, Tokens(1, int(self.work[first]), arrival), rate, 0 if last == first else alone - begun)]
        extra, start = 0, arrival
        if last > first:
            decodes, start = self.work[first + 1 : last + 1], arrival + begun
            each = int(decodes.min())
            extra = int((decodes - each).sum())
            groups.append(Fill(self, Tokens(last - first, each, start), rate, 0))
        best, slot, slots = None, self.proof.slot, len(self.prices) - 1
        cheapest = int(self.prices.max())
        for low in range(min(start // slot, slots), slots + 1, BLOCK):
            ends = np.arange(low, min(low + BLOCK, slots + 1))
            taken = [rate * (max(int(end) * slot, start) - arrival) << self.bits + SQUARE for end in ends]
            if best is not None and taken[0] >= best:
                break
            paid = [group.paid(ends, budget) for group in groups]
            for k, end in enumerate(ends.tolist()):
                cheapest = min(cheapest, int(self.prices[end]))
                amounts = [each[k] for each in paid]
                if None in amounts or (end < slots and (end + 1) * slot < arrival + alone):
                    continue
                total = taken[k] + sum(amount for amount in amounts if amount) + (cheapest * extra << SQUARE)
                best = total if best is None else min(best, total)
        return max(best or 0, rate * alone << self.bits + SQUARE)


class Fill:
    """The cheapest speeds for some tokens of a request, by the slot in which the request ends.

    After the last of them it needs `rest` more ticks. Without any, they end with the request, and pay `rate` for each
    tick of the last slot until then.
    """

    def __init__(self, slots: PricedWork, tokens: Tokens, rate: int, rest: int) -> None:
        self.slots, self.tokens, self.rate, self.rest = slots, tokens, rate, rest
        self.first = min(tokens.begin // slots.proof.slot, len(slots.prices) - 1)
        self.ratios = (ONE, *slots.proof.ratios)
        self.fastest = max(1 << slots.bits, slots.whole, slots.fixed + tokens.work)
        """Ticks for a token at the least, in units of 2^-bits."""
        slowest = [self._ticks(k) for k in range(len(self.ratios))]
        self.ticks = [ticks for ticks, before in zip(slowest, [None, *slowest], strict=False) if ticks != before]
        self.ratios = self.ratios[: len(self.ticks)]
        self.fine = EXACT + 1 - tokens.count.bit_length()
        self.limit = tokens.count << self.fine
        self._price()

    def _ticks(self, k: int) -> Fraction:
        """Return ticks for a token at the largest speed of piece k, in units of 2^-bits: as long as where it ends."""
        if self.slots.fixed == 0 or k + 1 == len(self.ratios):
            return Fraction(self.fastest)
        both = self.ratios[k] + self.ratios[k + 1]
        return max(Fraction(self.fastest), Fraction(self.slots.fixed * both, both - 2 * ONE))

    def _price(self) -> None:
        """Set what a token pays by piece where the price is 1, on average up to its end too, and the time it takes."""
        fixed = self.slots.fixed
        squares = [self.tokens.work * ratio**2 for ratio in self.ratios]
        means = [
            self.tokens.work * (ratio**2 - (ceil_div((ratio - ONE) ** 2 * ticks, fixed) if ratio > ONE else 0))
            for ratio, ticks in zip(self.ratios, self.ticks, strict=True)
        ]
        times = [int(self.rate * ticks * 2**SQUARE) for ticks in self.ticks]
        most = int(self.slots.prices.max())
        early = max(0, squares[-1].bit_length() + most.bit_length() - 62)
        down = max(early, max(most * squares[-1], times[-1]).bit_length() - EXACT)
        self.early, self.down = early, down
        self.squares = np.array([square >> early for square in squares], np.int64)
        self.means = np.array([max(0, mean) >> early for mean in means], np.int64)
        self.times = np.array([min(time >> down, CLAMP) for time in times], np.int64)

    def _prices(self, slots: Integers, last: bool) -> Integers:
        """Return the price of a token by slot and piece; `last`: of one in the last slot, with its time, [slots, 1]."""
        prices = self.slots.prices[slots, None]
        if not last:
            return prices * self.squares >> self.down - self.early
        paid = (prices * self.means >> self.down - self.early) + self.times
        return np.minimum(paid.min(axis=1, keepdims=True), CLAMP)

    def _room(self, ticks: int) -> Integers:
        """Return how many tokens each piece takes at the most in so many ticks, in units of 2^-fine."""
        whole = ticks << self.slots.bits + self.fine
        sums = [min(self.limit, ceil_div(whole, each)) for each in self.ticks]
        return np.diff(np.array([0, *sums], np.int64))

    def paid(self, ends: Integers, budget: Budget) -> list[int | None]:
        """Return what the tokens pay if the request ends in each of these slots, in units of 2^-(bits + SQUARE).

        None where that is too early.
        """
        slot, last, pieces = self.slots.proof.slot, len(self.slots.prices) - 1, len(self.ticks)
        closing = np.where(ends == last, last, ends - self.rest // slot)
        high = int(closing.max()) + 1
        if high <= self.first:
            return [None] * len(ends)
        size = 2 * pieces * (high - self.first)
        budget.spend(f"prices of {last} slots", 40 * CALL + 20 * size * len(ends), 40 * size * len(ends))
        inside, rest = np.arange(self.first, high), slot - self.rest % slot
        begun = (self.first + 1) * slot - self.tokens.begin if self.first < last else 0
        rooms, finals = (np.tile(self._room(ticks), (len(inside), 1)) for ticks in (slot, rest))
        rooms[0], finals[0] = self._room(begun), self._room(min(begun, rest))
        if not self.rest:
            finals = finals.sum(axis=1, keepdims=True)
        if high > last:
            finals[-1] = self.limit
        cost = np.concatenate([self._prices(inside, last=False).ravel(), self._prices(inside, not self.rest).ravel()])
        room = np.concatenate([rooms.ravel(), finals.ravel()])
        order = np.argsort(cost, kind="stable")
        slots = np.concatenate([np.repeat(inside, pieces), np.repeat(inside, finals.shape[1])])[order]
        before = (order < rooms.size)[None, :]
        here = np.where(before, slots < closing[:, None], slots == closing[:, None])
        filled = np.minimum(np.cumsum(np.where(here, room[order], 0), axis=1), self.limit)
        sums = np.diff(filled, axis=1, prepend=0) @ cost[order]
        return [
            (int(total) << self.down) >> self.fine if enough else None
            for total, enough in zip(sums, filled[:, -1] == self.limit, strict=True)
        ]


def ceil_div(a: int | Fraction, b: int | Fraction) -> int:
    """Return a / b, rounded up."""
    return int(-(-a // b))
