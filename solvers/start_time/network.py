"""The network of configurations over time, its shortest paths under prices, and what cannot be part of a better one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solvers.start_time.configurations import Configurations
from solvers.start_time.problem import Array

Rows = npt.NDArray[np.int32]
FAR = 1 << 50
"""More than any path costs."""


@dataclass(frozen=True)
class Layer:
    """The arcs of one tick, sorted by their tails: a set of starts leads from node `tail` to node `head` of the next
    layer. `first[node]` is its first arc.
    """

    tail: Rows
    head: Rows
    new: Rows
    first: Array


class Network:
    """Layers for ticks 0 to `ticks` - 1; a path from the empty configuration to the empty one is a schedule in which
    every limit is kept, but requests may run any number of times.
    """

    def __init__(self, configurations: Configurations, ticks: int) -> None:
        c = configurations
        whole = Layer(c.base, c.next, c.new, np.searchsorted(c.base, np.arange(c.bases)))
        self.starts = c.starts
        self.layers = [whole] * ticks
        self.nodes = [c.bases] * (ticks + 1)
        self.source = self.sink = c.empty

    def distances(self, cost: Array) -> list[Array]:
        """Return, by layer, the least cost from each node to the end; `cost` [ticks, kinds] is that of each start."""
        value = np.full(self.nodes[-1], FAR)
        value[self.sink] = 0
        values = [value]
        for layer, prices in zip(reversed(self.layers), reversed(cost), strict=True):
            along = value[layer.head]
            along += self.set_costs(prices)[layer.new]
            value = np.minimum(np.minimum.reduceat(along, layer.first), FAR)
            values.append(value)
        return values[::-1]

    def path(self, cost: Array, values: list[Array]) -> list[Array]:
        """Return the starts by kind, [kinds], of each tick along a shortest path."""
        node, starts = self.source, []
        for layer, prices, value in zip(self.layers, cost, values[1:], strict=True):
            end = layer.first[node + 1] if node + 1 < len(layer.first) else len(layer.head)
            arcs = slice(layer.first[node], end)
            arc = int(layer.first[node] + (value[layer.head[arcs]] + self.set_costs(prices)[layer.new[arcs]]).argmin())
            starts.append(self.starts[layer.new[arc]])
            node = int(layer.head[arc])
        return starts

    def prune(self, cost: Array, values: list[Array], cutoff: int) -> bool:
        """Keep the arcs on paths that cost at most `cutoff`. Returns whether there are any.

        `values` are the distances under `cost`.
        """
        if values[0][self.source] > cutoff:
            return False
        kept, used = [], []
        reached = np.full(self.nodes[0], FAR)
        reached[self.source] = 0
        for layer, prices, value in zip(self.layers, cost, values[1:], strict=True):
            along = reached[layer.tail] + self.set_costs(prices)[layer.new]
            arcs = np.flatnonzero(along + value[layer.head] <= cutoff)
            kept.append(arcs)
            used.append(np.unique(layer.tail[arcs]))
            reached = np.full(len(value), FAR)
            np.minimum.at(reached, layer.head[arcs], along[arcs])
        used.append(np.array([self.sink]))
        self._shrink(kept, used)
        return True

    def arcs(self) -> int:
        """Return how many arcs there are."""
        return sum(len(layer.head) for layer in self.layers)

    def _shrink(self, kept: list[Array], used: list[Array]) -> None:
        layers = []
        for t, (layer, arcs) in enumerate(zip(self.layers, kept, strict=True)):
            tail = np.searchsorted(used[t], layer.tail[arcs]).astype(np.int32)
            head = np.searchsorted(used[t + 1], layer.head[arcs]).astype(np.int32)
            layers.append(Layer(tail, head, layer.new[arcs], np.searchsorted(tail, np.arange(len(used[t])))))
        self.layers = layers
        self.nodes = [len(nodes) for nodes in used]
        self.source = self.sink = 0

    def set_costs(self, prices: Array) -> Array:
        """Return what each set of starts costs under the prices of a tick, [sets]."""
        return np.minimum(self.starts @ prices, FAR)
