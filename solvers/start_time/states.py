"""The exact search: paths in the network that start no request twice, merged where they meet."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from solvers.by_row import ByRow
from solvers.start_time.network import FAR, ConfigurationNetwork
from solvers.start_time.problem import Array

Words = npt.NDArray[np.uint64]

CHUNK = 2_000_000
"""Arcs that are looked at together."""


class Fields:
    """Numbers of requests left, by kind, packed into words of 64 bits.

    A field and a guard bit for each kind: a difference of packed numbers shows a negative field by a cleared guard.
    """

    def __init__(self, counts: Array, starts: Array) -> None:
        widths = [int(count).bit_length() + 1 for count in counts]
        self.place: list[tuple[int, int]] = []
        word = bit = 0
        for width in widths:
            if bit + width > 64:
                word, bit = word + 1, 0
            self.place.append((word, bit))
            bit += width
        self.words = word + 1
        self.all = self.pack(counts[None, :])[0]
        self.starts = self.pack(starts)
        self.guards = np.zeros(self.words, np.uint64)
        for (word, bit), width in zip(self.place, widths, strict=True):
            self.guards[word] |= np.uint64(1 << (bit + width - 1))

    def pack(self, counts: Array) -> Words:
        """Pack rows of numbers, [rows, kinds] to [rows, words]."""
        packed = np.zeros((len(counts), self.words), np.uint64)
        for k, (word, bit) in enumerate(self.place):
            packed[:, word] |= counts[:, k].astype(np.uint64) << np.uint64(bit)
        return packed

    def take(self, unstarted: Words, sets: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.bool_], Words]:
        """Return where the sets of starts can be taken from what is left, and what is left there afterwards."""
        after = (unstarted | self.guards) - self.starts[sets]
        fine = ((after & self.guards) == self.guards).all(axis=1)
        return fine, after[fine] & ~self.guards


@dataclass
class PartialPaths(ByRow):
    """The states of one layer: node, requests left, cost so far, and the state and starts that it came from."""

    node: Array
    unstarted: Words
    cost: Array
    parent: Array
    new: Array


@dataclass(frozen=True)
class Passed:
    """What a pass found.

    `path` are the starts by kind of each tick of the cheapest schedule within the cutoff (None: none), `cost` is its
    cost, and `cut` the least bound of what the pass cut (FAR if nothing).
    """

    path: list[Array] | None
    cost: int
    cut: int


class Interrupted(Exception):
    """Time or memory is over; `why` says which."""

    def __init__(self, why: Literal["time limit", "memory limit"]) -> None:
        self.why = why


class StateSearch:
    """Searches forward through a network; `values` are its distances under `cost`, a bound on what follows."""

    def __init__(
        self, network: ConfigurationNetwork, counts: Array, cost: Array, values: list[Array], most_bytes: int
    ) -> None:
        self.network, self.values = network, values
        self.cost = network.set_costs(cost)
        self.fields = Fields(counts, network.starts)
        self.most_bytes = most_bytes

    def run(self, cutoff: int, width: int, deadline: float) -> Passed:
        """Keep at most `width` states of each layer, those with the least bounds; nothing above the cutoff.

        Raises Interrupted at the deadline, or where the states exceed the memory.
        """
        zero = np.zeros(1, np.int64)
        states = PartialPaths(zero + self.network.source, self.fields.all[None, :], zero, zero, zero)
        trail, cut, held = [], FAR, 0
        for t in range(len(self.network.layers)):
            states = self._expand(states, t, cutoff, deadline)
            states, least = self._narrow(states, t + 1, width)
            cut = min(cut, least)
            trail.append((states.parent, states.new))
            held += len(states.parent) * 12
            if held > self.most_bytes:
                raise Interrupted("memory limit")
            states.parent = np.arange(len(states.node))
            if not len(states.node):
                return Passed(None, FAR, cut)
        done = np.flatnonzero((states.unstarted == 0).all(axis=1))
        if not len(done):
            return Passed(None, FAR, cut)
        best = int(done[states.cost[done].argmin()])
        return Passed(self._trace(trail, best), int(states.cost[best]), cut)

    def _expand(self, states: PartialPaths, t: int, cutoff: int, deadline: float) -> PartialPaths:
        layer, prices, value = self.network.layers[t], self.cost[t], self.values[t + 1]
        first = np.append(layer.first, len(layer.head))
        degree = first[states.node + 1] - first[states.node]
        parts = np.searchsorted(np.cumsum(degree), np.arange(CHUNK, int(degree.sum()) + CHUNK, CHUNK)) + 1
        grown, begin = [], 0
        for end in np.unique(np.minimum(parts, len(degree))):
            if time.process_time() > deadline:
                raise Interrupted("time limit")
            some = np.arange(begin, int(end))
            begin = int(end)
            place, arc = layer.arcs_of(states.node[some])
            row = some[place]
            cost = states.cost[row] + prices[layer.new[arc]]
            good = np.flatnonzero(cost + value[layer.head[arc]] <= cutoff)
            row, arc, cost = row[good], arc[good], cost[good]
            fine, unstarted = self.fields.take(states.unstarted[row], layer.new[arc])
            grown.append(PartialPaths(layer.head[arc[fine]].astype(np.int64), unstarted, cost[fine], row[fine],
                                layer.new[arc[fine]].astype(np.int64)))  # fmt: skip
            grown = [_merged(PartialPaths.join(grown))]
        return grown[0]

    def _narrow(self, states: PartialPaths, t: int, width: int) -> tuple[PartialPaths, int]:
        if len(states.node) <= width:
            return states, FAR
        bound = states.cost + self.values[t][states.node]
        order = np.argpartition(bound, width)
        return states.take(np.sort(order[:width])), int(bound[order[width:]].min())

    def _trace(self, trail: list[tuple[Array, Array]], row: int) -> list[Array]:
        path = []
        for parent, new in reversed(trail):
            path.append(self.network.starts[new[row]])
            row = int(parent[row])
        return path[::-1]


def _merged(states: PartialPaths) -> PartialPaths:
    """Keep the cheapest of the states with the same node and the same requests left."""
    if not len(states.node):
        return states
    order = np.lexsort((states.cost, *states.unstarted.T, states.node))
    node, unstarted = states.node[order], states.unstarted[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (node[1:] != node[:-1]) | (unstarted[1:] != unstarted[:-1]).any(axis=1)
    return states.take(order[new])
