"""Kind `speed` (docs/bounds.md, Speed has a price)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import ceil, inf
from typing import Any

from library.checker.files import ONE, Amount, Box, Broken, spend
from library.checker.instance import but_id
from library.checker.objectives import MOST_OF, RATES
from library.checker.shares import PARTS, Division
from library.checker.work import Tariff, Work, ticks_of

Pieces = list[tuple[int, int]]  # (price, room)


def speed(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `speed`: while a batch of length D runs, each request in it pays for its work by its speed, and fees.

    For total-ttft there is no token but the first.
    """
    if sorted(set(proof.ratios)) != proof.ratios:
        raise Broken("the ratios do not increase")
    if any(len(line.price) > len(proof.price) for line in proof.lines):
        raise Broken("a line has prices of more slots than the first")
    ticks, division = ticks_of(instance), Division(instance, proof)
    tariff, base = division.tariff(division.line), division.line["base"]
    batches = Batches(proof, base, base * (1 - sum(division.part.values())))
    rows = [other_line(instance, proof, line) for line in proof.lines]
    start, alike = min(one.arrival for one in instance.requests), dict[str, list[Box]]()
    total = -proof.slot * sum(sum(each.price) for each in (batches, *(row for row, _ in rows)))
    for one in instance.requests:
        alike.setdefault(one.id if instance.contents else but_id(one), []).append(one)
    for those, a in zip(alike.values(), parts_of_fixed(alike.values(), proof, start), strict=True):
        work = Work(those[0], instance.machine, ticks, tariff.least, most=MOST_OF.get(objective))
        if rows:  # only the last batch of tokens after the first is looked at
            work.share[1:] = map(tariff.last, work.tokens[1:])
        first, *later = work.tokens
        lines = [(row, other.least(first), min(map(other.last, later), default=Fraction(0))) for row, other in rows]
        rate = int(RATES[objective](those[0]) * proof.scale)
        total += len(those) * batches.least(those[0].arrival - start, rate, work, a, lines)
    return Fraction(total) / proof.scale


def other_line(instance: Box, proof: Box, line: Box) -> tuple[Batches, Tariff]:
    """Of another line with prices: its batches, and what work costs in it."""
    division = Division(instance, Box(proof, **dict.fromkeys(PARTS, 0), functions=line.functions))
    price, base = line.price + [0] * (len(proof.price) - len(line.price)), division.line["base"]
    return Batches(Box(proof, ratios=[], fee=1024, price=price), base, base), division.tariff(division.line)


def parts_of_fixed(groups: Collection[list[Box]], proof: Box, start: int) -> list[dict[int, Fraction]]:
    """a: by group of like requests and slot, each one's part of what is fixed in a batch. `fees` are weights."""
    if proof.fees and len(proof.fees) != len(groups):
        raise Broken("fees: give a list for each group of requests that differ in their ids only, or none")
    rows, together = list[dict[int, int]](), Counter[int]()
    for those, row in zip(groups, proof.fees or [[] for _ in groups], strict=True):  # in the order of the first of each
        arrival = (those[0].arrival - start) // proof.slot
        rows.append({arrival + k: weight for k, weight in enumerate(row) if weight})
        for s, weight in rows[-1].items():
            together[s] += weight * len(those)
    return [{s: Fraction(weight, together[s]) for s, weight in row.items()} for row in rows]


Priced = tuple["Batches", Fraction, Fraction]


class Batches:
    """Of length at least F, f of it shared by none, and the prices of work in slots of time."""

    def __init__(self, proof: Box, F: Amount, f: Amount) -> None:
        self.F, self.f, self.ordered, self.fee = F, f, proof.ordered, Fraction(proof.fee, 1024)
        self.slot, self.cells, self.price = proof.slot, proof.cells, proof.price
        self.level = Fraction(proof.level, 1024)
        self.ratios = [Fraction(1), *(Fraction(ratio, 64) for ratio in proof.ratios)]
        self.pieces = cache(self.in_pieces)

    def in_pieces(self, w: Amount, least: Amount = 0) -> tuple[Pieces, int, Pieces]:
        """What speed costs a token of work w where the price is 1, in units of 1 / ONE.

        (Price, room in a tick) by piece; the room of all; and (time, price) for a token in the pieces up to each.
        """
        most, x, paid = Fraction(1) / max(Fraction(1), self.F, self.f + w, least), Fraction(0), Fraction(0)
        pieces, last = Pieces(), Pieces()
        for g, following in zip(self.ratios, [*self.ratios[1:], None], strict=True):
            end = most if following is None or not self.f else min(most, (1 - 2 / (g + following)) / self.f)
            if end > x:
                price, width = w * ((1 - self.fee) * g * g + self.fee), end - x
                x, paid = end, paid + price * width
                pieces.append((int(ONE * price), ceil(ONE * width)))
                last.append((int(ONE / x), int(ONE * paid / x)))
        return pieces, ceil(ONE * x), last

    def least(self, r: int, rate: int, work: Work, a: dict[int, Fraction], lines: list[Priced]) -> Fraction:
        """The least of rate times the flow time plus what a request pays; `r` is its arrival, `a` its parts of f.

        `lines` are others with prices, with its work for the first token and the least for another in them.
        Sums of what is paid are whole numbers of 1 / ONE: prices and tokens are rounded down, and what has room up.
        """
        slot, S, w, others, chain = self.slot, len(self.price), work.share[0], work.share[1:], work.chain
        best: Any = inf
        begin = r + work.d[0] if others else r
        rest = r + chain - begin  # what is left at the least when `others` may begin
        level = min(others) + self.level * (max(others) - min(others)) if others else w
        count = sum(min(Fraction(1), each / level) if level else 1 for each in others) if others else 1
        more = sorted((int(ONE * (each / level - 1)) for each in others if each > level), reverse=True) if level else []
        fees = {s: int(ONE * self.fee * self.f * part) for s, part in a.items()}
        heads = [Tokens(row, each, 1, r) for row, each, _ in lines]
        heads += [Tokens(self, w, 1, r, fees)] if others else []
        ordered, rate, later = self.ordered and bool(others), rate * ONE, work.chain - work.d[0]
        besides = [(row, each) for row, _, each in lines if others]
        known = [0] * (S + 1)  # what the others pay at the least, by the slot of the end: no less if they begin later
        for ready, close in self.firsts(begin) if ordered else [(begin, None)]:
            if rate * (ready + rest - r) >= best:
                break
            fixed = all_by(heads, close) if close else 0
            if fixed is None:
                continue
            tail, growth = Tokens(self, level, count, ready, fees, besides), Tokens(self, level, len(more), ready)
            for s in range(min(ready // slot, S), S + 1):
                end, time = (s + 1) * slot, rate * (max(s * slot, ready) - r) + fixed
                if time >= best:
                    break
                if (s < S and end < ready + rest) or time + known[s] >= best:
                    continue
                early = all_by(heads, end - later) if not ordered and s < S else 0
                timed = tail.ending(s, self.price[s] if s < S else 0, rate)
                known[s] = max(known[s], timed or 0)
                if early is not None and timed is not None and time + timed + early < best:
                    best = min(best, time + timed + early + (growth.heaviest(s, more) if more and s < S else 0))
        return Fraction(max(best if best < inf else 0, rate * chain), ONE)

    def firsts(self, begin: int) -> Iterator[tuple[int, int | None]]:
        """When the first token comes, none before `begin`: from and before a tick (None: after all slots), by cell."""
        slot, n, S = self.slot, self.cells, len(self.price)
        for k in range(min(begin // slot, S) * n, S * n):
            if -(-slot * (k + 1) // n) > begin:
                yield max(begin, slot * k // n), -(-slot * (k + 1) // n)
        yield max(begin, S * slot), None


def all_by(heads: list[Tokens], tick: int) -> int | None:
    """What all of these tokens pay if they are done by a tick; None: too early for one."""
    paid = [head.by(tick) for head in heads]
    return None if None in paid else sum(filter(None, paid))


class Tokens:
    """Parts of tokens of work w that none begins before `begin`, each at the cheapest speeds.

    `fees`: what one pays in a slot for the part of f that is its own, where the price is 1. `besides`: its work in
    other lines, which have prices of their own.
    """

    def __init__(
        self, batches: Batches, w: Amount, count: Amount, begin: int, fees: dict[int, int] | None = None,
        besides: Sequence[tuple[Batches, Amount]] = (),
    ) -> None:  # fmt: skip
        self.batches, self.count, self.begin, self.fees = batches, int(count * ONE), begin, fees or {}
        self.done, self.found, self.besides = begin // batches.slot, Pieces(), besides  # `found`: before slot `done`
        self.pieces, self.widest, self.last = batches.pieces(w, max((row.F + each for row, each in besides), default=0))

    def ticks(self, s: int, end: int) -> int:
        """How many ticks of slot s there are for them, up to a tick in it."""
        return max(0, end - max(self.begin, s * self.batches.slot))

    def pass_by(self, s: int) -> None:
        """Take in all slots before s, as (price, room), and forget what is beyond the count."""
        for each in range(self.done, s):
            self.found = self.cheapest(self.offer(each, (each + 1) * self.batches.slot))
        self.done = max(self.done, s)

    def offer(self, s: int, end: int) -> Pieces:
        """The pieces of slot s, as (price, room), up to a tick in it."""
        ticks, price, fee = self.ticks(s, end), self.batches.price[s], self.fees.get(s, 0)
        more = self.more(s) if ticks else 0
        return [(price * (cost + fee) + more, width * ticks) for cost, width in self.pieces] if ticks else []

    def more(self, s: int) -> int:
        """What a token pays in other lines in slot s."""
        return int(ONE * sum(row.price[s] * each for row, each in self.besides)) if s < len(self.batches.price) else 0

    def cheapest(self, more: Pieces) -> Pieces:
        """The cheapest of what was found and of more pieces, as many as have room for the count."""
        spend(10 * (1 + len(self.found) + len(more)), "its prices")
        pieces = sorted(self.found + more)
        return pieces[: bisect_left(list(accumulate(room for _, room in pieces)), self.count) + 1]

    def paid(self, more: Pieces) -> int | None:
        """What they pay with these pieces, too; None: there is too little room."""
        pieces = self.cheapest(more)
        over = sum(room for _, room in pieces) - self.count
        return None if over < 0 else (sum(price * room for price, room in pieces) - pieces[-1][0] * over) // ONE

    def by(self, tick: int) -> int | None:
        """What they pay if they are done by a tick; None: too early."""
        s = min(max(0, tick // self.batches.slot), len(self.batches.price))
        self.pass_by(s)
        return self.paid(self.offer(s, tick) if s < len(self.batches.price) else [])

    def ending(self, s: int, price: int, rate: int) -> int | None:
        """What they pay if the last is done in slot s, where a tick up to it costs `rate`; None: too little room."""
        self.pass_by(s)
        each = min(rate * time // ONE + price * paid for time, paid in self.last) + price * self.fees.get(s, 0)
        each += self.more(s)
        most = self.widest * self.ticks(s, (s + 1) * self.batches.slot)
        return self.paid([(each, most if s < len(self.batches.price) else self.count)])

    def heaviest(self, s: int, more: list[int]) -> int:
        """What work beyond w pays by the end of slot s: one after the other, at the lowest price that has room left."""
        self.pass_by(s + 1)
        spend(len(self.found) + len(more), "its prices")
        paid = room = k = 0
        for price, width in self.found:
            room += width
            while k < len(more) and k * ONE < room:
                paid, k = paid + price * more[k], k + 1
        return paid // ONE
