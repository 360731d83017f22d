"""The options left after fixing, request by request, as one flat table; and bounds on any selection of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.lagrange.kernels import Array
from solvers.lagrange.network import PathNetwork, RequestClass
from solvers.lagrange.scope import FAR, UNIT

TAIL, HEAD, SLOT, SPAN, DEVICE, HOST, WORK, PREFILL, WORKERS, BLOCKS, TOKENS, COST, STARTS, OPTION = range(14)
"""Columns of the table: nodes, slots, uses (movable KV in blocks and tokens), cost in units of 1/UNIT, twice the
segment of which it generates the first token (one more: the last, where KV is evicted in between; -1: neither), and the
option of the class."""


class Arcs:
    """`table` (arcs x 14), sorted by request and slot; request r has the rows first[r] to first[r + 1] - 1.

    Its nodes are numbered node[r] to node[r + 1] - 1, the last one the end, and `source[r]` the start.
    """

    def __init__(self, network: PathNetwork, slots: int, survivors: Sequence[Array]) -> None:
        self.slots = slots
        tables, counts, nodes, sources, self.owner = [], [], [0], [], list[RequestClass]()
        for c, rows in zip(network.classes, survivors, strict=True):
            table, source, size = _table(c, rows, network.instance.machine.evict)
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


def _table(c: RequestClass, rows: Array, evict: bool) -> tuple[Array, int, int]:
    """Return the arcs of one request with its nodes numbered from 0, its source, and the number of nodes."""
    t, s, o = rows.T
    states = len(c.states) + 1
    keys = np.unique(t * states + s)
    is_end = c.head[o] == states - 1
    ahead = (t + c.span[o]) * states + c.head[o]
    head = np.where(is_end, len(keys), np.searchsorted(keys, ahead))
    leads_on = is_end | np.isin(ahead, keys)
    cost = UNIT * c.rate * (t + 1 - c.zero) * is_end
    starts = np.array([_starts(c, int(a), int(b), evict) for a, b in zip(s, o, strict=True)], np.int64)
    table = np.column_stack(
        [np.searchsorted(keys, t * states + s), head, t, c.span[o], c.uses[c.kind[o]], cost, starts, o]
    )
    return table[leads_on], int(np.searchsorted(keys, c.zero * states)), len(keys) + 1


def _starts(c: RequestClass, s: int, o: int, evict: bool) -> int:
    state = c.states[s]
    if not c.options[o].action.generated:
        return -1
    is_last = evict and state.generated + 1 == c.requests[0].segments[state.segment].decode
    return 2 * state.segment if state.generated == 0 else 2 * state.segment + 1 if is_last else -1


class LiveArcs(NamedTuple):
    """Arcs that are left: `live` are rows of the table, those of request r from part[r] to part[r + 1] - 1.

    Nodes and sources are those of `Arcs`; `rows` are the (slot, resource) that may have a price.
    """

    table: Array
    live: Array
    part: Array
    node: Array
    source: Array
    rows: Array


class Workspace(NamedTuple):
    """The price of each live arc; by node, the cheapest cost to the end and the arc chosen, a position in `live`."""

    cost: Array
    ahead: Array
    choice: Array


# --- compiled --------------------------------------------------------------------------------------------------------


@njit(cache=True)
def price_of(table, a, prices, has_price):  # type: ignore[no-untyped-def]
    """The cost of arc a and the prices that it pays; `has_price` says which slots have any."""
    cost, t = table[a, COST], table[a, SLOT]
    for u in range(t, min(t + table[a, SPAN], prices.shape[0])):
        if has_price[u]:
            cost += table[a, DEVICE] * prices[u, 0] + table[a, HOST] * prices[u, 1]
            if table[a, TOKENS]:
                cost += min(table[a, BLOCKS] * prices[u, 0], table[a, TOKENS] * prices[u, 1])
            if table[a, WORKERS]:
                cost += table[a, WORK] * prices[u, 2] + table[a, PREFILL] * prices[u, 3] + prices[u, 4]
    return cost


@njit(cache=True)
def add_arc(table, a, prices, demand):  # type: ignore[no-untyped-def]
    """Add what arc a takes to `demand`, its movable KV where it is cheaper."""
    t = table[a, SLOT]
    for u in range(t, min(t + table[a, SPAN], prices.shape[0])):
        demand[u, 0] += table[a, DEVICE]
        demand[u, 1] += table[a, HOST]
        if table[a, TOKENS]:
            if table[a, TOKENS] * prices[u, 1] < table[a, BLOCKS] * prices[u, 0]:
                demand[u, 1] += table[a, TOKENS]
            else:
                demand[u, 0] += table[a, BLOCKS]
    demand[t, 2] += table[a, WORK]
    demand[t, 3] += table[a, PREFILL]
    demand[t, 4] += table[a, WORKERS]


@njit(cache=True)
def workspace(selection):  # type: ignore[no-untyped-def]
    """Return room for the costs of a selection."""
    arcs, nodes = selection.live.shape[0], selection.node[-1]
    return Workspace(np.empty(arcs, np.int64), np.empty(nodes, np.int64), np.empty(nodes, np.int64))


@njit(cache=True)
def fill(selection, prices, work):  # type: ignore[no-untyped-def]
    """Fill the price of each live arc, the cheapest cost from each node to the end, and the arc chosen there."""
    table, live, part, node, _, _ = selection
    cost, ahead, choice = work
    has_price = np.zeros(prices.shape[0], np.bool_)
    for u in range(prices.shape[0]):
        for q in range(prices.shape[1]):
            has_price[u] |= prices[u, q] > 0
    for r in range(part.shape[0] - 1):
        ahead[node[r] : node[r + 1]] = FAR
        ahead[node[r + 1] - 1] = 0
        for i in range(part[r + 1] - 1, part[r] - 1, -1):
            a = live[i]
            cost[i] = price_of(table, a, prices, has_price)
            onward = ahead[table[a, HEAD]]
            if onward < FAR and cost[i] + onward < ahead[table[a, TAIL]]:
                ahead[table[a, TAIL]] = cost[i] + onward
                choice[table[a, TAIL]] = i


@njit(cache=True)
def paid(rows, prices, limits):  # type: ignore[no-untyped-def]
    """The prices of all there is; `rows` are the (slot, resource) that have one."""
    total = np.int64(0)
    for k in range(rows.shape[0]):
        total += prices[rows[k, 0], rows[k, 1]] * limits[rows[k, 1]]
    return total


@njit(cache=True)
def relax(selection, prices, limits, work, demand, taken):  # type: ignore[no-untyped-def]
    """Return the bound of integer prices, with what the cheapest paths take, and 1 in `taken` for their arcs."""
    table, live, _, node, source, rows = selection
    _, ahead, choice = work
    fill(selection, prices, work)
    demand[:, :] = 0
    taken[:] = 0
    total = -paid(rows, prices, limits)
    for r in range(source.shape[0]):
        if ahead[source[r]] >= FAR:
            return FAR
        total += ahead[source[r]]
        n = source[r]
        while n != node[r + 1] - 1:
            taken[choice[n]] = 1
            add_arc(table, live[choice[n]], prices, demand)
            n = table[live[choice[n]], HEAD]
    return total


@njit(cache=True)
def within(selection, prices, limits, most):  # type: ignore[no-untyped-def]
    """Return the bound of the prices, and which live arcs are on paths that it leaves at most `most`."""
    table, live, part, node, source, rows = selection
    keep = np.zeros(live.shape[0], np.bool_)
    work, behind = workspace(selection), np.full(node[-1], FAR)
    fill(selection, prices, work)
    cost, ahead = work.cost, work.ahead
    total = -paid(rows, prices, limits)
    for r in range(source.shape[0]):
        if ahead[source[r]] >= FAR:
            return np.int64(FAR), keep
        total += ahead[source[r]]
    for r in range(source.shape[0]):
        behind[source[r]] = 0
        for i in range(part[r], part[r + 1]):
            tail, head = table[live[i], TAIL], table[live[i], HEAD]
            if behind[tail] < FAR:
                behind[head] = min(behind[head], behind[tail] + cost[i])
        slack = most - total + ahead[source[r]]
        for i in range(part[r], part[r + 1]):
            tail, head = table[live[i], TAIL], table[live[i], HEAD]
            if behind[tail] < FAR and ahead[head] < FAR:
                keep[i] = behind[tail] + cost[i] + ahead[head] <= slack
    return total, keep


@njit(cache=True)
def can_exceed(table, live, part, slots, limits, is_limited):  # type: ignore[no-untyped-def]
    """Say of each slot and resource whether the requests can exceed its limit at all, each at its worst."""
    total, worst = np.zeros((slots, 5), np.int64), np.zeros((slots, 5), np.int64)
    for r in range(part.shape[0] - 1):
        worst[:, :] = 0
        for i in range(part[r], part[r + 1]):
            a = live[i]
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
