"""Kind `in-order` (docs/bounds.md, Prices in order)."""

from __future__ import annotations

from array import array
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import lcm
from typing import Any

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import blocks, limits_of
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens, lines_of

Run = tuple[list[int], int]  # what the first k units pay at a price of 1, and the call after all
Place = tuple[int, int, bool, int]  # run, its units before, is there more than one fresh token, call


class Units:
    """The units of a line: d and a slot, in parts of a tick, q of them, from the first arrival on."""

    def __init__(self, instance: Box, proof: Box, divisor: int = 1) -> None:
        lines, self.block, self.packs = list(lines_of(instance.cost)), instance.machine.block, proof.packs
        if proof.line >= len(lines):
            raise Broken("there is no such line")
        a, b = lines[proof.line]["base"], lines[proof.line]["tokens"]
        self.q = lcm(a.denominator, b.denominator, divisor)
        self.a, self.b, self.n = int(self.q * a), int(self.q * b), proof.most
        self.d = self.a + self.b
        if not self.d:
            raise Broken("the line gives batches no time")
        self.slot, self.L = self.n * self.d, limits_of(instance.machine)["device"]
        self.begin = min(one.arrival for one in instance.requests)

    def runs(self, one: Box, objective: str) -> tuple[list[Run], list[Place]]:
        """The runs of a request, and where in these its tokens are."""
        runs, sums, places, context = list[Run](), [0], list[Place](), 0
        for new, call in fresh_tokens(one, MOST_OF.get(objective)):
            context += new
            places.append((len(runs), len(sums) - 1, new > 1, self.q * call))
            m, u = (self.a + self.b * new) // self.d, packing(blocks(context, self.block), self.L, self.packs)
            spend(20 + m, "units in order")
            sums += [1024 * (self.a * u + self.b * new) // m] * m
            if call:
                runs, sums = [*runs, (list(accumulate(sums)), self.q * call)], [0]
        return [*runs, (list(accumulate(sums)), 0)], places

    def point(self, time: int, slots: int) -> tuple[int, int]:
        """The slot of a time, or the end of all, and for how many units of a request it then has room."""
        s = min(time // self.slot, slots)
        return s, min(self.n, -(-((s + 1) * self.slot - time) // self.d))


def in_order(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `in-order`: a request does whole units one after another, each pays the price of its slot."""
    units, (rates, unit), price = Units(instance, proof), rates_of(instance, objective), proof.price
    total = -1024 * units.slot * sum(price)
    for rate, one in zip(rates, instance.requests, strict=True):
        runs, _ = units.runs(one, objective)
        arrival, rate = units.q * (one.arrival - units.begin), 1024 * proof.scale * rate
        late = max(0, arrival - len(price) * units.slot)
        total += InSlots(units, runs, price, rate).at(0, 0, *units.point(arrival, len(price))) + rate * (late - arrival)
    return Fraction(total, 1024 * proof.scale * units.q * unit)


def packing(held: int, L: int | None, k: int) -> Fraction:
    """The dual feasible function u of blocks (0 where there is no limit)."""
    x = Fraction(held, L) if L else Fraction(0)
    return x if not k or ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k)


class InSlots:
    """The least that a request pays and its end costs, by run, slot, and units of the run that are done before it."""

    def __init__(self, units: Units, runs: list[Run], price: list[int], rate: int) -> None:
        self.units, self.runs, self.price, self.rate, n, S = units, runs, price, rate, units.n, len(price)
        rest = sum(units.d * (len(paid) - 1) + wait for paid, wait in runs)
        most = rate * (S * units.slot + rest) + max(price, default=0) * sum(paid[-1] for paid, _ in runs)
        kept: Any = list if most >= 2**63 else lambda row: array("q", row)
        self.rows: list[list[Any]] = [[] for _ in runs]
        rest = 0  # after a run
        for j, (paid, wait) in reversed([*enumerate(runs)]):
            end, rest = len(paid) - 1, rest + wait
            rows = [kept(rate * (S * units.slot + units.d * k + rest) for k in range(end, 0, -1))]
            rest += units.d * end
            for s in reversed(range(S)):
                spend((18 + n.bit_length()) * end, "units in order")
                ways, width = [known + price[s] * each for known, each in zip(rows[-1], paid, strict=False)], 1
                while width <= n:  # each is the least of so many from it on
                    step = min(width, n + 1 - width)
                    ways, width = [*map(min, ways, ways[step:]), *ways[max(0, end - step) :]], width + step
                for g in range(1, min(n, end) + 1):
                    ways[end - g] = min(ways[end - g], price[s] * paid[end] + self.after(j, s, g))
                rows.append(kept(way - price[s] * each for way, each in zip(ways, paid, strict=False)))
            self.rows[j] = rows[::-1]

    def after(self, j: int, s: int, g: int) -> int:
        """What follows a run that ends with g units in a slot."""
        time = (s * self.units.n + g) * self.units.d
        if j == len(self.runs) - 1:
            return self.rate * time
        return self.at(j + 1, 0, *self.units.point(time + self.runs[j][1], len(self.price)))

    def at(self, j: int, k: int, s: int, room: int) -> int:
        """What follows k units of a run, in a slot in which there is room for some."""
        paid, rows = self.runs[j][0], self.rows[j]
        if s == len(self.price) or room == self.units.n:
            return int(rows[s][k])
        best, end = int(rows[s + 1][k]), len(paid) - 1
        for g in range(1, min(room, end - k) + 1):
            later = rows[s + 1][k + g] if k + g < end else self.after(j, s, g)
            best = min(best, self.price[s] * (paid[k + g] - paid[k]) + later)
        return best


class WhatIsLeft:
    """Prices in order of what is left of labels (the head of kvcore/certificates/potentials.py)."""

    def __init__(self, instance: Box, proofs: list[Box], objective: str, divisor: int) -> None:
        first, self.S = proofs[0], len(proofs[0].price)
        if any(Box(each, price=0) != Box(first, price=0) or len(each.price) != self.S for each in proofs):
            raise Broken("prices in order of what is left differ in more than prices")
        if not self.S:
            raise Broken("prices in order of what is left are of no slots")
        self.units = units = Units(instance, first, divisor)
        self.part, self.begin, self.known = units.q // divisor, units.q * units.begin, lru_cache(2**14)(self.known_of)
        prices = [each.price for each in proofs]
        left = ([*accumulate(price[::-1], initial=0)][::-1] for price in prices)
        self.prices, self.left = [*zip(*prices, strict=True), (0,) * len(prices)], [*zip(*left, strict=True)]
        self.scale, self.places, self.tables = 1024 * first.scale, list[list[Place]](), list[list[InSlots]]()
        self.rates, _ = rates_of(instance, objective)
        for rate, one in zip(self.rates, instance.requests, strict=True):
            runs, places = units.runs(one, objective)
            self.places.append(places)
            self.tables.append([InSlots(units, runs, price, rate * self.scale) for price in prices])

    def known_of(self, i: int, j: int, k: int, s: int, room: int) -> list[int]:
        """What follows k units of a run of a request, by each of the prices."""
        spend(5 * self.units.n * len(self.tables[i]), "what is left")
        return [table.at(j, k, s, room) for table in self.tables[i]]

    def least(self, label: Any, left: list[int]) -> int:
        """The least sum of ends of those left, in the time of labels."""
        T, units, all_V = label.time * self.part - self.begin, self.units, list[list[int]]()
        spend(5 * (len(left) + 2) * len(self.prices[0]), "what is left")
        for i in left:
            j, k, may_be_begun, call = self.places[i][label.tokens[i]]
            at = max(T, label.ready[i] * self.part - self.begin)
            if may_be_begun and label.tokens[i] + 1 == len(self.places[i]):
                all_V.append([self.scale * self.rates[i] * (at + units.d)] * len(self.prices[0]))
                continue
            if may_be_begun:
                (j, k, _, _), at = self.places[i][label.tokens[i] + 1], at + units.d + call
            all_V.append(self.known(i, j, k, *units.point(at, self.S)))
        s = min(max(0, T) // units.slot, self.S)
        gone = max(0, T) - s * units.slot  # of slot s
        each = zip(map(sum, zip(*all_V, strict=True)), self.left[s], self.prices[s], strict=True)
        most = max(0, *(V - 1024 * (left * units.slot - price * gone) for V, left, price in each))
        return -(-most // (self.scale * self.part)) + sum(self.rates[i] for i in left) * self.begin // self.part
