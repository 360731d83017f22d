"""The network of configurations over time, its shortest paths under prices, and what cannot be part of a better one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import Budget
from kvcore.certificates.running import Running
from solvers.by_row import repeated
from solvers.start_time.problem import Array, RigidProblem

Rows = npt.NDArray[np.int32]
FAR = 1 << 44
"""More than any path costs; 500 times this is still exact in floating point."""


@dataclass(frozen=True)
class Layer:
    """The arcs of one tick, sorted by their tails.

    The set of starts `new` leads from node `tail` to node `head` of the next layer; `first[node]` is its first arc.
    """

    tail: Rows
    head: Rows
    new: Rows
    first: Array

    def arcs_of(self, nodes: Array) -> tuple[Array, Array]:
        """Return all arcs of these nodes, node by node: the place of the node in `nodes`, and the arc."""
        first = np.append(self.first, len(self.head))
        place, within = repeated(first[nodes + 1] - first[nodes])
        return place, first[nodes][place] + within


class ConfigurationNetwork:
    """Layers for ticks 0 to `ticks` - 1.

    A path from the empty configuration to the empty one is a schedule in which every limit is kept, but requests may
    run any number of times. `starts` [sets, kinds] are the sets that arcs name.
    """

    def __init__(self, problem: RigidProblem, ticks: int, most: int) -> None:
        """Raises InvalidCertificate if there are more than `most` configurations."""
        budgets = [
            (limit, [use[0] for use in uses], max((use[1] for use in uses if len(use) > 1), default=0))
            for limit, uses in problem.limits[1:]
        ]
        at_once = min((limit // later for limit, _, later in budgets if later), default=np.inf)
        running = Running(problem.kinds, problem.memory, most, Budget(2**62, 2**62), at_once=at_once)
        bases = np.arange(len(running.later))
        base, head = np.append(bases, running.base), np.append(running.later, running.next)
        new = np.append(0 * bases, np.repeat(np.arange(len(running.starts)), np.diff(running.begin)))
        fits = np.ones(len(base), np.bool_)
        for limit, first, later in budgets:
            fits &= later * running.size[base] + (running.starts @ first)[new] <= limit
        rows = np.flatnonzero(fits)[np.argsort(base[fits], kind="stable")]
        nodes, tail = np.unique(base[rows], return_inverse=True)  # what follows a base that fits does, too
        arcs = [array.astype(np.int32) for array in (tail, np.searchsorted(nodes, head[rows]), new[rows])]
        self.starts = running.starts
        self.layers = [Layer(arcs[0], arcs[1], arcs[2], np.searchsorted(tail, np.arange(len(nodes))))] * ticks
        self.nodes = [len(nodes)] * (ticks + 1)
        self.source = self.sink = running.empty

    def distances(self, cost: Array) -> list[Array]:
        """Return, by layer, the least cost from each node to the end; `cost` [ticks, kinds] is that of each start."""
        value = np.full(self.nodes[-1], FAR)
        value[self.sink] = 0
        values = [value]
        for layer, prices in zip(reversed(self.layers), reversed(self.set_costs(cost)), strict=True):
            along = value[layer.head]
            along += prices[layer.new]
            value = np.minimum(np.minimum.reduceat(along, layer.first), FAR)
            values.append(value)
        return values[::-1]

    def path(self, cost: Array, values: list[Array]) -> list[Array]:
        """Return the starts by kind, [kinds], of each tick along a shortest path."""
        node, starts = self.source, []
        for layer, prices, value in zip(self.layers, self.set_costs(cost), values[1:], strict=True):
            end = layer.first[node + 1] if node + 1 < len(layer.first) else len(layer.head)
            arcs = slice(layer.first[node], end)
            arc = int(layer.first[node] + (value[layer.head[arcs]] + prices[layer.new[arcs]]).argmin())
            starts.append(self.starts[layer.new[arc]])
            node = int(layer.head[arc])
        return starts

    def pruned(self, cost: Array, values: list[Array], cutoff: int) -> tuple[ConfigurationNetwork, list[Array]] | None:
        """Return the network of the arcs on paths that cost at most `cutoff`, or None if there is no such path.

        `values` are the distances under `cost`; those of the new network are returned with it. Only arcs of
        nodes on such paths are looked at.
        """
        if values[0][self.source] > cutoff:
            return None
        tails, arcs, heads = [np.array([self.source])], [], []
        reached = np.zeros(1, np.int64)
        for t, (layer, prices) in enumerate(zip(self.layers, self.set_costs(cost), strict=True)):
            place, arc = layer.arcs_of(tails[-1])
            along = reached[place] + prices[layer.new[arc]]
            fine = np.flatnonzero(along + values[t + 1][layer.head[arc]] <= cutoff)
            arcs.append((place[fine], arc[fine]))
            least = np.full(self.nodes[t + 1], FAR)
            np.minimum.at(least, layer.head[arc[fine]], along[fine])
            tails.append(np.flatnonzero(least < FAR))
            heads.append(np.searchsorted(tails[-1], layer.head[arc[fine]]))
            reached = least[tails[-1]]
        return self._smaller(tails, arcs, heads), [value[tail] for value, tail in zip(values, tails, strict=True)]

    def arcs(self) -> int:
        """Return how many arcs there are."""
        return sum(len(layer.head) for layer in self.layers)

    def _smaller(self, tails: list[Array], arcs: list[tuple[Array, Array]], heads: list[Array]) -> ConfigurationNetwork:
        small = object.__new__(ConfigurationNetwork)
        used = np.unique(np.concatenate([layer.new[arc] for layer, (_, arc) in zip(self.layers, arcs, strict=True)]))
        small.starts = self.starts[used]
        small.layers = [
            Layer(
                place.astype(np.int32),
                head.astype(np.int32),
                np.searchsorted(used, layer.new[arc]).astype(np.int32),
                np.searchsorted(place, np.arange(len(tail))),
            )
            for layer, tail, (place, arc), head in zip(self.layers, tails, arcs, heads, strict=False)
        ]
        small.nodes = [len(tail) for tail in tails]
        small.source = small.sink = 0
        return small

    def set_costs(self, cost: Array) -> Array:
        """Return what each set of starts costs at each tick, [ticks, sets]: sums of whole numbers, exact in floats."""
        sums = cost.astype(float) @ self.starts.T.astype(float)
        exact: Array = np.minimum(sums, FAR).astype(np.int64)
        return exact
