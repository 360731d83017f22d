"""What the rest costs at least, by the batches to go and what is resident, when the pools buy and sell at prices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers.counts.model import Step
from solvers.counts.vectors import Array, Line, Vectors

NEVER = 2**58

MOST_KEPT = 2**25
"""Costs within batches that are kept, rather than computed again, by each table."""


class Togo:
    """The cheapest ways to empty the device in r batches, r = 0, 1, .., when pools trade at `prices`.

    A pull costs its work less the price of its pool, a drop the price of its pool. The batches' own cost is left out.
    `check` is called before each batch.
    """

    def __init__(self, vectors: Vectors, prices: Array, check: Callable[[], None] = lambda: None) -> None:
        self.vectors = vectors
        self.prices = prices
        self.check = check
        self.costs = [_cost(step, prices) for step in vectors.model.steps]
        end = np.full(len(vectors), NEVER, np.int64)
        end[0] = 0
        self.ends = [end]
        """For each r, the cost of every vector between batches."""
        self._kept: dict[int, list[Array]] = {}

    def extend(self, batches: int) -> None:
        """Go on to that many batches to go."""
        while len(self.ends) <= batches:
            self.check()
            self.ends.append(self.stages(len(self.ends))[0])

    def stages(self, togo: int) -> list[Array]:
        """Return the cost of every vector before each step of a batch, and after the last, with `togo` to go."""
        if togo in self._kept:
            return self._kept[togo]
        value = self.ends[togo - 1][self.vectors.cleared]
        stages = [value]
        for cost, line in zip(reversed(self.costs), reversed(self.vectors.lines), strict=True):
            value = _scanned(value, cost, line)
            stages.append(value)
        stages.reverse()
        if len(stages) * len(value) * (len(self._kept) + 1) <= MOST_KEPT:
            self._kept[togo] = stages
        return stages

    def forget(self) -> None:
        """Give back the memory of what can be computed again."""
        self._kept = {}

    def at_start(self, batches: int) -> int:
        """Return the bound for exactly that many batches, without their own cost."""
        self.extend(batches)
        return int(self.ends[batches][0] + np.array(self.vectors.model.start, np.int64) @ self.prices)

    def imbalance(self, batches: int) -> Array:
        """Return what the cheapest way leaves in each pool: the bound's slope in the prices."""
        left = np.array(self.vectors.model.start, np.int64)
        vector = 0
        for togo in range(batches, 0, -1):
            stages = self.stages(togo)
            for i, (step, line) in enumerate(zip(self.vectors.model.steps, self.vectors.lines, strict=True)):
                while stages[i][vector] < stages[i + 1][vector]:
                    vector = int(line.following[vector])
                    if step.into >= 0:
                        left[step.into] += 1
                    if step.out_of >= 0:
                        left[step.out_of] -= 1
            vector = int(self.vectors.cleared[vector])
        return left


def _cost(step: Step, prices: Array) -> int:
    price = 0
    if step.into >= 0:
        price += int(prices[step.into])
    if step.out_of >= 0:
        price -= int(prices[step.out_of])
    return step.cost + price


def _scanned(value: Array, cost: int, line: Line) -> Array:
    """Return the least over all numbers of times that a step is taken."""
    value = value.copy()
    for level, following in line.levels:
        value[level] = np.minimum(value[level], value[following] + cost)
    return value
