"""Compiled: what the cheapest ways of requests take of each slot, for the prices of `slots`."""

from kvcore.certificates.slot_kernels import NEVER
from kvcore.compiled import compiled
from kvcore.limits import DEVICE, HOST, SHARED


@compiled
def demand(graphs, prices, cheapest, since, scale, keys, taken):
    """Add the use of cheapest ways from the joint states `keys` and slot `since` on to `taken` [resources, slots]."""
    for point in range(keys.shape[0]):
        for j in range(keys.shape[1]):
            follow(graphs, prices, cheapest, since, scale, keys[point, j], since, 1, taken)


@compiled
def follow(graphs, prices, cheapest, since, scale, state, begin, count, taken):
    """Add the use of the cheapest way of `count` requests from a state and slot `begin` on to `taken`.

    `cheapest` are values from slot `since` on.
    """
    for t in range(begin, prices.shape[1]):
        value = cheapest[t - since, state]
        if graphs.done[state] or value >= NEVER:
            break
        after = cheapest[t + 1 - since]
        held = prices[DEVICE, t] * graphs.blocks[state] + prices[HOST, t] * graphs.host[state]
        if held + after[graphs.idle[state]] == value:
            taken[DEVICE, t] += count * graphs.blocks[state]
            taken[HOST, t] += count * graphs.host[state]
            state = graphs.idle[state]
            continue
        for o in range(graphs.first[state], graphs.first[state + 1]):
            cost = after[graphs.next[o]]
            for r in range(SHARED):
                cost += prices[r, t] * graphs.use[o, r]
            if graphs.ends[o]:
                cost += graphs.rate[state] * scale * (t + 1)
            if cost == value:
                for r in range(SHARED):
                    taken[r, t] += count * graphs.use[o, r]
                state = graphs.next[o]
                break
