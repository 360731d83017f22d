"""Compiled: cheapest ways through networks of configurations, in floating point."""

import numpy as np

from kvcore.compiled import allocating, compiled


@compiled
def fill(values, ticks, cost, begin, base, next, later):
    """Fill in the least cost from each base at each tick, from the last tick back."""
    values[ticks] = 0.0
    for t in range(ticks - 1, -1, -1):
        for b in range(len(later)):
            values[t, b] = values[t + 1, later[b]]
        for s in range(1, len(begin) - 1):
            if cost[t, s] < 0.0:
                for r in range(begin[s], begin[s + 1]):
                    values[t, base[r]] = min(values[t, base[r]], cost[t, s] + values[t + 1, next[r]])


@allocating
def follow(values, ticks, cost, begin, base, next, later):
    """Return the set that starts at each tick on a cheapest path from the empty configuration."""
    chosen = np.zeros(ticks, np.int64)
    node = 0
    for t in range(ticks):
        least, head = values[t + 1, later[node]], later[node]
        for s in range(1, len(begin) - 1):
            if cost[t, s] < 0.0:
                r = begin[s] + np.searchsorted(base[begin[s] : begin[s + 1]], node)
                if r < begin[s + 1] and base[r] == node and cost[t, s] + values[t + 1, next[r]] < least:
                    least, head, chosen[t] = cost[t, s] + values[t + 1, next[r]], next[r], s
        node = head
    return chosen
