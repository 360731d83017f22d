"""Shortest paths of one class over slots, compiled: every state before every slot, and every option in it.

All amounts are 64-bit integers. `bill[t, k]` is the sum, over the slots before t, of
what an option of kind k pays in a slot, so that an option of several slots is priced at once. `ahead[t, s]` is the cost
of the cheapest path from state s before slot t to the end; its rows from `slots` on are given, and its last column is
the end itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from solvers.lagrange.scope import FAR

Array = Any
"""A numpy array of integers."""


class OptionGraph(NamedTuple):
    """The options of one class, from slot `zero` on: arrays of `RequestClass`, by state (`first`) or by option."""

    zero: int
    first: Array
    head: Array
    span: Array
    kind: Array


@njit(cache=True)
def fill_ahead(ahead, slots, graph, bill):
    """Fill `ahead` from the last slot back to `zero`."""
    zero, first, head, span, kind = graph
    for t in range(slots - 1, zero - 1, -1):
        for s in range(first.shape[0] - 1):
            best = FAR
            for o in range(first[s], first[s + 1]):
                then = t + span[o]
                cost = bill[then, kind[o]] - bill[t, kind[o]] + ahead[then, head[o]]
                best = min(best, cost)
            ahead[t, s] = best


@njit(cache=True)
def cheapest_path(ahead, slots, graph, bill):
    """Return the cheapest path from the start as rows (slot, option); it stops where it leaves the slots."""
    zero, first, head, span, kind = graph
    end = first.shape[0] - 1
    path = np.empty((slots + 1, 2), np.int64)
    length, t, s = 0, zero, 0
    while t < slots and s != end:
        best, chosen = FAR, first[s]
        for o in range(first[s], first[s + 1]):
            then = t + span[o]
            cost = bill[then, kind[o]] - bill[t, kind[o]] + ahead[then, head[o]]
            if cost < best:
                best, chosen = cost, o
        path[length, 0], path[length, 1] = t, chosen
        length += 1
        t, s = t + span[chosen], head[chosen]
    return path[:length]


@njit(cache=True)
def fill_behind(behind, slots, graph, bill):
    """Fill `behind`, the cost of the cheapest path from the start to each state before each slot."""
    zero, first, head, span, kind = graph
    behind[:, :] = FAR
    behind[zero, 0] = 0
    for t in range(zero, slots):
        for s in range(first.shape[0] - 1):
            if behind[t, s] < FAR:
                for o in range(first[s], first[s + 1]):
                    then = t + span[o]
                    paid = bill[then, kind[o]] - bill[t, kind[o]]
                    behind[then, head[o]] = min(behind[then, head[o]], behind[t, s] + paid)


@njit(cache=True)
def cheap_options(slack, ahead, behind, slots, graph, bill):
    """Return rows (slot, state, option): the options on paths that cost at most `slack` more than the cheapest."""
    zero, first, head, span, kind = graph
    most = ahead[zero, 0] + slack
    found = [(0, 0, 0) for _ in range(0)]
    for t in range(zero, slots):
        for s in range(first.shape[0] - 1):
            if behind[t, s] < FAR and behind[t, s] + ahead[t, s] <= most:
                for o in range(first[s], first[s + 1]):
                    then = t + span[o]
                    paid = bill[then, kind[o]] - bill[t, kind[o]]
                    if behind[t, s] + paid + ahead[then, head[o]] <= most:
                        found.append((t, s, o))
    return found


@njit(cache=True)
def add_use(taken, path, count, span, kind):
    """Add `count` to `taken[t, k]` for each slot t in which the path has an option of kind k."""
    for step in range(path.shape[0]):
        t, o = path[step, 0], path[step, 1]
        for u in range(t, min(t + span[o], taken.shape[0])):
            taken[u, kind[o]] += count
