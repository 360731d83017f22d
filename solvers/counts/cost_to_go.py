"""What the rest costs at least, by the batches to go and what is resident, when the pools buy and sell at prices.

Fix a price p for each pool and a number of batches J. A pull receives the price of its pool, a drop pays it, and a pool
may go below zero. Then only the device remains: the vector v of the numbers of requests in each slot. Let H(r, v) be
the least cost, with prices and without `busy`, from v to the empty vector in exactly r batches. From a state with
vector v and w requests in each pool, every way to the end in r batches costs, without `busy`, at least H(r, v) + sum of
p w: all pools are empty at the end, so the way receives the sum of p w, and it is one of the ways over which H is the
minimum.

At the start the bound is sum of p w + H(J, empty) + busy J, concave in p (`pool_prices.py` raises it). Every token
takes the blocks of its context in one batch, so J >= (sum of these blocks) / floor(M / b); and J batches cost at least
busy J + a, with a the cost of all requests pulled once and never dropped. Every J between is bounded. If a pass
(`layers.py`) leaves no state below a cutoff, J batches cost more; one that keeps only `width` states proves the least
value that it cut.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from solvers.counts.model import Operation
from solvers.counts.vectors import Array, Vectors, VectorStep

NEVER, LEAST = 2**58, -(2**60)


class CostToGo:
    """The cheapest paths that empty the device in r batches, r = 0, 1, .., when pools trade at `prices`.

    A pull costs its work less the price of its pool, a drop the price of its pool. The batches' own cost is left out.
    `check` is called before each batch. Any prices are valid: those that could take a sum beyond 62 bits are cut, so
    that all steps of a batch, and all requests, pay at most 2^57 in prices.
    """

    def __init__(self, vectors: Vectors, prices: Array, check: Callable[[], None] = lambda: None) -> None:
        self.vectors = vectors
        model = vectors.model
        lanes = model.memory // min(model.sizes)
        self.most = 2**57 // (3 * lanes + sum(model.start))
        self.prices: Array = np.clip(prices, -self.most, self.most)
        self.check = check
        self.costs = [_cost(step, self.prices) for step in model.steps]
        end = np.full(len(vectors), NEVER, np.int64)
        end[0] = 0
        self.ends = [end]
        """For each r, the cost of every vector between batches; `_taken` has which steps the cheapest paths take."""
        self._taken: list[list[npt.NDArray[np.uint8]]] = [[]]

    def extend(self, batches: int) -> None:
        """Go on to that many batches to go; MemoryError where 64 bits do not hold their costs."""
        while len(self.ends) <= batches:
            self.check()
            stages = self.stages(len(self.ends))
            self._taken.append([np.packbits(a < b) for a, b in pairwise(stages)])
            self.ends.append(stages[0])
            if stages[0].min() < LEAST:
                raise MemoryError("prices of so many batches exceed 62 bits")

    def stages(self, to_go: int) -> list[Array]:
        """Return the cost of every vector before each step of a batch, and after the last, with `to_go` to go."""
        value = self.ends[to_go - 1][self.vectors.cleared]
        stages = [value]
        for cost, line in zip(reversed(self.costs), reversed(self.vectors.lines), strict=True):
            value = _scanned(value, cost, line)
            stages.append(value)
        return stages[::-1]

    def at_start(self, batches: int) -> int:
        """Return the bound for exactly that many batches, without their own cost."""
        self.extend(batches)
        return int(self.ends[batches][0] + np.array(self.vectors.model.start, np.int64) @ self.prices)

    def imbalance(self, batches: int) -> Array:
        """Return what the cheapest path leaves in each pool: the bound's slope in the prices."""
        pools = np.array(self.vectors.model.start, np.int64)
        vector = 0
        for to_go in range(batches, 0, -1):
            taken = self._taken[to_go]
            for step, line, bits in zip(self.vectors.model.steps, self.vectors.lines, taken, strict=True):
                while bits[vector >> 3] >> (7 - (vector & 7)) & 1:
                    vector = int(line.following[vector])
                    if step.into >= 0:
                        pools[step.into] += 1
                    if step.out_of >= 0:
                        pools[step.out_of] -= 1
            vector = int(self.vectors.cleared[vector])
        return pools


def _cost(step: Operation, prices: Array) -> int:
    price = 0
    if step.into >= 0:
        price += int(prices[step.into])
    if step.out_of >= 0:
        price -= int(prices[step.out_of])
    return step.cost + price


def _scanned(value: Array, cost: int, line: VectorStep) -> Array:
    """Return the least over all numbers of times that a step is taken."""
    value = value.copy()
    for level, following in line.levels:
        value[level] = np.minimum(value[level], value[following] + cost)
    return value
