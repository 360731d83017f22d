"""Column generation: prices from the linear program, paths from the prices, until no path is cheaper."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from bounds.prices import Floats, Ints, Oracle, PricePoint, RequestPath

STAY = 0.6
"""How near to the best prices known new ones are tried (Wentges): 0 would be the program's own, which leap."""
CLOSE = 1e-4
"""The bound and the program's value are called equal when they differ by less than this fraction."""
LEAST = 0.1
"""Seconds that the program has, at the least."""


class Master:
    """The linear program that mixes known paths within the limits; its duals are the next prices.

    Each kind of request takes as many paths as it has requests; rows are limits of pieces that were ever exceeded.
    A request that takes no path begins after the last slot and pays for it (`late`). `shares` are those of the paths.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.counts = np.array([kind.count for kind in oracle.pricing.kinds], float)
        self.late = np.array([kind.rate * (oracle.slots + kind.least - kind.arrival) for kind in oracle.pricing.kinds])
        self.paths: list[RequestPath] = []
        self.columns: list[tuple[Ints, Floats]] = []
        self.active = np.zeros(oracle.room.shape, bool)
        self.shares = np.zeros(0)

    def add(self, paths: list[RequestPath]) -> None:
        """Take in paths, one of each kind."""
        together = sum(count * path.use for count, path in zip(self.counts, paths, strict=True))
        self.active |= together > self.oracle.room
        self.paths += paths
        used = [np.flatnonzero(path.use) for path in paths]
        self.columns += [(rows, path.use.ravel()[rows]) for rows, path in zip(used, paths, strict=True)]

    def _joined(self, part: int) -> Floats:
        return np.concatenate([column[part] for column in self.columns])

    def within(self, oracle: Oracle, keep: Callable[[RequestPath], bool], late: Floats) -> Master:
        """Return a copy with some of the paths."""
        copy = Master(oracle)
        copy.active, copy.late = self.active.copy(), late
        both = [each for each in zip(self.paths, self.columns, strict=True) if keep(each[0])]
        copy.paths, copy.columns = [path for path, _ in both], [column for _, column in both]
        return copy

    def solve(self, seconds: float) -> tuple[float, Floats] | None:
        """Return the cost of the best mixture and the prices of the pieces [rows, pieces].

        None if the solver fails, or takes longer.
        """
        active, n, m = np.flatnonzero(self.active), len(self.counts), len(self.paths)
        place = np.full(self.active.size, -1)
        place[active] = np.arange(len(active))
        path, rows = np.repeat(np.arange(m), [len(used) for used, _ in self.columns]), self._joined(0)
        kept = place[rows] >= 0
        kinds = np.concatenate([[path.kind for path in self.paths], np.arange(n)])  # the last are late
        place = np.concatenate([place[rows[kept]], len(active) + kinds])
        entries = np.concatenate([self._joined(1)[kept], np.full(m + n, -1.0)])
        columns = np.concatenate([path[kept], np.arange(m + n)])
        limits = np.concatenate([self.oracle.room.ravel()[active], -self.counts])
        answer = linprog(
            np.concatenate([[path.cost for path in self.paths], self.late]),
            A_ub=csc_array((entries, (place, columns)), shape=(len(limits), m + n)),
            b_ub=limits,
            method="highs-ds",
            options={"time_limit": seconds},
        )
        if answer.status != 0:
            return None
        self.shares = answer.x[:m]
        prices = np.zeros(self.active.size)
        prices[active] = np.maximum(0, -answer.ineqlin.marginals[: len(active)])
        return float(answer.fun), prices.reshape(self.active.shape)


def generate(oracle: Oracle, begin: list[PricePoint], deadline: float, rounds: int = 200) -> None:
    """Look for the best prices until the deadline, starting from those of `begin`; the oracle keeps them."""
    master = Master(oracle)
    for point in begin:
        master.add(point.paths)
    best = max(begin, key=lambda point: point.bound)
    improve(oracle, master, best, deadline, rounds, lambda value, bound: value - bound < CLOSE * abs(value))


def improve(
    oracle: Oracle,
    master: Master,
    best: PricePoint,
    deadline: float,
    rounds: int,
    enough: Callable[[float, float], bool],
) -> PricePoint:
    """Return better prices than the best: the master's, as long as its value and the bound are not near `enough`."""
    for _ in range(rounds):
        solved = master.solve(max(LEAST, deadline - time.monotonic()))
        if solved is None:
            break
        value, prices = solved
        if enough(value, best.bound) or time.monotonic() > deadline:
            break
        stay = STAY
        while True:
            point = oracle.evaluate(stay * best.prices + (1 - stay) * prices)
            master.add(point.paths)
            if point.bound > best.bound or stay == 0 or time.monotonic() > deadline:
                break
            stay = 0 if stay < 0.3 else stay - 0.3
        best = max(best, point, key=lambda p: p.bound)
    return best
