"""Passes through the layers of a fixed number of batches: the states that could lead to something better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solvers.counts.cost_to_go import NEVER, CostToGo
from solvers.counts.model import CountOptions, Operation
from solvers.counts.vectors import Array, VectorStep

Pools = npt.NDArray[np.int16]


@dataclass
class CountStates:
    """States as rows: what is resident, what is in the pools, and the cost so far with the pools at their prices."""

    vector: Array
    pools: Pools
    cost: Array
    parent: Array

    @property
    def columns(self) -> tuple[Any, ...]:
        """The arrays; row i of each is of state i."""
        return self.vector, self.pools, self.cost, self.parent

    def __len__(self) -> int:
        return len(self.cost)

    def take(self, which: Any) -> CountStates:
        """Return some of the states: positions, a mask or a slice."""
        return CountStates(*(column[which] for column in self.columns))

    @staticmethod
    def join(parts: Sequence[CountStates]) -> CountStates:
        """Return the states of all parts."""
        return CountStates(*(np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)))


class CountPass:
    """One pass, for one number of batches: at most `width` states of each layer, and none that costs over `cutoff`.

    Costs are without that of the batches themselves. `check` is called now and then.
    """

    def __init__(self, to_go: CostToGo, batches: int, cutoff: int, width: int, check: Callable[[], None]) -> None:
        self.to_go = to_go
        self.batches = batches
        self.cutoff = cutoff
        self.width = width
        options = CountOptions.given()
        self.most_rows, self.chunk = min(options.most_rows // 2, options.rows_by_width * width), options.chunk
        self.check = check
        self.model = to_go.vectors.model
        self.cut = NEVER
        """The least f of what was cut."""
        self.layers: list[CountStates] = []
        self.done = False
        self.value = NEVER
        """Cost of the cheapest path to the end that was found."""
        rng = np.random.default_rng(5)
        self.weights: Array = rng.integers(1, 2**62, len(self.model.pools) + 1, dtype=np.int64) * 2 + 1

    @property
    def bytes(self) -> int:
        """Memory of the layers."""
        return sum(column.nbytes for layer in self.layers for column in layer.columns)

    @property
    def bound(self) -> int:
        """What every schedule of this many batches costs at least, or more than the cutoff."""
        if not self.done:
            return self.to_go.at_start(self.batches)
        return min(self.cut, self.value, self.cutoff + 1)

    def run(self) -> list[CountStates] | None:
        """Go through all layers; return the states of the cheapest path to the end, or None."""
        self.to_go.extend(self.batches)
        self.layers = [self._first()]
        for to_go in range(self.batches, 0, -1):
            following = self._layer(self.layers[-1], to_go)
            if len(following) == 0:
                self.done = True
                return None
            self.layers.append(following)
        self.done = True
        return self._path()

    def _first(self) -> CountStates:
        pools = np.array([self.model.start], np.int16)
        cost = np.array([int(pools[0].astype(np.int64) @ self.to_go.prices)])
        zero = np.zeros(1, np.int64)
        return CountStates(zero, pools, cost, zero - 1)

    def _layer(self, layer: CountStates, to_go: int) -> CountStates:
        stages = self.to_go.stages(to_go)
        parts = []
        for first in range(0, len(layer), self.chunk):
            self.check()
            chunk = layer.take(slice(first, first + self.chunk))
            chunk.parent = np.arange(first, first + len(chunk))
            parts.append(self._different(self._batch(chunk, stages)))
        return self._narrow(self._different(CountStates.join(parts)), self.to_go.ends[to_go - 1])

    # --- one batch -----------------------------------------------------------------------------------------------

    def _batch(self, states: CountStates, stages: list[Array]) -> CountStates:
        """Return the states after every batch that may lead to a cost of at most the cutoff."""
        for k in range(len(self.model.steps)):
            if not len(states):
                break
            states = CountStates.join([part for part, _ in self.repeated(states, k, stages)])
            if len(states) > 2 * self.most_rows:
                states = self._best(states, stages[k + 1], self.most_rows)
        return self.ended(states)

    def repeated(self, states: CountStates, k: int, stages: list[Array]) -> Iterator[tuple[CountStates, int]]:
        """Yield the states after taking a step 0, 1, .. times, with that number."""
        times = 0
        while len(states):
            yield states.take(states.cost + stages[k + 1][states.vector] <= self.cutoff), times
            states = self._once(states, k, stages[k])
            times += 1

    def _once(self, states: CountStates, k: int, before: Array) -> CountStates:
        """Return the states after taking a step, of those that can and may."""
        step: Operation = self.model.steps[k]
        line: VectorStep = self.to_go.vectors.lines[k]
        following = line.following[states.vector]
        can = following >= 0
        if step.out_of >= 0:
            can &= states.pools[:, step.out_of] > 0
        where = np.nonzero(can)[0]
        cost, following = states.cost[where] + self.to_go.costs[k], following[where]
        within = cost + before[following] <= self.cutoff
        where = where[within]
        after = states.take(where)
        after.vector, after.cost = following[within], cost[within]
        if step.out_of >= 0:
            after.pools[:, step.out_of] -= 1
        if step.into >= 0:
            after.pools[:, step.into] += 1
        return after

    def ended(self, states: CountStates) -> CountStates:
        """Return the states after the batch: those that ended are gone."""
        states.vector = self.to_go.vectors.cleared[states.vector]
        return states

    # --- layers --------------------------------------------------------------------------------------------------

    def _different(self, states: CountStates) -> CountStates:
        """Return the cheapest of equal states."""
        if len(states) < 2:
            return states
        key = states.pools @ self.weights[1:] + states.vector * self.weights[0]
        states = states.take(np.lexsort((states.cost, key)))
        same = states.vector[1:] == states.vector[:-1]
        same &= (states.pools[1:] == states.pools[:-1]).all(axis=1)
        return states.take(np.append(True, ~same))

    def _narrow(self, states: CountStates, after: Array) -> CountStates:
        return states if len(states) <= self.width else self._best(states, after, self.width)

    def _best(self, states: CountStates, after: Array, most: int) -> CountStates:
        """Return the `most` states of least f, and note the least f of the others."""
        f = states.cost + after[states.vector]
        order = np.argpartition(f, most)
        self.cut = min(self.cut, int(f[order[most]]))
        return states.take(np.sort(order[:most]))

    def _path(self) -> list[CountStates] | None:
        """Return the states on the path to the end of least cost (only the empty vector and pools can be there)."""
        last = self.layers[-1]
        where = np.nonzero((last.vector == 0) & (last.pools == 0).all(axis=1))[0]
        if not len(where):
            return None
        number = int(where[np.argmin(last.cost[where])])
        self.value = int(last.cost[number])
        path = []
        for layer in reversed(self.layers):
            path.append(layer.take(slice(number, number + 1)))
            number = int(path[-1].parent[0])
        return path[::-1]
