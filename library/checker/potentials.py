"""Kind `potentials` (the head of kvcore/certificates/potentials.py)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import inf
from operator import le
from typing import Any, NamedTuple

from library.checker.files import Amount, Box, Broken, spend
from library.checker.fresh import Orders, best_first
from library.checker.instance import SWAPS, blocks


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
        super().__init__(instance, Box(proof, fee=0, memory=False, levels=[]), objective)
        n, self.U, self.one = len(self.given), proof.scale, self.b + self.token
        if not proof.moves < len(instance.cost):
            raise Broken(f"the cost has no function {proof.moves}")
        swaps, block = instance.cost[proof.moves], self.machine.block
        out, back = (Fraction(swaps[name] * self.divisor, swaps.divisor) for name in SWAPS[:2])
        self.given_room, self.most = self.room * block, cache(self.most_of)
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
        self.waited = {w for _, _, w, _, _ in self.prices}

    def first(self) -> Any:
        """The label of the start."""
        ready = tuple(one.arrival * self.divisor for one in self.given)
        start = Known(0, 0, (0,) * len(ready), ready, ())
        return start._replace(worth=tuple(self.worth(start, k, 0) for k in range(len(self.prices))))

    def most_of(self, k: int, other: int, limits: tuple[int, ...], room: Any) -> int:
        """The most by which v of one potential exceeds another's."""
        spend(20 * len(limits), "its potentials")
        (_, _, _, p, q), (_, _, _, less_p, less_q) = self.prices[k], self.prices[other]
        rows = [(a - b, c - d, most) for a, b, c, d, most in zip(p, less_p, q, less_q, limits, strict=True) if most]
        device = greedy([(dp, most) for dp, _, most in rows], room)
        host = greedy([(dq, most) for _, dq, most in rows], self.host)
        all_there = sum(max(0, dq) * most for _, dq, most in rows)  # ... on the host, and some of them moved
        return min(device + host, all_there + greedy([(dp - max(0, dq), most) for dp, dq, most in rows], room))

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

    def worth(self, label: Any, k: int, at: int) -> Any:
        """Lemma 2."""
        _, g, w, _, _ = self.prices[k]
        left = self.left(label)
        if w is not None and w not in left:
            return -inf
        limits = self.limits(label, at, left)
        return (self.U - g) * at + (g * label.ready[w] if g else 0) - self.most(k, 0, limits, self.given_room)

    def least(self, label: Any) -> int:
        """What is left."""
        left, U = self.left(label), self.U
        when, cost = [0] * 2 ** len(left), [0]  # of each set: when all have their next tokens; the smallest sum
        place = {i: 1 << k for k, i in enumerate(left)}
        for i in left:
            when[place[i]] = max(label.time, label.ready[i]) + self.busy + self.one
        spend(30 * len(self.prices) + (30 << len(left)), "what is left")
        for (y, _, w, p, q), worth in zip(self.prices, label.worth, strict=True):
            Z = [i for i in left if p[i] or q[i] or i == w]
            if worth > -inf:
                known = worth + y * self.busy + sum(y * self.one + p[i] * (self.context(label, i) - 1) for i in Z)
                bits = sum(place[i] for i in Z)
                when[bits] = max(when[bits], -(-known // U))
        for bits in range(1, 2 ** len(left)):
            without = [(bits & ~place[i], i) for i in left if bits & place[i]]
            when[bits] = max(when[bits], *(when[less] for less, _ in without))
            cost.append(min(cost[less] + self.rates[i] * when[bits] for less, i in without))
        after = sum(self.rates[i] * self.rest[i][label.tokens[i]] for i in left)
        return label.ends + max(cost[-1] + after, self.crowd(label, left) if left else 0)

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
        time, groups = S, dict[Any, list[tuple[int, int]]]()  # for time alone, and for a request and its weight
        spend(200 * len(self.prices), "its potentials")
        for k, (y, g, w, p, _) in enumerate(self.prices):
            known = max(label.worth[k], *(self.worth(label, k, at) for at in moments))
            if known == -inf:
                continue
            y += g if w in K else 0
            known += y * self.busy + sum(y * self.one + p[i] * (K[i] - 1) for i in F)
            alone = w is None or w in K
            groups.setdefault(None if alone else (w, g), []).append((k, known))
            time = max(time, -(-known // self.U)) if alone else time
        tokens = tuple(done + (i in K) for i, done in enumerate(label.tokens))
        ready = tuple(time + self.wait[i][label.tokens[i]] if i in K else at for i, at in enumerate(label.ready))
        over = {i for i in F if tokens[i] == len(self.fresh[i])}
        after = Known(label.ends + time * sum(self.rates[i] for i in over), time, tokens, ready, ())
        others = tuple(self.context(label, i) - 1 if i in left and i not in K else 0 for i in range(len(tokens)))
        for some in groups.values():
            some.sort(key=lambda each: each[1], reverse=True)
        worth = []
        for c, (_, g, w, p, _) in enumerate(self.prices):
            best = self.worth(after, c, time)
            more = (g * self.wait[w][label.tokens[w]] if w in K else 0) - sum(p[i] * K[i] for i in F if i not in over)
            some = groups.get(None if w is None or w in K else (w, g), []) if w not in over else []
            best = max(best, *(known + more for k, known in some if k == c), -inf)
            for k, known in some:
                if known + more <= best:
                    break
                best = max(best, known + more - self.most(c, k, others, room))
            worth.append(best)
        return after._replace(worth=tuple(worth))

    def covers(self, one: Any, other: Any) -> bool:
        """Whether one label says no more than another."""
        if one.ends > other.ends or one.time > other.time or not all(map(le, one.worth, other.worth)):
            return False
        ready = [(one.ready[i], other.ready[i], i) for i in self.left(one)]
        return all(its <= others or (its < one.time and i not in self.waited) for its, others, i in ready)


def greedy(rows: list[tuple[int, int]], room: Any) -> int:
    """The most that (gain, tokens) give in a room."""
    total = 0
    for gain, tokens in sorted(rows, reverse=True):
        taken = min(tokens, room)
        room -= taken
        total += max(0, gain) * taken
    return total
