"""Better and better prices for starting a request, by subgradients; the network keeps every limit by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from solvers.start_time.network import FAR, Network
from solvers.start_time.prices import SCALE, Columns, Mask
from solvers.start_time.problem import Array

ROUNDS = 400
PATIENCE = 6
"""Rounds without a better bound before the step shrinks."""
WORTH = 0.1
"""The network is pruned again when the open gap has fallen by this fraction."""


class Multipliers:
    """The Lagrangian bound in which the rows "each kind starts `count` times" are priced.

    A path costs what its starts cost less their prices; the cheapest path plus all prices is a bound. All integers,
    scaled.
    """

    def __init__(self, network: Network, columns: Columns, alive: Mask, assign: Array, cutoff: int) -> None:
        self.network, self.columns, self.alive = network, columns, alive
        self.assign = self.best_assign = assign.astype(np.int64)
        self.cutoff = cutoff * SCALE
        self.bound = -FAR
        self.pruned_at = -FAR
        self.step, self.waited = 1.0, 0
        self.average: Array | None = None

    def cost(self, assign: Array) -> Array:
        """Return the price of each start, [ticks, kinds]; FAR where none is possible."""
        columns = self.columns
        cost = np.full((columns.ticks, len(assign)), FAR)
        some = np.flatnonzero(self.alive)
        kind = columns.kind[some]
        cost[columns.start[some], kind] = SCALE * columns.cost[some] - assign[kind]
        return cost

    def rounds(self, deadline: float, on_bound: Callable[[int], None], on_path: Callable[[list[Array]], int]) -> bool:
        """Improve the bound until it exceeds the cutoff (then True), the steps are small, or time is over.

        `on_path` gets the starts of each shortest path and returns the cutoff, which it may have lowered.
        """
        counts = self.columns.problem.counts
        for _ in range(ROUNDS):
            cost = self.cost(self.assign)
            values = self.network.distances(cost)
            offset = int(self.assign @ counts)
            bound = int(values[0][self.network.source]) + offset
            if bound > self.cutoff:
                on_bound(bound)
                return True
            path = self.network.path(cost, values)
            self.cutoff = min(self.cutoff, on_path(path) * SCALE)
            self._record(bound, on_bound)
            if self._worth_pruning(bound):
                self.network.prune(cost, values, self.cutoff - offset)
            missing = counts - sum(path)
            if not missing.any() or self.step < 0.02 or time.monotonic() > deadline:
                return bound > self.cutoff
            self._move(bound, missing)
        return False

    def _record(self, bound: int, on_bound: Callable[[int], None]) -> None:
        if bound > self.bound:
            self.bound, self.best_assign = bound, self.assign
            self.waited = 0
            on_bound(bound)
            return
        self.waited += 1
        if self.waited >= PATIENCE:
            self.step, self.waited = self.step * 0.6, 0
            self.assign = self.best_assign

    def _worth_pruning(self, bound: int) -> bool:
        if self.cutoff - bound < (1 - WORTH) * (self.cutoff - self.pruned_at):
            self.pruned_at = bound
            return True
        return False

    def _move(self, bound: int, missing: Array) -> None:
        length = 0.7 * self.step * (self.cutoff + SCALE - bound) / float(missing @ missing)
        self.assign = self.assign + np.rint(length * missing).astype(np.int64)
