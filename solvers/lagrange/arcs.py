"""The options left after fixing, request by request, as one flat table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from solvers.lagrange.kernels import Array
from solvers.lagrange.network import PathNetwork, RequestClass

TAIL, HEAD, SLOT, SPAN, DEVICE, HOST, WORK, PREFILL, WORKERS, BLOCKS, TOKENS, COST, OPTION = range(13)
"""Columns of the table: nodes, slots, uses (movable KV in blocks and tokens), cost in ticks, and the option of the
class."""


class Arcs:
    """`table` (arcs x 13), sorted by request and slot; request r has the rows first[r] to first[r + 1] - 1.

    Its nodes are numbered node[r] to node[r + 1] - 1, the last one the end, and `source[r]` the start.
    """

    def __init__(self, network: PathNetwork, slots: int, survivors: Sequence[Array]) -> None:
        self.slots = slots
        tables, counts, nodes, sources, self.owner = [], [], [0], [], list[RequestClass]()
        for c, rows in zip(network.classes, survivors, strict=True):
            table, source, size = _table(c, rows)
            for _ in c.requests:
                shifted = table.copy()
                shifted[:, [TAIL, HEAD]] += nodes[-1]
                tables.append(shifted)
                counts.append(len(shifted))
                sources.append(source + nodes[-1])
                nodes.append(nodes[-1] + size)
                self.owner.append(c)
        self.table = np.concatenate(tables)
        self.first = np.concatenate([[0], np.cumsum(counts)])
        self.node = np.array(nodes)
        self.source = np.array(sources)

    def path(self, r: int, arcs: Array) -> Array:
        """Return the (slot, option) rows of arcs of one request that follow each other."""
        return self.table[arcs][:, [SLOT, OPTION]]


def _table(c: RequestClass, rows: Array) -> tuple[Array, int, int]:
    """Return the arcs of one request with its nodes numbered from 0, its source, and the number of nodes."""
    t, s, o = rows.T
    states = len(c.states) + 1
    keys = np.unique(t * states + s)
    is_end = c.head[o] == states - 1
    ahead = (t + c.span[o]) * states + c.head[o]
    head = np.where(is_end, len(keys), np.searchsorted(keys, ahead))
    leads_on = is_end | np.isin(ahead, keys)
    cost = c.rate * (t + 1 - c.zero) * is_end
    table = np.column_stack([np.searchsorted(keys, t * states + s), head, t, c.span[o], c.uses[c.kind[o]], cost, o])
    return table[leads_on], int(np.searchsorted(keys, c.zero * states)), len(keys) + 1


@njit(cache=True)
def can_exceed(table, first, slots, limits, is_limited):  # type: ignore[no-untyped-def]
    """Say of each slot and resource whether the requests can exceed its limit at all, each at its worst."""
    total, worst = np.zeros((slots, 5), np.int64), np.zeros((slots, 5), np.int64)
    for r in range(first.shape[0] - 1):
        worst[:, :] = 0
        for a in range(first[r], first[r + 1]):
            t = table[a, SLOT]
            for u in range(t, min(t + table[a, SPAN], slots)):
                worst[u, 0] = max(worst[u, 0], table[a, DEVICE] + table[a, BLOCKS])
                worst[u, 1] = max(worst[u, 1], table[a, HOST] + table[a, TOKENS])
            for q in range(2, 5):
                if t < slots:
                    worst[t, q] = max(worst[t, q], table[a, DEVICE + q])
        total += worst
    priced = np.zeros((slots, 5), np.bool_)
    for u in range(slots):
        for q in range(5):
            priced[u, q] = is_limited[q] and total[u, q] > limits[q]
    return priced
