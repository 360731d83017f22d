"""Column generation: prices from the linear program, paths from the prices, until no path is cheaper."""

from __future__ import annotations

import time

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array, hstack, vstack

from bounds.prices import Floats, Oracle, PricePoint, RequestPath

STAY = 0.6
"""How near to the best prices known new ones are tried (Wentges): 0 would be the program's own, which leap."""
CLOSE = 1e-4
"""The bound and the program's value are called equal when they differ by less than this fraction."""
LEAST = 0.1
"""Seconds that the program has, at the least."""


class Master:
    """The linear program that mixes known paths within the limits; its duals are the next prices.

    Each kind of request takes as many paths as it has requests; rows are limits of pieces that were ever exceeded.
    A request that takes no path begins after the last slot and pays for it (`late`).
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.counts = np.array([kind.count for kind in oracle.pricing.kinds], float)
        self.late = np.array([kind.rate * (oracle.slots + kind.least - kind.arrival) for kind in oracle.pricing.kinds])
        self.paths: list[RequestPath] = []
        self.columns: list[csc_array] = []
        self.active = np.zeros(oracle.room.shape, bool)

    def add(self, paths: list[RequestPath]) -> None:
        """Take in paths, one of each kind."""
        together = sum(count * path.use for count, path in zip(self.counts, paths, strict=True))
        self.active |= together > self.oracle.room
        self.paths += paths
        self.columns += [csc_array(path.use.reshape(-1, 1)) for path in paths]

    def solve(self, seconds: float) -> tuple[float, Floats] | None:
        """Return the cost of the best mixture and the prices of the pieces [rows, pieces].

        None if the solver fails, or takes longer.
        """
        active = np.flatnonzero(self.active)
        use = hstack(self.columns, format="csr")[active]
        kinds = np.array([path.kind for path in self.paths])
        n, paths = len(self.counts), len(self.paths)
        which = csc_array((np.ones(paths), (kinds, np.arange(paths))), shape=(n, paths))
        rows = vstack([use, -which], format="csc")
        limits = np.concatenate([self.oracle.room.ravel()[active], -self.counts])
        slack = csc_array((-np.ones(n), (len(active) + np.arange(n), np.arange(n))), shape=(len(limits), n))
        cost = np.concatenate([[path.cost for path in self.paths], self.late])
        answer = linprog(
            cost,
            A_ub=hstack([rows, slack], format="csc"),
            b_ub=limits,
            method="highs-ds",
            options={"time_limit": seconds},
        )
        if answer.status != 0:
            return None
        prices = np.zeros(self.active.size)
        prices[active] = np.maximum(0, -answer.ineqlin.marginals[: len(active)])
        return float(answer.fun), prices.reshape(self.active.shape)


def generate(oracle: Oracle, begin: list[PricePoint], deadline: float, rounds: int = 200) -> None:
    """Look for the best prices until the deadline, starting from those of `begin`; the oracle keeps them."""
    master = Master(oracle)
    for point in begin:
        master.add(point.paths)
    best = max(begin, key=lambda point: point.bound)
    for _ in range(rounds):
        solved = master.solve(max(LEAST, deadline - time.monotonic()))
        if solved is None:
            break
        value, prices = solved
        if value - best.bound < CLOSE * abs(value) or time.monotonic() > deadline:
            break
        stay = STAY
        while True:
            point = oracle.evaluate(stay * best.prices + (1 - stay) * prices)
            master.add(point.paths)
            if point.bound > best.bound or stay == 0 or time.monotonic() > deadline:
                break
            stay = 0 if stay < 0.3 else stay - 0.3
        best = max(best, point, key=lambda p: p.bound)
