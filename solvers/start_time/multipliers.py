"""Better and better prices for starting a request, by cutting planes; the network keeps every limit by itself.

Any prices are valid; those that sums in 64 bits could not hold are cut (`dearest`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from bounds.bundle import Bundle, Evaluation, Vector, maximise
from solvers.start_time.network import FAR, ConfigurationNetwork
from solvers.start_time.prices import SCALE, Mask, StartColumns
from solvers.start_time.problem import Array

SIZE = 8.0
"""Ticks by which prices may move at first."""
WORTH = 0.02
"""Climbing ends when no more than this fraction of the gap is promised."""
EVERY = 8
"""Of so many paths, one is tried as a schedule."""


@dataclass(frozen=True)
class PricedNetwork:
    """A network under the prices `assign` of the rows "each kind starts `count` times".

    `cost` is that of each start, `values` the distances, `offset` the sum of the prices, and `bound` the Lagrangian
    bound: the cheapest path plus that sum (scaled).
    """

    assign: Array
    cost: Array
    values: list[Array]
    offset: int
    bound: int


class Multipliers:
    """Prices and their bounds, all in integers."""

    def __init__(self, columns: StartColumns, alive: Mask) -> None:
        self.columns, self.alive = columns, alive
        self.counts = columns.problem.counts

    def cost(self, assign: Array) -> Array:
        """Return the price of each start, [ticks, kinds]; FAR where none is possible."""
        columns = self.columns
        cost = np.full((columns.ticks, len(assign)), FAR)
        some = np.flatnonzero(self.alive)
        kind = columns.kind[some]
        cost[columns.start[some], kind] = SCALE * columns.cost[some] - assign[kind]
        return cost

    def price(self, network: ConfigurationNetwork, assign: Array) -> PricedNetwork:
        """Return the network under these prices, none of them beyond `dearest`."""
        most = self.dearest(network)
        assign = np.clip(assign, -most, most)
        cost, offset = self.cost(assign), int(assign @ self.counts)
        values = network.distances(cost)
        return PricedNetwork(assign, cost, values, offset, int(values[0][network.source]) + offset)

    def dearest(self, network: ConfigurationNetwork) -> int:
        """Return the highest price: all starts of a path, and all requests, pay a quarter of `FAR` at the most.

        So what is paid along a path is above -FAR / 4, and all that costs at most a cutoff lies below `FAR`.
        """
        starts = len(network.layers) * int(network.starts.sum(axis=1).max(initial=1))
        return FAR // 4 // max(starts, int(self.counts.sum()))

    def climb(
        self,
        network: ConfigurationNetwork,
        assign: Array,
        target: int,
        deadline: float,
        on_path: Callable[[list[Array]], None],
    ) -> PricedNetwork:
        """Return the best prices found before the bound exceeds `target`, little is promised, or time is over.

        `on_path` gets the starts of some cheapest paths, of the last one at least if it is a schedule.
        """
        best, turn = self.price(network, assign), count()

        def evaluate(x: Vector) -> Evaluation:
            nonlocal best
            priced = self.price(network, np.rint(x).astype(np.int64))
            best = max(best, priced, key=lambda p: p.bound)
            path = network.path(priced.cost, priced.values)
            started = np.sum(path, axis=0, dtype=float)
            if next(turn) % EVERY == 0 or np.array_equal(started, self.counts):
                on_path(path)
            value = float(priced.bound - priced.offset)
            return Evaluation(priced.assign.astype(float), float(priced.bound), np.array([value]), -started[None, :])

        rates = np.array([float(kind.rate) for kind in self.columns.problem.kinds])
        most = np.full(len(rates), float(self.dearest(network)))
        maximise(
            evaluate, best.assign.astype(float), Bundle(), linear=self.counts.astype(float), low=-most, high=most,
            scale=SCALE * rates, size=SIZE, worth=WORTH * (target - best.bound), enough=target, deadline=deadline,
        )  # fmt: skip
        return best
