"""Destroy and repair: take a few requests out of a schedule and put each back on its best way beside the others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import numpy as np

from solvers.lagrange.kernels import Array, cheapest_way
from solvers.lagrange.network import Class
from solvers.lagrange.packing import Packing
from solvers.lagrange.prices import Market
from solvers.lagrange.scope import BARRED

HEAT, MOST_LOSS = 2.0, 8
"""How many ticks of loss are accepted at the start of a cycle, by and large in one move; and in all."""
FIRST_CYCLE, LAST_CYCLE = 500, 16_000
"""Moves in a cycle."""
SHARES = (0.0, 0.0, 0.1, 0.3, 1.0)
"""By how much of the prices a repair is guided."""


class Repair:
    """A schedule as one way for each request, and moves that keep it feasible.

    `value` is the objective of the present ways, `best` that of `best_ways`.
    """

    def __init__(self, market: Market, prices: Array, seed: int) -> None:
        self.market, self.prices = market, prices
        self.packing = Packing(market.network, market.slots)
        self.owner: list[Class] = [c for c in market.network.classes for _ in c.requests]
        self.ways: list[Array] = []
        self.value = self.best = 0
        self.best_ways: list[Array] = []
        self.draw = random.Random(seed)

    # --- ways ----------------------------------------------------------------------------------------------------

    def best_way(self, c: Class, share: float) -> Array | None:
        """Return the cheapest way beside the others, paying a share of the prices; None if there is none."""
        market = self.market
        cost = np.where(self.packing.allows(c), 0, BARRED)
        if share:
            cost = cost + (share * market.costs(c, self.prices)[0]).astype(np.int64)
        bill = market.bill(c, cost)
        ahead = market.ahead(c, bill, BARRED)
        if ahead[c.zero, 0] >= BARRED:
            return None
        return cheapest_way(ahead, market.slots, *c.graph(needed=False), bill)

    @staticmethod
    def cost(c: Class, way: Array) -> int:
        """Return what a way adds to the objective."""
        return c.rate * (int(way[-1, 0]) + 1 - c.zero)

    def construct(self, order: Sequence[int], share: float) -> bool:
        """Start anew: each request in `order` on its best way beside those before; False if one has none."""
        self.packing = Packing(self.market.network, self.market.slots)
        ways: dict[int, Array] = {}
        for i in order:
            way = self.best_way(self.owner[i], share)
            if way is None:
                return False
            self.packing.add(self.owner[i], way)
            ways[i] = way
        self.ways = [ways[i] for i in range(len(self.owner))]
        self.value = sum(self.cost(c, way) for c, way in zip(self.owner, self.ways, strict=True))
        if not self.best_ways or self.value < self.best:
            self.best, self.best_ways = self.value, list(self.ways)
        return True

    def adopt(self, ways: list[Array], value: int) -> None:
        """Go on from given ways, which fit together."""
        self.packing = Packing(self.market.network, self.market.slots)
        for c, way in zip(self.owner, ways, strict=True):
            self.packing.add(c, way)
        self.ways, self.value = list(ways), value
        if not self.best_ways or value < self.best:
            self.best, self.best_ways = value, list(ways)

    # --- moves ---------------------------------------------------------------------------------------------------

    def run(self, go_on: Callable[[int], bool]) -> None:
        """Repair until `go_on(best)` says no, in longer and longer cycles in which less and less loss is accepted."""
        rounds, length = 0, FIRST_CYCLE
        while go_on(self.best):
            rounds += 1
            self.move(max(0.02, HEAT * (1 - rounds / length)))
            if self.value > self.best + MOST_LOSS:
                self._return_to_best()
            if rounds == length:
                rounds, length = 0, min(2 * length, LAST_CYCLE)

    def _return_to_best(self) -> None:
        for i, way in enumerate(self.best_ways):
            if way is not self.ways[i]:
                self.packing.add(self.owner[i], self.ways[i], -1)
                self.packing.add(self.owner[i], way)
        self.ways, self.value = list(self.best_ways), self.best

    def move(self, heat: float) -> None:
        """Take a few requests out and put them back; keep it unless it is worse by more than chance allows."""
        group, share = self._group(), self.draw.choice(SHARES)
        before = sum(self.cost(self.owner[i], self.ways[i]) for i in group)
        new: dict[int, Array] = {}
        for i in group:
            self.packing.add(self.owner[i], self.ways[i], -1)
        for i in group:
            way = self.best_way(self.owner[i], share)
            if way is None:
                break
            new[i] = way
            self.packing.add(self.owner[i], way)
        after = sum(self.cost(self.owner[i], way) for i, way in new.items())
        allowed = before - heat * math.log(self.draw.uniform(1e-9, 1))
        if len(new) < len(group) or after > allowed:
            for i, way in new.items():
                self.packing.add(self.owner[i], way, -1)
            for i in group:
                self.packing.add(self.owner[i], self.ways[i])
            return
        for i, way in new.items():
            self.ways[i] = way
        self.value += after - before
        if self.value < self.best:
            self.best, self.best_ways = self.value, list(self.ways)

    def _group(self) -> list[int]:
        """Draw one request, rather a delayed one, and up to five that are there at the same time."""
        n = len(self.owner)
        delays = [1 + self.cost(c, way) - self._least(c) for c, way in zip(self.owner, self.ways, strict=True)]
        first = self.draw.choices(range(n), delays)[0]
        size = min(n, self.draw.choice((1, 2, 2, 3, 3, 4, 5, 6)))
        near = [i for i in range(n) if i != first and self._overlap(i, first)]
        group = [first, *self.draw.sample(near, min(size - 1, len(near)))]
        self.draw.shuffle(group)
        return group

    def _least(self, c: Class) -> int:
        return c.rate * int(c.rest[0])

    def _overlap(self, i: int, j: int) -> bool:
        """Whether two requests are there at the same time."""
        a, b = self.owner[i].zero, self.owner[j].zero
        return a <= int(self.ways[j][-1, 0]) and b <= int(self.ways[i][-1, 0])
