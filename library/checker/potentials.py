"""Kind `potentials` (the head of kvcore/certificates/potentials.py)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from math import inf
from operator import add, le, mul, sub
from typing import Any, NamedTuple

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import SWAPS, blocks
from library.checker.order import WhatIsLeft
from library.checker.orders import Orders, best_first

APART, DEVICE, HOST = range(3)  # places of requests
Gains = tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]


class Known(NamedTuple):
    """What is known after a batch; `ends`: those of completed requests, times rates; `worth` of each potential.

    `places` are those of the requests' KV; that of a completed one is apart.
    """

    ends: int
    time: int
    tokens: tuple[int, ...]
    ready: tuple[int, ...]
    worth: tuple[Any, ...]
    places: tuple[int, ...] = ()


def potentials(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `potentials`: all orders of batches below the claim."""
    return best_first(WithPrices(instance, proof, objective), instance, proof.claim)


class Changes(dict[int, Gains | None]):
    """How v changes from one class to others, by number, when asked for; None if they are not of its kind."""

    def __init__(self, one: Any, classes: list[Any], places: tuple[int, ...]) -> None:
        self.one, self.classes, self.places = one, classes, places

    def __missing__(self, k: int) -> Gains | None:
        """What a token gains."""
        spend(100, "its potentials")
        (kind, side), (its_kind, its) = self.one, self.classes[k]
        self[k] = gained(side, its, self.places) if its_kind == kind else None
        return self[k]


class WithPrices(Orders):
    """What is the same in all labels: the potentials (y, g, w, p, q); the first has no prices."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        super().__init__(instance, proof, objective)
        n, self.U, self.one = len(self.given), proof.scale, self.b + self.token
        if not proof.moves < len(instance.cost):
            raise Broken(f"the cost has no function {proof.moves}")
        if proof.places and self.machine.partial:
            raise Broken("with partial, KV of a request need not be in one place")
        swaps, block = instance.cost[proof.moves], self.machine.block
        out, back = (Fraction(swaps[name] * self.divisor, swaps.divisor) for name in SWAPS[:2])
        self.given_room, self.values = self.room * block, lru_cache(2**16)(self.values_of)
        self.sides, self.alike, self.changes = cache(self.sides_of), cache(self.alike_of), cache(self.changes_of)
        self.own, self.lows, self.apart = lru_cache(2**10)(self.own_of), lru_cache(2**12)(self.lows_of), (APART,) * n
        self.has_places = proof.places
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
        self.pairs = [tuple(zip(p, q, strict=True)) for _, _, _, p, q in self.prices]

    def first(self) -> Any:
        """The label of the start."""
        ready = tuple(one.arrival * self.divisor for one in self.given)
        start: Any = Known(0, 0, (0,) * len(ready), ready, (), self.apart)
        return start._replace(worth=tuple(self.worths(start, 0, self.left(start), self.apart)))

    def rises(self, gains: Gains, limits: tuple[int, ...], room: Any, host: Any) -> tuple[int, int]:
        """The most by which v of one potential exceeds another's, or 0, in two ways: both are true."""
        device, there, moved = gains
        if not there:
            return (greedy(device, limits, room),) * 2 if device else (0, 0)
        sides = greedy(there, limits, host) + (greedy(device, limits, room) if device else 0)
        whole = greedy(there, limits, inf)  # all on the host, and some of them moved
        return sides, whole + greedy(moved, limits, room) if moved else whole

    def context(self, label: Any, i: int) -> int:
        """K."""
        return self.contexts[i][label.tokens[i]]

    def kept(self, label: Any, places: tuple[int, ...]) -> tuple[int, ...]:
        """The k of each in its place; 0 where it is apart."""
        if places == self.apart:
            return places
        return tuple(self.contexts[i][label.tokens[i] - 1] if place else 0 for i, place in enumerate(places))

    def lows_of(self, places: tuple[int, ...], kept: tuple[int, ...]) -> list[int]:
        """The sum of low of all in a place, by each potential."""
        spend(30 * len(self.prices), "its potentials")
        those = [(i, place - 1, k) for i, (place, k) in enumerate(zip(places, kept, strict=True)) if place]
        return [sum(pairs[i][side] * k for i, side, k in those) for pairs in self.pairs]

    def own_of(self, places: tuple[int, ...]) -> list[Gains]:
        """What a token gains by each potential over nothing."""
        spend(30 * len(self.prices), "its potentials")
        nothing = ((0, 0),) * len(places)
        return [gained(pairs, nothing, places) for pairs in self.pairs]

    def limits(self, label: Any, at: Any, those: list[int]) -> tuple[int, ...]:
        """The most KV of those requests at a time."""
        limits = [0] * len(self.given)
        for i in those:
            done = label.tokens[i]
            early = self.contexts[i][done - 1] if done and done not in self.discards[i] else 0
            limits[i] = early if at <= label.ready[i] else self.contexts[i][done] - 1
        return tuple(limits)

    def values_of(
        self, limits: tuple[int, ...], left: tuple[int, ...], places: tuple[int, ...], kept: tuple[int, ...]
    ) -> list[Any]:
        """V of each potential; of one whose request is over no worth is known."""
        spend(30 * len(self.prices), "its potentials")
        over = {w for w in self.waited if w is not None and w not in left}
        rooms = self.rooms(places, kept, self.given_room)
        limits = (*map(sub, limits, kept),)
        each = zip(self.prices, self.own(places), self.lows(places, kept), strict=True)
        return [
            inf if w in over else low + min(self.rises(gains, limits, *rooms)) for (_, _, w, _, _), gains, low in each
        ]

    def rooms(self, places: tuple[int, ...], kept: tuple[int, ...], room: Any) -> Any:
        """The tokens that a room and the host have left beside those in a place; None where these do not fit."""
        if places == self.apart:
            return None if room < 0 else (room, self.host)
        here, there = ([k for k, at in zip(kept, places, strict=True) if at == side] for side in (DEVICE, HOST))
        if sum(blocks(k, self.machine.block) for k in here) * self.machine.block > room or sum(there) > self.host:
            return None
        return room - sum(here), self.host - sum(there)

    def worths(self, label: Any, at: int, left: list[int], places: tuple[int, ...]) -> list[Any]:
        """Lemma 2, of all potentials, with requests in these places."""
        values = self.values(self.limits(label, at, left), tuple(left), places, self.kept(label, places))
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

    def alike_of(self, left: tuple[int, ...], F: tuple[int, ...]) -> tuple[list[Any], list[Any], list[int]]:
        """For a batch: y' of each potential, p of F, and its class or None; the classes; those of no w.

        Lemma 3 asks only for w and g, or neither, and the prices of others: of those alike in these the best counts.
        """
        classes, rows = dict[Any, int](), list[Any]()
        others = set(left) - set(F)
        for y, g, w, p, q in self.prices:
            kind = (w, g) if w is not None and w not in F else None
            side = tuple((p[i], q[i]) if i in others else (0, 0) for i in range(len(p)))
            one = classes.setdefault((kind, side), len(classes)) if w is None or w in left else None
            rows.append((y + (g if w in F else 0), tuple(p[i] for i in F), one))
        return rows, [*classes], [c for (kind, _), c in classes.items() if kind is None]

    def changes_of(self, left: tuple[int, ...], F: tuple[int, ...], places: tuple[int, ...]) -> list[Changes]:
        """Of each class, with others in these places."""
        classes = self.alike(left, F)[1]
        return [Changes(one, classes, places) for one in classes]

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
            F = [i for k, i in enumerate(left) if bits >> k & 1]
            for places in self.choices(label, F):
                yield self.following(label, left, F, places)

    def choices(self, label: Any, F: list[int]) -> Iterator[tuple[int, ...]]:
        """The places in which others may be after a batch."""
        if label.places == self.apart:
            return iter([self.apart])
        all_of = (APART, DEVICE, HOST)
        return product(*(all_of if place and i not in F else (APART,) for i, place in enumerate(label.places)))

    def following(self, label: Any, left: list[int], F: list[int], places: tuple[int, ...]) -> Any:
        """Lemma 3, where others are in these places after it."""
        block, K, kept = self.machine.block, {i: self.context(label, i) for i in F}, self.kept(label, places)
        room = (self.room - sum(blocks(each, block) for each in K.values())) * block
        rooms = self.rooms(places, kept, room)
        if rooms is None:
            return None
        S = max(label.time, *(label.ready[i] for i in F))
        moments = {S, *(label.ready[i] for i in left if label.time < label.ready[i] < S)}
        spend(20 * len(self.prices), "its potentials")
        before = [*label.worth]
        if label.places != places:  # what becomes apart; of F nothing does
            lost = tuple(
                was if i not in K and not now else APART
                for i, (was, now) in enumerate(zip(label.places, places, strict=True))
            )
            before = [*map(add, before, self.lows(lost, self.kept(label, lost)))]
        for at in moments:
            before = [*map(max, before, self.worths(label, at, left, self.apart))]
        rows, classes, alone = self.alike(tuple(left), tuple(F))
        less, whole = [K[i] - 1 for i in F], self.busy + self.one * len(F)
        low = self.lows(places, kept)
        each = zip(before, low, rows, strict=True)
        known = [worth + sure + y * whole + sum(map(mul, p, less)) for worth, sure, (y, p, _) in each]
        most = [-inf] * len(classes)  # with the batch and what v counts of those in a place, of all that are alike
        for worth, (_, _, one) in zip(known, rows, strict=True):
            if one is not None and worth > most[one]:
                most[one] = worth
        time = max(S, *(-(-most[one] // self.U) for one in alone))
        tokens = tuple(done + (i in K) for i, done in enumerate(label.tokens))
        ready = tuple(time + self.wait[i][label.tokens[i]] if i in K else at for i, at in enumerate(label.ready))
        over = {i for i in F if tokens[i] == len(self.fresh[i])}
        after = Known(label.ends + time * sum(self.rates[i] for i in over), time, tokens, ready, (), self.apart)
        stay = {i for i in F if i not in over and tokens[i] not in self.discards[i]}
        if self.has_places:
            after = after._replace(places=tuple(DEVICE if i in stay else at for i, at in enumerate(places)))
        others = tuple(
            self.context(label, i) - 1 - kept[i] if i in left and i not in K else 0 for i in range(len(tokens))
        )
        best = self.changed(most, self.changes(tuple(left), tuple(F), places), others, *rooms)
        last, gone = [i for i in left if i not in over], [K[i] if i in stay else 0 for i in F]
        worth = self.worths(after, time, last, after.places)
        for c, (_, p, one) in enumerate(rows):
            if one is not None and worth[c] > -inf:
                _, g, w, _, _ = self.prices[c]
                more = g * self.wait[w][label.tokens[w]] if w in K else 0
                worth[c] = max(worth[c], best[one] - low[c] + more - sum(map(mul, p, gone)))
        return after._replace(worth=tuple(worth))

    def changed(
        self, most: list[Any], changes: list[Changes], others: tuple[int, ...], room: Any, host: Any
    ) -> list[Any]:
        """What each class is worth as itself or another of its kind, less what v rises.

        What v rises by way of d is no less than at once: from d that k is as good as, either way, nothing is tried.
        """
        best, kept = [*most], list[int]()
        for c in sorted(range(len(most)), key=most.__getitem__, reverse=True):
            is_needed, of_c = True, changes[c]
            for k in kept:
                if most[k] <= best[c]:
                    break
                if gains := of_c[k]:
                    low, high = sorted(self.rises(gains, others, room, host))
                    best[c] = max(best[c], most[k] - low)
                    is_needed = is_needed and most[k] - high < most[c]
            if is_needed:
                kept.append(c)
        spend(10 * len(best) * len(kept), "its potentials")
        return best

    def covers(self, one: Any, other: Any) -> bool:
        """Whether one label says no more than another, which may have lost what one has in a place."""
        if one.ends > other.ends or one.time > other.time or not all(map(le, one.worth, other.worth)):
            return False
        ready = [(one.ready[i], other.ready[i], i) for i in self.left(one)]
        if not all(its <= others or (its < one.time and i not in self.waited) for its, others, i in ready):
            return False
        if one.places == other.places:
            return True
        those = [
            (k, i, a - 1, b - 1)
            for i, (k, a, b) in enumerate(zip(self.kept(one, one.places), one.places, other.places, strict=True))
            if a and a != b
        ]
        spend(30 * len(self.prices), "its potentials")
        return all(
            its + sum(k * max(0, pairs[i][a] - (pairs[i][b] if b >= 0 else 0)) for k, i, a, b in those) <= others
            for its, others, pairs in zip(one.worth, other.worth, self.pairs, strict=True)
        )


def gained(one: Any, other: Any, places: tuple[int, ...]) -> Gains:
    """What a token beyond k gains by one potential over another: on the device; on the host; on the device over it.

    Those on the host gain nothing on the device, and the other way round.
    """
    rows = [
        ((a - c) * (place != HOST), (b - d) * (place != DEVICE), i)
        for i, ((a, b), (c, d), place) in enumerate(zip(one, other, places, strict=True))
    ]
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
