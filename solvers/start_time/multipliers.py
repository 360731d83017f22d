"""Better and better prices for starting a request, by subgradients; the network keeps every limit by itself.

Any prices are valid; those that sums in 64 bits could not hold are cut (`dearest`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.start_time.network import FAR, Network
from solvers.start_time.prices import SCALE, Columns, Mask
from solvers.start_time.problem import Array

ROUNDS = 400
PATIENCE, SHRINK, SMALLEST = 6, 0.6, 0.02
"""Rounds without a better bound before the step shrinks, by how much, and where it is too small to go on."""
STALL, WORTH = 30, 0.1
"""Climbing ends when so many rounds have closed less than this fraction of the gap."""
EVERY = 8
"""Of so many paths, one is tried as a schedule."""


@dataclass(frozen=True)
class Priced:
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

    def __init__(self, columns: Columns, alive: Mask) -> None:
        self.columns, self.alive = columns, alive
        self.counts = columns.problem.counts
        self.step = 1.0

    def cost(self, assign: Array) -> Array:
        """Return the price of each start, [ticks, kinds]; FAR where none is possible."""
        columns = self.columns
        cost = np.full((columns.ticks, len(assign)), FAR)
        some = np.flatnonzero(self.alive)
        kind = columns.kind[some]
        cost[columns.start[some], kind] = SCALE * columns.cost[some] - assign[kind]
        return cost

    def price(self, network: Network, assign: Array) -> Priced:
        """Return the network under these prices, none of them beyond `dearest`."""
        most = self.dearest(network)
        assign = np.clip(assign, -most, most)
        cost, offset = self.cost(assign), int(assign @ self.counts)
        values = network.distances(cost)
        return Priced(assign, cost, values, offset, int(values[0][network.source]) + offset)

    def dearest(self, network: Network) -> int:
        """Return the highest price: all starts of a path, and all requests, pay a quarter of `FAR` at the most.

        So what is paid along a path is above -FAR / 4, and all that costs at most a cutoff lies below `FAR`.
        """
        starts = len(network.layers) * int(network.starts.sum(axis=1).max(initial=1))
        return FAR // 4 // max(starts, int(self.counts.sum()))

    def climb(
        self, network: Network, assign: Array, target: int, deadline: float, on_path: Callable[[list[Array]], None]
    ) -> Priced:
        """Return the best prices found before the bound exceeds `target`, the steps are small, or time is over.

        `on_path` gets the starts of some cheapest paths, of the last one at least if it is a schedule.
        """
        best = now = self.price(network, assign)
        step, waited, history = self.step, 0, [best.bound]
        for turn in range(ROUNDS):
            path = network.path(now.cost, now.values)
            missing = self.counts - sum(path)
            if turn % EVERY == 0 or not missing.any():
                on_path(path)
            if best.bound > target or not missing.any() or step < SMALLEST or time.monotonic() > deadline:
                break
            history.append(best.bound)
            if len(history) > STALL and best.bound - history[-STALL] < WORTH * (target - best.bound):
                break
            length = 0.7 * step * (target + SCALE - now.bound) / float(missing @ missing)
            now = self.price(network, now.assign + np.rint(length * missing).astype(np.int64))
            if now.bound > best.bound:
                best, waited = now, 0
                continue
            waited += 1
            if waited == PATIENCE:
                now, step, waited = best, step * SHRINK, 0
        self.step = min(1.0, 3 * step)
        return best
