"""Compiled where numba is installed: the cheapest path of one request through priced slots, as `paths.py` counts it.

Whole prices and rates make all exact; with floats it only proposes. `legs` [k, LEG] and `starts` [k, 2, START] are
those of `paths.Course`: `LEAST` is the slots from a segment's first token to the completion, `EARLIEST` the slot in
which it can begin, and it ends between slots `LOW` and `HIGH` (`HIGH` never falls from one segment to the next).
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import allocating, compiled

CONTEXT, DECODE, PAUSE, PRESERVED, COUNT, LEAST, EARLIEST, LOW, HIGH = range(9)
KEPT, NEED, SLOTS = range(3)
DEVICE, HOST, TOKENS = range(3)
NEVER = 2**60
"""Cost of a path that is not allowed. Tables are cut off there."""


class Route(NamedTuple):
    """One kind of request: legs, starts, tokens of a prefill part, arrival and rate."""

    legs: Any
    starts: Any
    part: int
    arrival: int
    rate: Any


class PriceArrays(NamedTuple):
    """Prices of tokens on the device, on the host, and in a batch [3, slots].

    `sums` and `moments` [slots + 1] add up the device's price, and that times the slot, before each slot.
    """

    rows: Any
    sums: Any
    moments: Any


def price_arrays(rows: Any) -> PriceArrays:
    """Return prices with the sums of the device's."""
    device = rows[DEVICE]
    sums, moments = (np.append(0, np.cumsum(each)) for each in (device, device * np.arange(len(device))))
    return PriceArrays(rows, sums, moments)


class LeastCosts(NamedTuple):
    """By segment and start: least costs by first slot from `lows` on, and costs of holding KV.

    The cost of a first slot is the least from there on, less what is `held` up to the slot in which the start begins.
    """

    best: Any
    held: Any
    lows: Any


@compiled
def fill_least(price, earliest, least):
    """Fill `least` with the least price since slot `earliest` (0 before)."""
    low = price[0]
    for t in range(len(price)):
        if t <= earliest:
            low = price[t]
        low = min(low, price[t])
        least[t] = low if t >= earliest else 0


@compiled
def after(c, k, route, table):
    """Return the cost after segment k if it ends before slot c, and the next start."""
    legs, starts, _, arrival, rate = route
    best, held, lows = table
    slots = held.shape[2] - 1
    if not legs[k, LOW] < c <= legs[k, HIGH] + 1:
        return NEVER, 0
    if k == len(legs) - 1:
        return rate * (c - arrival), 0
    least, chosen = NEVER, 0
    for s in range(legs[k + 1, COUNT]):
        first = c + legs[k, PAUSE] + starts[k + 1, s, SLOTS] - 1
        if first < slots:
            cost = best[k + 1, s, max(first - lows[k + 1, s], 0)]
        elif legs[k + 1, HIGH] < slots:
            cost = NEVER
        else:
            cost = held[k + 1, s, slots] + rate * (first + legs[k + 1, LEAST] + 1 - arrival)
        cost -= held[k + 1, s, min(c, slots)]
        if cost < least:
            least, chosen = cost, s
    return least, chosen


@compiled
def holding(kept, preserved, rows, t):
    """Return what KV kept through a call pays in slot t, in the cheaper allowed place."""
    return kept * (rows[DEVICE, t] if preserved else min(rows[DEVICE, t], rows[HOST, t]))


@allocating
def least_costs(route, prices):
    """Return the least costs of all segments, from the last back.

    From the slot after the last one on, first tokens are at their earliest.
    """
    legs, starts, part, _, _ = route
    rows, sums, moments = prices
    slots, K = rows.shape[1], len(legs)
    best, held = np.empty((K, 2, slots + 2), rows.dtype), np.zeros((K, 2, slots + 1), rows.dtype)
    table = LeastCosts(best, held, np.zeros((K, 2), np.int64))
    tokens, work = np.zeros(slots, rows.dtype), np.zeros(slots + 1, rows.dtype)
    priced, hosted = rows[TOKENS].any(), rows[HOST].any()
    for k in range(K - 1, -1, -1):
        context, decode = legs[k, CONTEXT], legs[k, DECODE]
        if priced:
            fill_least(rows[TOKENS], legs[k, EARLIEST], tokens)
            for t in range(slots):
                work[t + 1] = work[t] + tokens[t]
        for s in range(legs[k, COUNT]):
            kept, need, count = starts[k, s, KEPT], starts[k, s, NEED], starts[k, s, SLOTS]
            if kept > 0 and (hosted or legs[k, PRESERVED]):
                for t in range(legs[k - 1, EARLIEST], slots):
                    held[k, s, t + 1] = held[k, s, t] + holding(kept, legs[k, PRESERVED], rows, t)
            low = table.lows[k, s] = min(slots, legs[k, EARLIEST] + count - 1)
            points = slots - low
            best[k, s, points] = after(slots + decode, k, route, table)[0] + held[k, s, slots]
            for i in range(points - 1, -1, -1):
                f = low + i
                best[k, s, i] = best[k, s, i + 1]
                cost, _ = after(f + decode, k, route, table)
                if cost >= NEVER:
                    continue
                end = min(f + decode, slots)
                cost += (context - f) * (sums[end] - sums[f]) + moments[end] - moments[f]
                cost += need * tokens[f] + work[end] - work[f + 1]
                cost += held[k, s, max(f - count + 1, 0)]
                for j in range(1, min(count, f + 1)):
                    resident = context - j * part
                    if resident > kept:
                        cost += rows[DEVICE, f - j] * resident
                    else:
                        cost += held[k, s, f - j + 1] - held[k, s, f - j]
                best[k, s, i] = min(best[k, s, i], cost)
    return table


@compiled
def least_cost(route, table):
    """Return the cost of the cheapest path (`NEVER` or more: none is allowed)."""
    slots, first = table.held.shape[2] - 1, route.arrival + route.starts[0, 0, SLOTS] - 1
    if first < slots:
        return table.best[0, 0, max(first - table.lows[0, 0], 0)]
    return NEVER if route.legs[0, HIGH] < slots else route.rate * (first + route.legs[0, LEAST] + 1 - route.arrival)
