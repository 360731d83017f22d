"""Compiled: the arcs between ticks that prices leave to a schedule below a target."""

from typing import Any

import numpy as np

from kvcore.certificates.slot_kernels import NEVER
from kvcore.compiled import allocating
from kvcore.limits import DEVICE, HOST, SHARED

IDLE = -1
"""The option of a tick between batches."""
TICK, STATE, HEAD, OPTION = range(4)
"""Columns of arcs: tick, states from and to, option."""
Arcs = Any
"""An array [arcs, 4] of whole numbers, sorted by tick and state."""


@allocating
def cheap_arcs(graphs, prices, scale, starts, most, cheapest, room):
    """Return the arcs on ways from `starts` to an end that cost at most `most` [states], with what they pay.

    `cheapest` are the `values` of the states under the same prices. Return at most `room` arcs, and the number of all.
    """
    states = len(graphs.idle)
    arcs, size = np.empty((room, 4), np.int64), 0
    before = np.full(states, NEVER, np.int64)
    for i in starts:
        before[i] = 0
    for t in range(prices.shape[1]):
        after = np.full(states, NEVER, np.int64)
        for i in range(states):
            if before[i] >= NEVER or graphs.done[i]:
                continue
            for o in range(graphs.first[i] - 1, graphs.first[i + 1]):
                cost = before[i]
                if o < graphs.first[i]:
                    option, to = IDLE, graphs.idle[i]
                    cost += prices[DEVICE, t] * graphs.blocks[i] + prices[HOST, t] * graphs.host[i]
                else:
                    option, to = o, graphs.next[o]
                    for r in range(SHARED):
                        cost += prices[r, t] * graphs.use[o, r]
                    if graphs.ends[o]:
                        cost += graphs.rate[i] * scale * (t + 1)
                if cheapest[t + 1, to] >= NEVER or cost + cheapest[t + 1, to] > most[i]:
                    continue
                after[to] = min(after[to], cost)
                if size < room:
                    arcs[size, 0], arcs[size, 1], arcs[size, 2], arcs[size, 3] = t, i, to, option
                size += 1
        before = after
    return arcs[: min(size, room)], size
