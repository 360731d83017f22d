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
    """Kind `potentials`: all orders of batches below the claim; what the file says of the search is not looked at."""
    return best_first(WithPrices(instance, proof, objective), instance, proof.claim)


class WithPrices(Orders):
    """What is the same in all labels: the potentials (y, g, w, p, q), of which the first has no prices."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        super().__init__(instance, Box(proof, fee=0, memory=False, levels=[]), objective)
        n, self.U, self.one = len(self.given), proof.scale, self.b + self.token
        if not proof.moves < len(instance.cost):
            raise Broken(f"the cost has no function {proof.moves}")
        swaps, block = instance.cost[proof.moves], self.machine.block
        out, back = (Fraction(swaps[name] * self.divisor, swaps.divisor) for name in SWAPS[:2])
        self.given_room, self.most = self.room * block, cache(self.most_of)
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
        """The most by which v of one potential is above that of another, with so many tokens of each request."""
        spend(20 * len(limits), "its potentials")
        (_, _, _, p, q), (_, _, _, less_p, less_q) = self.prices[k], self.prices[other]
        rows = [(a - b, c - d, most) for a, b, c, d, most in zip(p, less_p, q, less_q, limits, strict=True) if most]
        device = greedy([(dp, most) for dp, _, most in rows], room)
        host = greedy([(dq, most) for _, dq, most in rows], self.host)
        all_there = sum(max(0, dq) * most for _, dq, most in rows)  # ... on the host, and some of them moved
        return min(device + host, all_there + greedy([(dp - max(0, dq), most) for dp, dq, most in rows], room))

    def context(self, label: Any, i: int) -> int:
        """K: the tokens on the device when the next token comes."""
        return self.contexts[i][label.tokens[i]]

    def limits(self, label: Any, at: Any, those: list[int]) -> tuple[int, ...]:
        """The most tokens of KV of those requests at a time; of others none."""
        limits = [0] * len(self.given)
        for i in those:
            done = label.tokens[i]
            early = self.contexts[i][done - 1] if done else 0
            limits[i] = early if at <= label.ready[i] else self.contexts[i][done] - 1
        return tuple(limits)

    def worth(self, label: Any, k: int, at: int, those: list[int] | None = None) -> Any:
        """Lemma 2: the least a potential is worth from a time on, of all requests or of those."""
        _, g, w, _, _ = self.prices[k]
        those = self.left(label) if those is None else those
        if w is not None and w not in those:
            return -inf
        limits = self.limits(label, at, those)
        return (self.U - g) * at + (g * label.ready[w] if g else 0) - self.most(k, 0, limits, self.given_room)

    def least(self, label: Any) -> int:
        """What no schedule through a label ends below: next tokens in the best order, what follows alone."""
        left, U = self.left(label), self.U
        when, cost = [label.time], [0]  # of each set: when all have their next tokens, and the least sum of these times
        spend((10 + 30 * len(self.prices)) << len(left), "what is left")
        for bits in range(1, 2 ** len(left)):
            Z = [i for k, i in enumerate(left) if bits >> k & 1]
            end = max(when[bits & ~(1 << k)] for k in range(len(left)) if bits >> k & 1)
            start = max(label.time, min(label.ready[i] for i in Z))
            for k, (y, g, w, p, _) in enumerate(self.prices):
                if w is None or w in Z:
                    known = max(label.worth[k], self.worth(label, k, start, Z)) + g * (self.busy + self.one)
                    known += y * self.busy + sum(y * self.one + p[i] * (self.context(label, i) - 1) for i in Z)
                    end = max(end, -(-known // U))
            when.append(end)
            last = (cost[bits & ~(1 << k)] + self.rates[i] * end for k, i in enumerate(left) if bits >> k & 1)
            cost.append(min(last))
        return label.ends + cost[-1] + sum(self.rates[i] * self.rest[i][label.tokens[i]] for i in left)

    def followers(self, label: Any) -> Iterator[Any]:
        """The labels after all batches that may follow; None for one without room."""
        left = self.left(label)
        for bits in range(1, 2 ** len(left)):
            yield self.following(label, left, [i for k, i in enumerate(left) if bits >> k & 1])

    def following(self, label: Any, left: list[int], F: list[int]) -> Any:
        """Lemma 3: the label after a batch that generates tokens of F."""
        block, K = self.machine.block, {i: self.context(label, i) for i in F}
        room = (self.room - sum(blocks(each, block) for each in K.values())) * block
        if room < 0:
            return None
        S = max(label.time, *(label.ready[i] for i in F))
        moments = {S, *(label.ready[i] for i in left if label.time < label.ready[i] < S)}
        time, groups = S, dict[Any, list[tuple[int, int]]]()  # for time alone, and for a request and its weight
        spend(50 * len(self.prices) ** 2, "its potentials")
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
        worth = []
        for c, (_, g, w, p, _) in enumerate(self.prices):
            known = groups.get(None if w is None or w in K else (w, g), ()) if w not in over else ()
            call = g * self.wait[w][label.tokens[w]] if w in K else 0
            held = sum(p[i] * K[i] for i in F if i not in over)
            by_others = (worth + call - held - self.most(c, k, others, room) for k, worth in known)
            worth.append(max(self.worth(after, c, time), *by_others, -inf))
        return after._replace(worth=tuple(worth))

    def covers(self, one: Any, other: Any) -> bool:
        """Whether one label says no more than another with the same tokens."""
        if one.ends > other.ends or one.time > other.time or not all(map(le, one.worth, other.worth)):
            return False
        ready = [(one.ready[i], other.ready[i], i) for i in self.left(one)]
        return all(its <= others or (its < one.time and i not in self.waited) for its, others, i in ready)


def greedy(rows: list[tuple[int, int]], room: Any) -> int:
    """The most that tokens in a room gain, of (gain, tokens)."""
    total = 0
    for gain, tokens in sorted(rows, reverse=True):
        taken = min(tokens, room)
        room -= taken
        total += max(0, gain) * taken
    return total
