"""Integer prices of limits and cliques: the bound that they prove, and the starts that they exclude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solvers.start_time.problem import Array, RigidProblem

SCALE = 256
"""Prices are whole multiples of 1 / SCALE."""

DEAREST = 1 << 42
"""What a column pays at most at the prices of a kind, of all limits, and of all cliques: a sum over all requests, at
most 2^14, stays below 2^62."""

NEVER = 1 << 48
"""The reduced cost of a column that is excluded: more than any other, and small enough to be added up."""

Mask = npt.NDArray[np.bool_]


class StartColumns:
    """The starts from which a request ends by tick `ticks`, sorted by kind, then by tick.

    Column j is a start of kind `kind[j]` at tick `start[j]`; it runs for `length[j]` ticks, has ended at `end[j]`, and
    adds `cost[j]` to the objective. It is `possible` if no sooner than its release; no schedule takes it twice if
    `once`. Those of kind k are first[k] to first[k + 1] - 1.
    """

    def __init__(self, problem: RigidProblem, ticks: int) -> None:
        self.problem, self.ticks, kinds = problem, ticks, problem.kinds
        self.first = np.cumsum([0, *(max(0, ticks - kind.length + 1) for kind in kinds)])
        self.kind: Array = np.repeat(np.arange(len(kinds)), np.diff(self.first))
        self.start: Array = np.arange(len(self)) - self.first[self.kind]
        length, rate, at_zero, release = np.array([(k.length, k.rate, k.cost(0), k.release) for k in kinds]).T
        self.length: Array = length[self.kind]
        self.end: Array = self.start + self.length
        self.cost: Array = rate[self.kind] * self.start + at_zero[self.kind]
        self.possible: Mask = self.start >= release[self.kind]
        once = [kind.count == 1 or 2 * kind.load[-1] > problem.memory for kind in kinds]
        self.once: Mask = np.array(once)[self.kind]

    def __len__(self) -> int:
        return int(self.first[-1])

    def conflicts(self, j: int, others: Array) -> Mask:
        """Return which of `others` no schedule has together with column j.

        Both start the only request of a kind, or they overlap and exceed the memory when the first of them ends. For j
        itself: whether it cannot be taken twice.
        """
        kind, start = self.kind[j], self.start[j]
        last = np.minimum(start + self.length[j], self.end[others]) - 1
        overlap = last >= np.maximum(start, self.start[others])
        load = self._load(kind, last - start) + self._load(self.kind[others], last - self.start[others])
        only = (self.kind[others] == kind) & (self.problem.kinds[kind].count == 1)
        clash: Mask = only | (overlap & (load > self.problem.memory))
        return clash

    def _load(self, kind: Array, batch: Array) -> Array:
        """Blocks that requests occupy in these batches (anything before the first and after the last)."""
        table = self.problem.loads
        load: Array = table[kind, np.maximum(np.minimum(batch, table.shape[1] - 1), 0)]
        return load


@dataclass(frozen=True)
class RowPrices:
    """Multipliers, in units of 1 / SCALE.

    `assign` of the rows "each kind starts `count` times", of any sign; `limits` of the limits at each tick, and those
    of `cliques` (columns of which at most one is taken), both non-negative.
    """

    assign: Array
    limits: list[Array]
    cliques: list[tuple[Array, int]]

    @staticmethod
    def rounded(columns: StartColumns, duals: npt.NDArray[np.float64], cliques: list[Array]) -> RowPrices:
        """Return the prices that row duals propose: whole, and none so high that a sum could exceed 64 bits."""
        problem = columns.problem
        kinds, limits, ticks = len(problem.kinds), len(problem.limits), columns.ticks
        y = np.nan_to_num(np.rint(duals * SCALE))
        prices = np.maximum(-y[kinds:], 0)
        of_limits = prices[: limits * ticks].reshape(limits, ticks)
        most = [
            min(DEAREST // (limits * max(int(use.sum()) for use in uses)), (1 << 58) // (limits * ticks * limit))
            for limit, uses in problem.limits
        ]
        fees = np.minimum(prices[limits * ticks :], DEAREST // max(1, len(cliques))).astype(np.int64)
        return RowPrices(
            np.clip(y[:kinds], -DEAREST, DEAREST).astype(np.int64),
            [np.minimum(p, m).astype(np.int64) for p, m in zip(of_limits, most, strict=True)],
            [(members, fee) for members, fee in zip(cliques, fees.tolist(), strict=True) if fee],
        )

    def reduced(self, columns: StartColumns) -> Array:
        """Return the cost of each column, less its assignment price, plus what it takes at its prices."""
        reduced = SCALE * columns.cost - self.assign[columns.kind]
        for price, (_, uses) in zip(self.limits, columns.problem.limits, strict=True):
            for k, use in enumerate(uses):
                part = slice(columns.first[k], columns.first[k + 1])
                if columns.first[k] < columns.first[k + 1]:
                    reduced[part] += np.correlate(price, use, "valid")
        for members, fee in self.cliques:
            reduced[members] += fee
        return reduced

    def bound(self, columns: StartColumns, alive: Mask) -> tuple[int, Array]:
        """Return a lower bound on schedules of columns kept, and what each column adds to it when taken (scaled).

        For any schedule x, cost(x) >= cost(x) + sum of assign (count - starts) + sum of price (use - limit), and this
        is a constant plus the sum of the reduced costs of what it takes.
        """
        counts = columns.problem.counts
        reduced = np.where(alive, self.reduced(columns), NEVER)
        least = np.minimum.reduceat(reduced, columns.first[:-1])
        sizes = [limit for limit, _ in columns.problem.limits]
        given = sum(int(price.sum()) * limit for price, limit in zip(self.limits, sizes, strict=True))
        given += sum(clique[1] for clique in self.cliques)
        bound = int(self.assign @ counts) + int(least @ counts) - given
        return bound, reduced - least[columns.kind]
