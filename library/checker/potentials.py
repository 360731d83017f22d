"""Kind `potentials` (the head of kvcore/certificates/potentials.py)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from math import inf
from operator import le, mul
from typing import Any, NamedTuple

from library.checker.files import Amount, Box, Broken, spend
from library.checker.fresh import Orders, best_first
from library.checker.instance import SWAPS, blocks
from library.checker.order import WhatIsLeft

Gains = tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]
Table = list[list[Gains | None]]


class Known(NamedTuple):
    """What is known after a batch; `ends`: those of completed requests, times rates; `worth` of each potential."""

    ends: int
    time: int
    tokens: tuple[int, ...]
    ready: tuple[int, ...]
    worth: tuple[Any, ...]


def potentials(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `potentials`: all orders of batches below the claim."""
    return best_first(WithPrices(instance, proof, objective), instance, proof.claim)


class WithPrices(Orders):
    """What is the same in all labels: the potentials (y, g, w, p, q); the first has no prices."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        super().__init__(instance, proof, objective)
        n, self.U, self.one = len(self.given), proof.scale, self.b + self.token
        if not proof.moves < len(instance.cost):
            raise Broken(f"the cost has no function {proof.moves}")
        swaps, block = instance.cost[proof.moves], self.machine.block
        out, back = (Fraction(swaps[name] * self.divisor, swaps.divisor) for name in SWAPS[:2])
        self.given_room, self.values = self.room * block, lru_cache(2**16)(self.values_of)
        self.sides, self.alike, nothing = cache(self.sides_of), cache(self.alike_of), ((0, 0),) * n
        # of each request, tokens before a call (as a count), and its time
        self.pauses = [[(k, wait) for k, wait in enumerate(waits[:-1], 1) if wait] for waits in self.wait]
        self.prices: list[Any] = [(self.U, 0, None, (0,) * n, (0,) * n)]
        for each in proof.potentials:
            y, g, w, p, q = each.compute, each.wait, each.request, each.device, each.host
            z = self.U - y - g
            if z < 0 or len(p) != n or len(q) != n or (w is None) != (g == 0) or (w is not None and w >= n):
                raise Broken("a potential has other weights, requests or prices than there are")
            if any(m > y * self.b or h - m > z * out or m - h > z * back for m, h in zip(p, q, strict=True)):
                raise Broken("a token's price is above its time")
            self.prices.append((y, g, w, tuple(p), tuple(q)))
        parts = [proof.in_order] if proof.in_order else []
        self.in_order = [WhatIsLeft(instance, each, objective, self.divisor) for each in parts]
        self.waited = {w for _, _, w, _, _ in self.prices}
        self.own = [apart(tuple(zip(p, q, strict=True)), nothing) for _, _, _, p, q in self.prices]

    def first(self) -> Any:
        """The label of the start."""
        ready = tuple(one.arrival * self.divisor for one in self.given)
        start: Any = Known(0, 0, (0,) * len(ready), ready, ())
        return start._replace(worth=tuple(self.worths(start, 0, self.left(start))))

    def rises(self, gains: Gains, limits: tuple[int, ...], room: Any) -> tuple[int, int]:
        """The most by which v of one potential exceeds another's, or 0, in two ways: both are true."""
        device, there, moved = gains
        if not there:
            return (greedy(device, limits, room),) * 2 if device else (0, 0)
        sides = greedy(there, limits, self.host) + (greedy(device, limits, room) if device else 0)
        whole = greedy(there, limits, inf)  # all on the host, and some of them moved
        return sides, whole + greedy(moved, limits, room) if moved else whole

    def context(self, label: Any, i: int) -> int:
        """K."""
        return self.contexts[i][label.tokens[i]]

    def limits(self, label: Any, at: Any, those: list[int]) -> tuple[int, ...]:
        """The most KV of those requests at a time."""
        limits = [0] * len(self.given)
        for i in those:
            done = label.tokens[i]
            early = self.contexts[i][done - 1] if done else 0
            limits[i] = early if at <= label.ready[i] else self.contexts[i][done] - 1
        return tuple(limits)

    def values_of(self, limits: tuple[int, ...], left: tuple[int, ...]) -> list[Any]:
        """V of each potential; of one whose request is over no worth is known."""
        spend(30 * len(self.prices), "its potentials")
        over = {w for w in self.waited if w is not None and w not in left}
        each = zip(self.prices, self.own, strict=True)
        return [
            inf if w in over else min(self.rises(gains, limits, self.given_room)) for (_, _, w, _, _), gains in each
        ]

    def worths(self, label: Any, at: int, left: list[int]) -> list[Any]:
        """Lemma 2, of all potentials."""
        values = self.values(self.limits(label, at, left), tuple(left))
        return [
            (self.U - g) * at + g * label.ready[w or 0] - V
            for (_, g, w, _, _), V in zip(self.prices, values, strict=True)
        ]

    def sides_of(self, left: tuple[int, ...]) -> list[Any]:
        """For those left: what a batch is worth, its requests as bits, and their p."""
        found = list[Any]()
        for y, _, w, p, q in self.prices:
            those = [k for k, i in enumerate(left) if p[i] or q[i] or i == w]
            known = y * (self.busy + self.one * len(those))
            found.append((known, sum(1 << k for k in those), tuple(p[i] for i in left)))
        return found

    def alike_of(self, left: tuple[int, ...], F: tuple[int, ...]) -> tuple[list[Any], Table, list[int]]:
        """For a batch: y' of each potential, p of F, and its class or None; of two classes of a kind how v changes.

        Lemma 3 asks only for w and g, or neither, and the prices of others: of those alike in these the best counts.
        """
        classes, rows = dict[Any, int](), list[Any]()
        others = set(left) - set(F)
        for y, g, w, p, q in self.prices:
            kind = (w, g) if w is not None and w not in F else None
            side = tuple((p[i], q[i]) if i in others else (0, 0) for i in range(len(p)))
            one = classes.setdefault((kind, side), len(classes)) if w is None or w in left else None
            rows.append((y + (g if w in F else 0), tuple(p[i] for i in F), one))
        spend(100 * len(classes) ** 2, "its potentials")
        table = [
            [apart(side, its) if its_kind == kind else None for its_kind, its in classes] for kind, side in classes
        ]
        return rows, table, [c for (kind, _), c in classes.items() if kind is None]

    def least(self, label: Any) -> int:
        """What is left."""
        left, U = self.left(label), self.U
        when, cost = [0] * 2 ** len(left), [0]  # of each set: when all have their next tokens; the smallest sum
        place = {i: 1 << k for k, i in enumerate(left)}
        for i in left:
            when[place[i]] = max(label.time, label.ready[i]) + self.busy + self.one
        spend(5 * len(self.prices) + (30 << len(left)), "what is left")
        K = [self.context(label, i) - 1 for i in left]
        for (known, bits, p), worth in zip(self.sides(tuple(left)), label.worth, strict=True):
            if worth > -inf:
                when[bits] = max(when[bits], -(-(known + worth + sum(map(mul, p, K))) // U))
        for bits in range(1, 2 ** len(left)):
            without = [(bits & ~place[i], i) for i in left if bits & place[i]]
            when[bits] = max(when[bits], *(when[less] for less, _ in without))
            cost.append(min(cost[less] + self.rates[i] * when[bits] for less, i in without))
        after = sum(self.rates[i] * self.rest[i][label.tokens[i]] for i in left)
        more = [self.crowd(label, left), *(each.least(label, left) for each in self.in_order)] if left else [0]
        return label.ends + max(cost[-1] + after, *more)

    def crowd(self, label: Any, left: list[int]) -> int:
        """Crowds: the ends without waiting, and how much all must wait."""
        d, n, T, calls, alone = self.busy + self.one, len(left), label.time, list[tuple[int, int]](), dict[int, int]()
        tokens = {i: len(self.fresh[i]) - label.tokens[i] for i in left}  # a
        for i in left:
            mine = [(0, label.ready[i] - T)] if label.ready[i] > T else []
            mine += [(k - label.tokens[i], wait) for k, wait in self.pauses[i] if k > label.tokens[i]]
            alone[i] = d * tokens[i] + sum(wait for _, wait in mine)
            calls += mine
        spend(30 * len(calls) + 60 * n, "a crowd")
        few = min(tokens.values())
        X = min(sum(tokens.values()), self.given_room + n - sum(self.context(label, i) for i in left))
        over, lost = 0, 0  # E(m), and what is lost for the best m
        for m, wait in [*sorted(calls), (few, 0)]:
            lost = max(lost, min(min(m, few) * d, -((over * (n - 1) - X * d) // n)))
            over += wait
        waiting = min(alone.values()) - sum(wait for _, wait in calls) - lost
        least = min(self.rates[i] for i in left)
        return sum(self.rates[i] * (T + alone[i]) for i in left) + least * max(0, waiting)

    def followers(self, label: Any) -> Iterator[Any]:
        """All labels that may follow."""
        left = self.left(label)
        for bits in range(1, 2 ** len(left)):
            yield self.following(label, left, [i for k, i in enumerate(left) if bits >> k & 1])

    def following(self, label: Any, left: list[int], F: list[int]) -> Any:
        """Lemma 3."""
        block, K = self.machine.block, {i: self.context(label, i) for i in F}
        room = (self.room - sum(blocks(each, block) for each in K.values())) * block
        if room < 0:
            return None
        S = max(label.time, *(label.ready[i] for i in F))
        moments = {S, *(label.ready[i] for i in left if label.time < label.ready[i] < S)}
        spend(20 * len(self.prices), "its potentials")
        before = [*label.worth]
        for at in moments:
            before = [*map(max, before, self.worths(label, at, left))]
        rows, table, alone = self.alike(tuple(left), tuple(F))
        less, whole = [K[i] - 1 for i in F], self.busy + self.one * len(F)
        known = [worth + y * whole + sum(map(mul, p, less)) for worth, (y, p, _) in zip(before, rows, strict=True)]
        most = [-inf] * len(table)  # with the batch, of all that are alike
        for worth, (_, _, one) in zip(known, rows, strict=True):
            if one is not None and worth > most[one]:
                most[one] = worth
        time = max(S, *(-(-most[one] // self.U) for one in alone))
        tokens = tuple(done + (i in K) for i, done in enumerate(label.tokens))
        ready = tuple(time + self.wait[i][label.tokens[i]] if i in K else at for i, at in enumerate(label.ready))
        over = {i for i in F if tokens[i] == len(self.fresh[i])}
        after = Known(label.ends + time * sum(self.rates[i] for i in over), time, tokens, ready, ())
        others = tuple(self.context(label, i) - 1 if i in left and i not in K else 0 for i in range(len(tokens)))
        best = self.changed(most, table, others, room)
        last, kept = [i for i in left if i not in over], [0 if i in over else K[i] for i in F]
        worth = self.worths(after, time, last)
        for c, (_, p, one) in enumerate(rows):
            if one is not None and worth[c] > -inf:
                _, g, w, _, _ = self.prices[c]
                more = g * self.wait[w][label.tokens[w]] if w in K else 0
                worth[c] = max(worth[c], best[one] + more - sum(map(mul, p, kept)))
        return after._replace(worth=tuple(worth))

    def changed(self, most: list[Any], table: Table, others: tuple[int, ...], room: int) -> list[Any]:
        """What each class is worth as itself or another of its kind, less what v rises.

        What v rises by way of d is no less than at once: from d that k is as good as, either way, nothing is tried.
        """
        best, kept = [*most], list[int]()
        for c in sorted(range(len(most)), key=most.__getitem__, reverse=True):
            is_needed = True
            for k in kept:
                if most[k] <= best[c]:
                    break
                if gains := table[c][k]:
                    low, high = sorted(self.rises(gains, others, room))
                    best[c] = max(best[c], most[k] - low)
                    is_needed = is_needed and most[k] - high < most[c]
            if is_needed:
                kept.append(c)
        spend(10 * len(best) * len(kept), "its potentials")
        return best

    def covers(self, one: Any, other: Any) -> bool:
        """Whether one label says no more than another."""
        if one.ends > other.ends or one.time > other.time or not all(map(le, one.worth, other.worth)):
            return False
        ready = [(one.ready[i], other.ready[i], i) for i in self.left(one)]
        return all(its <= others or (its < one.time and i not in self.waited) for its, others, i in ready)


def apart(one: Any, other: Any) -> Gains:
    """What a token gains by one potential over another: on the device; on the host; on the device over the host."""
    rows = [(a - c, b - d, i) for i, ((a, b), (c, d)) in enumerate(zip(one, other, strict=True))]
    there = [(dq, i) for _, dq, i in rows if dq > 0]
    device = [(dp, i) for dp, _, i in rows if dp > 0]
    moved = [(dp - max(0, dq), i) for dp, dq, i in rows if dp > max(0, dq)]
    return sorted(device, reverse=True), sorted(there, reverse=True), sorted(moved, reverse=True)


def greedy(gains: list[tuple[int, int]], limits: tuple[int, ...], room: Any) -> int:
    """The most that tokens gain in a room, of each request up to its limit."""
    total = 0
    for gain, i in gains:
        if limits[i] >= room:
            return total + gain * room if room else total
        room -= limits[i]
        total += gain * limits[i]
    return total
