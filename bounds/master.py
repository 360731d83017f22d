"""The linear program that mixes known ways within the limits; its duals are the next prices."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array, hstack, vstack

from bounds.prices import Floats, Oracle, Way


class Master:
    """Each kind of request takes as many ways as it has requests; rows are limits of pieces that were ever exceeded.

    Whoever takes no way begins after the last slot and pays for it (`late`).
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.counts = np.array([kind.count for kind in oracle.market.kinds], float)
        self.late = np.array([kind.rate * (oracle.slots + kind.least - kind.arrival) for kind in oracle.market.kinds])
        self.ways: list[Way] = []
        self.columns: list[csc_array] = []
        self.active = np.zeros(oracle.room.shape, bool)

    def add(self, ways: list[Way]) -> None:
        """Take in ways, one of each kind."""
        together = sum(count * way.use for count, way in zip(self.counts, ways, strict=True))
        self.active |= together > self.oracle.room
        self.ways += ways
        self.columns += [csc_array(way.use.reshape(-1, 1)) for way in ways]

    def solve(self) -> tuple[float, Floats] | None:
        """Return the cost of the best mixture and the prices of the pieces [rows, pieces]; None if the solver fails."""
        active = np.flatnonzero(self.active)
        use = hstack(self.columns, format="csr")[active]
        kinds = np.array([way.kind for way in self.ways])
        n, ways = len(self.counts), len(self.ways)
        which = csc_array((np.ones(ways), (kinds, np.arange(ways))), shape=(n, ways))
        rows = vstack([use, -which], format="csc")
        limits = np.concatenate([self.oracle.room.ravel()[active], -self.counts])
        slack = csc_array((-np.ones(n), (len(active) + np.arange(n), np.arange(n))), shape=(len(limits), n))
        cost = np.concatenate([[way.cost for way in self.ways], self.late])
        answer = linprog(cost, A_ub=hstack([rows, slack], format="csc"), b_ub=limits, method="highs-ds")
        if answer.status != 0:
            return None
        prices = np.zeros(self.active.size)
        prices[active] = np.maximum(0, -answer.ineqlin.marginals[: len(active)])
        return float(answer.fun), prices.reshape(self.active.shape)
