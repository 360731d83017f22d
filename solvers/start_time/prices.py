"""Integer prices of limits and cliques: the bound that they prove, and the starts that they exclude."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from solvers.start_time.problem import Array, Problem

SCALE = 256
"""Prices are whole multiples of 1 / SCALE."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Columns:
    """The starts from which a request ends by tick `ticks`: column j is a start of kind `kind[j]` at tick `start[j]`;
    sorted by kind, then by tick.
    """

    problem: Problem
    ticks: int

    @cached_property
    def first(self) -> Array:
        """The first column of each kind, and the number of all columns, [kinds + 1]."""
        sizes = [max(0, self.ticks - kind.length + 1) for kind in self.problem.kinds]
        return np.cumsum([0, *sizes])

    def __len__(self) -> int:
        return int(self.first[-1])

    @cached_property
    def kind(self) -> Array:
        return np.repeat(np.arange(len(self.problem.kinds)), np.diff(self.first))

    @cached_property
    def start(self) -> Array:
        return np.arange(len(self)) - self.first[self.kind]

    @cached_property
    def length(self) -> Array:
        """Ticks that each runs for."""
        return np.array([kind.length for kind in self.problem.kinds])[self.kind]

    @cached_property
    def cost(self) -> Array:
        """What each adds to the objective."""
        rate = np.array([kind.rate for kind in self.problem.kinds])[self.kind]
        span = np.array([kind.span for kind in self.problem.kinds])[self.kind]
        return rate * (self.start + span)

    def conflicts(self, j: int, others: Array) -> Mask:
        """Whether no schedule has both column j and another: both start the only request of a kind, or they overlap
        and exceed the memory when the first of them ends. For j itself: whether it cannot be taken twice.
        """
        end = np.minimum(self.start[j] + self.length[j], (self.start + self.length)[others]) - 1
        overlap = end >= np.maximum(self.start[j], self.start[others])
        load = self._load(np.full(len(others), j), end) + self._load(others, end)
        kind = self.kind[j]
        only = (self.kind[others] == kind) & (self.problem.kinds[kind].count == 1)
        return only | (overlap & (load > self.problem.memory))

    def _load(self, columns: Array, tick: Array) -> Array:
        """Blocks that these columns occupy at these ticks, at most their last load."""
        table = self.problem.loads
        batch = np.clip(tick - self.start[columns], 0, table.shape[1] - 1)
        return table[self.kind[columns], batch]


@dataclass(frozen=True)
class Prices:
    """Multipliers, in units of 1 / SCALE: of the rows "each kind starts `count` times" (any sign), of the limits of
    each tick, and of cliques (sets of columns of which at most one is taken), both non-negative.
    """

    assign: Array
    limits: list[Array]
    cliques: list[tuple[Array, int]]

    def reduced(self, columns: Columns) -> Array:
        """Return the cost of each column, less its assignment price, plus what it takes at its prices."""
        reduced = SCALE * columns.cost - self.assign[columns.kind]
        for price, (_, uses) in zip(self.limits, columns.problem.limits, strict=True):
            for k, use in enumerate(uses):
                part = slice(columns.first[k], columns.first[k + 1])
                if columns.first[k] < columns.first[k + 1]:
                    reduced[part] += np.correlate(price, use, "valid")
        for members, price in self.cliques:
            reduced[members] += price
        return reduced

    def bound(self, columns: Columns, alive: Mask) -> tuple[int, Array]:
        """Return a lower bound, scaled, on the cost of schedules that use columns alive only, and what each column
        adds to it when it is taken.

        For any schedule x, cost(x) >= cost(x) + sum of assign (count - starts) + sum of price (use - limit), and this
        is a constant plus the sum of the reduced costs of what it takes.
        """
        counts = columns.problem.counts
        reduced = np.where(alive, self.reduced(columns), np.iinfo(np.int64).max // 4)
        least = np.minimum.reduceat(reduced, columns.first[:-1])
        given = sum(int(price.sum()) * limit for price, (limit, _) in zip(self.limits, columns.problem.limits,
                                                                         strict=True))  # fmt: skip
        given += sum(price for _, price in self.cliques)
        bound = int(self.assign @ counts) + int(least @ counts) - given
        return bound, reduced - least[columns.kind]
