"""The search behind `slots`: layer by layer over joint states, pruned by values that it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.proof import Outcome
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.certificates.slot_kernels import (
    NEVER,
    Layer,
    Slot,
    dominated,
    empty_layer,
    expand,
    find,
    lower_rooms,
    values,
)
from kvcore.limits import LIMITS, SHARED
from kvcore.metrics import SUMS

Integers = npt.NDArray[np.int64]

VECTORS = 12
"""Vectors used at one tick: the first, and the latest."""


class Vector(NamedTuple):
    """Prices [resources, slots] in units of 1/scale, from `first_slot` on."""

    first_slot: int
    prices: Integers


class SlotSearch:
    """The search for a schedule below `target` (in units of the objective times `scale_of`), tick by tick."""

    def __init__(self, local: LocalGraphs, target: int, scale: int, budget: Budget | None = None) -> None:
        self.local, self.scale, self.budget = local, scale, budget
        self.reduced = local.reduced
        deadline = np.maximum(local.deadlines(target), 0)[self.reduced.kind]
        self.graphs, self.slots = self.reduced.graphs._replace(deadline=deadline), int(deadline.max())
        self.goal = target - 1 + local.base() if local.objective in SUMS else 0
        self.kind = np.repeat(np.arange(len(local.counts)), local.counts)
        self.start = self.reduced.start[self.kind].astype(np.int32)
        self.vectors: list[Vector] = []
        self.values: dict[int, Integers] = {}
        """Of states under each vector in use."""
        self.later: list[Integers] = []
        """Of all limits under each vector, from each slot on."""
        self.tick = self.tries = 0

    def add(self, vector: Vector) -> None:
        """Take in a vector (InvalidCertificate: it proves nothing, or 64 bits might not hold its sums)."""
        limits, rate = self.local.limits, int(self.graphs.rate.max())
        if self.budget is not None:
            size = 8 * (self.slots + 1) * (SHARED + 1)
            self.budget.spend(f"{len(self.vectors) + 1} vectors of prices", 4 * size, size * (len(self.vectors) + 1))
        prices = np.zeros((SHARED, self.slots), np.int64)
        width = min(self.slots, vector.prices.shape[1])
        prices[:, :width] = vector.prices[:, :width]
        for r in np.flatnonzero((limits < 0) & prices.any(axis=1)):
            raise InvalidCertificate(f"prices of {LIMITS[r].name}, which have no limit")
        supply = sum(max(0, int(limit)) * sum(row.tolist()) for limit, row in zip(limits, prices, strict=True))
        most = len(self.kind) * (rate * self.scale * (self.slots + 1) + supply) + (abs(self.goal) + 1) * self.scale
        if 4 * most >= Most.sums:
            raise InvalidCertificate("its prices are too large: sums could exceed 64 bits")
        prices = self.local.folded(prices)
        self.vectors.append(Vector(vector.first_slot, prices))
        self.later.append(self._supply(prices))

    def _supply(self, prices: Integers) -> Integers:
        each = np.maximum(self.graphs.limits, 0) @ prices
        return np.append(np.cumsum(each[::-1])[::-1], 0)

    def value_rows(self, v: int) -> Integers:
        """Return a vector's values [slots + 1 - first_slot, states], computed once while in use."""
        if v not in self.values:
            if self.budget is not None:
                slots, states = self.slots + 1 - self.vectors[v].first_slot, len(self.graphs.idle)
                work = Work.value * slots * (states + len(self.graphs.next))
                self.budget.spend("the values of states", work, 8 * slots * states * (len(self.values) + 1))
            last = np.where(self.graphs.over, 0, NEVER)
            self.values[v] = values(self.graphs, self.vectors[v].prices, self.vectors[v].first_slot, self.scale, last)
        return self.values[v]

    def in_use(self, tick: int) -> list[int]:
        """Return the vectors used at a tick."""
        there = [v for v, vector in enumerate(self.vectors) if vector.first_slot <= tick]
        chosen = sorted({there[0], *there[-VECTORS:]})
        for v in set(self.values) - set(chosen):
            if self.vectors[v].first_slot <= tick:
                del self.values[v]
        return chosen

    def at(self, chosen: Sequence[int], tick: int) -> tuple[Integers, Integers]:
        """Return values of states at a tick [vectors, states], and costs of the limits from there [vectors]."""
        rows = [self.value_rows(v)[tick - self.vectors[v].first_slot] for v in chosen]
        return np.array(rows), np.array([self.later[v][tick] for v in chosen])

    def slot(self, chosen: Sequence[int]) -> Slot:
        """Return what the expansion of the tick reads."""
        now, later_now = self.at(chosen, self.tick)
        after, later = self.at(chosen, self.tick + 1)
        prices = np.array([self.vectors[v].prices[:, self.tick] for v in chosen])
        return Slot(now, after, prices, later_now - later, later, self.tick, self.scale, self.goal)

    def see(self, layer: Layer, chosen: Sequence[int]) -> None:
        """Lower the rooms of entries by the `chosen` vectors."""
        rows, later = self.at(chosen, self.tick)
        lower_rooms(layer, rows, later, self.scale, self.goal)

    def run(
        self,
        most_states: int,
        most_tries: int,
        look: Callable[[Layer, Any], bool] | None = None,
    ) -> Outcome:
        """Search until nothing is left below the target, an end is, or a limit is reached.

        `look` sees each layer and its cut, may add vectors, or cut more, if nothing is to be proved, and ends the
        search by False. Layers say how entries were reached then.
        """
        states, self.tries = 0, 0
        layer: Layer = empty_layer(len(self.kind), look is not None)
        layer.keys[0], layer.cost[0], layer.room[0], layer.parent[0] = self.start, 0, self.goal, -1
        layer.table[find(layer.keys, layer.table, self.start)] = 0
        layer = layer._replace(size=1)
        for tick in range(self.slots + 1):
            self.tick = tick
            fresh = [v for v, vector in enumerate(self.vectors) if vector.first_slot == self.tick]
            if fresh:
                self.see(layer, fresh)
            cut = dominated(layer, self.kind, self.reduced, self.graphs, self.tick)
            goes_on = look is None or look(layer, cut)
            alive = np.flatnonzero(~cut)
            states += len(alive)
            over = self.graphs.over[layer.keys[alive]].all(axis=1)
            if over.any():
                end = int(alive[over][layer.cost[alive[over]].argmin()])
                return Outcome(False, self.tries, states, int(layer.cost[end]) - self.local.base(), end)
            if not len(alive):
                return Outcome(True, self.tries, states)
            if self.tick == self.slots:
                break
            if states > most_states or self.tries > most_tries or not goes_on:
                return Outcome(False, self.tries, states)
            slot, left = self.slot(self.in_use(self.tick)), most_tries - self.tries
            layer, left = expand(layer, cut, self.kind, self.graphs, slot, left)
            self.tries = most_tries - left
        return Outcome(True, self.tries, states)
