"""Compiled: cheapest paths of requests through priced slots, and through networks of configurations.

All in floating point: it only proposes prices.

What `kvcore/certificates/paths.py` does exactly, slot by slot, is done here on every `stride`-th slot of a segment's
first token. `legs` [k, LEG] and `starts` [k, 2, START] are the numbers of `paths.Course`, and the first and last slot
in which a segment may end (`HIGH` never falls from one segment to the next); all prices are per slot.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import compiled

CONTEXT, DECODE, PAUSE, PRESERVED, COUNT, LEAST, EARLIEST, LOW, HIGH = range(9)
KEPT, NEED, SLOTS = range(3)
FAR = 1e300


class Route(NamedTuple):
    """One kind of request: its legs and their starts, tokens of a prefill part, the block, its arrival and rate."""

    legs: Any
    starts: Any
    part: int
    block: int
    arrival: int
    rate: float


class PriceArrays(NamedTuple):
    """Prices of device, host, tokens and requests [4, slots].

    `sums` and `moments` [slots + 1] add up the device's price, and that times the slot, over the slots before each.
    """

    rows: Any
    sums: Any
    moments: Any


class LeastCosts(NamedTuple):
    """By segment and start: least costs by first slot (each `stride`-th from `lows` on), and what holding KV costs."""

    best: Any
    held: Any
    lows: Any
    stride: int


@compiled
def fill_least(price, earliest, least):
    """Fill `least` with the least price since slot `earliest` (0 before)."""
    low = FAR
    for t in range(len(price)):
        if t >= earliest:
            low = min(low, price[t])
            least[t] = low
        else:
            least[t] = 0.0


@compiled
def after(c, k, route, table):
    """Return the cost of what follows segment k that ends before slot c, and the start of the next one."""
    legs, starts, _, _, release, rate = route
    best, held, lows, stride = table
    slots = held.shape[2] - 1
    if not legs[k, LOW] < c <= legs[k, HIGH] + 1:
        return FAR, 0
    if k == len(legs) - 1:
        return rate * (c - release), 0
    least, chosen = FAR, 0
    for s in range(legs[k + 1, COUNT]):
        first = c + legs[k, PAUSE] + starts[k + 1, s, SLOTS] - 1
        if first < slots:
            cost = best[k + 1, s, (max(first - lows[k + 1, s], 0) + stride - 1) // stride]
        elif legs[k + 1, HIGH] < slots:
            cost = FAR
        else:
            cost = held[k + 1, s, slots] + rate * (first + legs[k + 1, LEAST] + 1 - release)
        cost -= held[k + 1, s, min(c, slots)]
        if cost < least:
            least, chosen = cost, s
    return least, chosen


@compiled
def walk(route, prices, stride, path):
    """Fill `path` [k, 3] with (first slot, start, kept since) of each segment on the cheapest path; return its cost.

    It is `FAR` or more where there is no path that ends its segments as it must.
    Segments from the slot after the last one on have their first token at their earliest.
    """
    legs, starts, part, block, arrival, rate = route
    sums, moments = prices.sums, prices.moments
    device, host, tokens, requests = prices.rows[0], prices.rows[1], prices.rows[2], prices.rows[3]
    slots, K = len(device), len(legs)
    width = slots // stride + 2
    best = np.empty((K, 2, width))
    where = np.empty((K, 2, width), np.int64)
    held = np.zeros((K, 2, slots + 1))
    fee = np.zeros((K, 2, slots))
    lows = np.zeros((K, 2), np.int64)
    table = LeastCosts(best, held, lows, stride)
    least_tokens, least_requests = np.zeros(slots), np.zeros(slots)
    work = np.zeros(slots + 1)
    priced, hosted = tokens.any() or requests.any(), host.any()
    for k in range(K - 1, -1, -1):
        context, decode = legs[k, CONTEXT], legs[k, DECODE]
        if priced:
            fill_least(tokens, legs[k, EARLIEST], least_tokens)
            fill_least(requests, legs[k, EARLIEST], least_requests)
            for t in range(slots):
                work[t + 1] = work[t] + least_tokens[t] + least_requests[t]
        for s in range(legs[k, COUNT]):
            kept, need, count = starts[k, s, KEPT], starts[k, s, NEED], starts[k, s, SLOTS]
            if kept > 0 and (hosted or legs[k, PRESERVED]):
                blocks = -(-kept // block)
                for t in range(legs[k - 1, EARLIEST], slots):
                    price = device[t] * blocks
                    if not legs[k, PRESERVED]:
                        price = min(price, host[t] * kept)
                    fee[k, s, t] = price
                    held[k, s, t + 1] = held[k, s, t] + price
            low = min(slots, legs[k, EARLIEST] + count - 1)
            lows[k, s] = low
            points = (slots - 1 - low) // stride + 1 if low < slots else 0
            beyond, _ = after(slots + decode, k, route, table)
            best[k, s, points] = beyond + held[k, s, slots]
            where[k, s, points] = slots
            for i in range(points - 1, -1, -1):
                f = low + i * stride
                end = min(f + decode, slots)
                cost, _ = after(f + decode, k, route, table)
                if cost >= FAR:
                    best[k, s, i], where[k, s, i] = best[k, s, i + 1], where[k, s, i + 1]
                    continue
                if block == 1:
                    cost += (context - f) * (sums[end] - sums[f]) + moments[end] - moments[f]
                else:
                    cost += -(-context // block) * (sums[end] - sums[f])
                    for j in range(block - (context - 1) % block, decode, block):
                        cost += sums[end] - sums[min(f + j, slots)]
                cost += need * least_tokens[f] + count * least_requests[f] + work[end] - work[f + 1]
                cost += held[k, s, max(f - count + 1, 0)]
                for j in range(1, min(count, f + 1)):
                    resident = context - j * part
                    cost += fee[k, s, f - j] if resident <= kept else device[f - j] * -(-resident // block)
                if cost < best[k, s, i + 1]:
                    best[k, s, i], where[k, s, i] = cost, f
                else:
                    best[k, s, i], where[k, s, i] = best[k, s, i + 1], where[k, s, i + 1]
    first = arrival + starts[0, 0, SLOTS] - 1
    if first >= slots:
        for k in range(K):
            path[k, 0] = slots
        return FAR if legs[0, HIGH] < slots else rate * (first + legs[0, LEAST] + 1 - arrival)
    c, s = arrival, 0
    for k in range(K):
        first = c + (legs[k - 1, PAUSE] if k else 0) + starts[k, s, SLOTS] - 1
        f = slots
        if first < slots:
            f = where[k, s, (max(first - lows[k, s], 0) + stride - 1) // stride]
        path[k, 0], path[k, 1], path[k, 2] = f, s, min(c, slots)
        c = f + legs[k, DECODE]
        if k < K - 1:
            _, s = after(c, k, route, table)
    return best[0, 0, (max(arrival + starts[0, 0, SLOTS] - 1 - lows[0, 0], 0) + stride - 1) // stride]


@compiled
def add_use(route, path, prices, use):
    """Add what a path takes to `use` [4, slots], the rows of `prices`."""
    legs, starts, part, block, _, _ = route
    device, host = use[0], use[1]
    slots = len(device)
    for k in range(len(legs)):
        f, s, since = path[k, 0], path[k, 1], path[k, 2]
        context, kept, need, count = legs[k, CONTEXT], starts[k, s, KEPT], starts[k, s, NEED], starts[k, s, SLOTS]
        for t in range(since if kept else max(f - count + 1, 0), min(f, slots)):
            resident = context - (f - t) * part if t > f - count else 0
            if resident > kept:
                device[t] += -(-resident // block)
            elif kept:
                blocks = -(-kept // block)
                if not legs[k, PRESERVED] and prices[1, t] * kept < prices[0, t] * blocks:
                    host[t] += kept
                else:
                    device[t] += blocks
        for j in range(min(legs[k, DECODE], slots - f)):
            device[f + j] += -(-(context + j) // block)
        charge(use[2], prices[2], legs[k, EARLIEST], f, legs[k, DECODE], need)
        charge(use[3], prices[3], legs[k, EARLIEST], f, legs[k, DECODE], count)


@compiled
def charge(use, prices, earliest, first, decode, need):
    """Add `need` at the first slot and one at each later; each where its price was least since `earliest`."""
    slots, cheapest, low = len(use), earliest, FAR
    for t in range(earliest, min(first + decode, slots)):
        if prices[t] <= low:
            cheapest, low = t, prices[t]
        if t == first:
            use[cheapest] += need
        elif t > first:
            use[cheapest] += 1


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


@compiled
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
