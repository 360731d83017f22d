"""Compiled: the cheapest speeds of requests under prices of work, in floating point: they only propose prices.

What `kvcore/certificates/speed.py` does exactly, but for the slot in which a first token comes, which counts as whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

FAR = 1e300


class Work(NamedTuple):
    """Of each request, [n]: arrival, least time alone, what a tick of it costs; and of its groups of tokens.

    `first` work for the token that comes before all others, its least `time` and the ticks `after` it (0 work: there
    is none); `count` others, from `begin` on, of `each` work, that take `least` ticks; besides,
    `extra` work of the `heavy` ones among them, growing evenly.
    `requests` are like this.
    """

    requests: Any
    arrival: Any
    alone: Any
    rate: Any
    first: Any
    time: Any
    after: Any
    count: Any
    begin: Any
    each: Any
    least: Any
    extra: Any
    heavy: Any


class Shape(NamedTuple):
    """What slots are like: their length, the fixed part of a batch, and the ratios at which tangents touch, 1 first."""

    slot: float
    fixed: float
    ratios: Any


class Fees(NamedTuple):
    """What is paid otherwise than by speed: this `part` of prices, besides for work for so many `ticks` a token.

    Those of request i are in `first`[i] to `first`[i + 1] - 1, for the slots from `start`[i] on. What it takes in them
    goes to `taken`.
    """

    part: float
    first: Any
    start: Any
    ticks: Any
    taken: Any


@njit(cache=True)
def insert(cost, room, place, n, price, more, where, need, total):
    """Put a piece among the sorted ones, drop those beyond the need; return how many there are, and their room."""
    if total >= need and (n == 0 or price >= cost[n - 1]):
        return n, total
    if n == len(cost):
        total -= room[n - 1]
        n -= 1
    k = n
    while k > 0 and cost[k - 1] > price:
        cost[k], room[k], place[k] = cost[k - 1], room[k - 1], place[k - 1]
        k -= 1
    cost[k], room[k], place[k] = price, more, where
    n += 1
    total += more
    while n > 1 and total - room[n - 1] >= need:
        total -= room[n - 1]
        n -= 1
    return n, total


@njit(cache=True)
def speeds(least, shape, room, ticks, means):
    """Fill tokens per tick of each piece, the ticks of a token where it ends and its mean ratio; return the pieces."""
    low = 0.0
    for k in range(len(shape.ratios)):
        g, fastest = shape.ratios[k], True
        ticks[k] = least
        if shape.fixed > 0 and k + 1 < len(shape.ratios):
            both = g + shape.ratios[k + 1]
            slow = shape.fixed * both / (both - 2)
            if slow > least:
                ticks[k], fastest = slow, False
        room[k] = 1 / ticks[k] - low
        low = 1 / ticks[k]
        means[k] = 1.0 if g == 1 else g * g - (g - 1) ** 2 * ticks[k] / shape.fixed
        if fastest:
            return k + 1
    return len(shape.ratios)


@njit(cache=True)
def pay(work, shape, fees, price, usage):
    """Return what all requests take and pay at the least, and add up in `usage` [slots] the work at these speeds."""
    part, fast = fees.part, 1 - fees.part
    slot, last, pieces = shape.slot, len(price), len(shape.ratios)
    room, ticks, means = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    size = 4000
    cost, free, place = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost1, free1, place1 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost2, free2, place2 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    value = 0.0
    for i in range(len(work.arrival)):
        arrival, begin, need, rate, each = work.arrival[i], work.begin[i], work.count[i], work.rate[i], work.each[i]
        many, alone = work.requests[i], arrival + work.alone[i]
        pieces = speeds(work.least[i], shape, room, ticks, means)
        start, best, chosen = min(last, int(begin // slot)), FAR, -1
        low = min(last, int(arrival // slot))
        goal, later = last, 0.0
        place0, stop0 = fees.first[i] - fees.start[i], fees.first[i + 1]
        every = work.first[i] + need * each + work.extra[i]
        for turn in range(2):
            n, total, n1, total1, n2, total2, done = 0, 0.0, 0, 0.0, 0, 0.0, low
            for s in range(start, goal + 1):
                taken = rate * (max(s * slot, begin) - arrival)
                if turn == 0 and taken + later >= best:
                    break
                if s < last and work.extra[i] > 0:
                    span = slot if s * slot >= begin else (s + 1) * slot - begin
                    for k in range(pieces):
                        here, mark = price[s] * (part + fast * shape.ratios[k] ** 2), s * len(shape.ratios) + k
                        n2, total2 = insert(cost2, free2, place2, n2, here, span * room[k], mark, work.heavy[i], total2)
                if work.first[i] > 0:
                    close = last if s == last else s - int(work.after[i] // slot)
                    while done <= close:
                        if done == last:
                            each1, more = 0.0, 1.0
                        else:
                            fee = part * fees.ticks[place0 + done] if place0 + done < stop0 else 0.0
                            each1 = price[done] * (work.first[i] + fee)
                            more = (slot if done > low else (low + 1) * slot - arrival) / work.time[i]
                        n1, total1 = insert(cost1, free1, place1, n1, each1, more, done, 1.0, total1)
                        done += 1
                fee = part * fees.ticks[place0 + s] if s < last and place0 + s < stop0 else 0.0
                fits = (s == last or (s + 1) * slot >= alone) and (work.first[i] == 0 or total1 >= 1 - 1e-9)
                if fits:
                    end, piece = FAR, 0
                    for k in range(pieces):
                        paid = 0.0 if s == last else price[s] * (each * (part + fast * means[k]) + fee)
                        here = rate * ticks[k] + paid
                        if here < end:
                            end, piece = here, k
                    span = slot if s * slot >= begin else (s + 1) * slot - begin
                    left, closed = need, need if s == last else min(need, span / work.least[i])
                    paid, k = taken, 0
                    while left > 1e-12 * need and (k < n or closed > 0):
                        if closed > 0 and (k == n or cost[k] >= end):
                            amount = min(left, closed)
                            paid += amount * end
                            if turn == 1 and s == goal and s < last:
                                usage[s] += many * amount * (each * (part + fast * means[piece]) + fee)
                                if place0 + s < stop0:
                                    fees.taken[place0 + s] += many * amount
                            closed = 0.0
                        else:
                            amount = min(left, free[k])
                            paid += amount * cost[k]
                            if turn == 1 and s == goal:
                                at = place[k] // len(shape.ratios)
                                square = part + fast * shape.ratios[place[k] % len(shape.ratios)] ** 2
                                usage[at] += many * amount * each * square
                                if place0 + at < stop0:
                                    usage[at] += many * amount * part * fees.ticks[place0 + at]
                                    fees.taken[place0 + at] += many * amount
                            k += 1
                        left -= amount
                    if work.first[i] > 0:
                        rest = 1.0
                        for k in range(n1):
                            amount = min(rest, free1[k])
                            paid += amount * cost1[k]
                            rest -= amount
                            if turn == 1 and s == goal and place1[k] < last:
                                at = place1[k]
                                usage[at] += many * amount * work.first[i]
                                if place0 + at < stop0:
                                    usage[at] += many * amount * part * fees.ticks[place0 + at]
                                    fees.taken[place0 + at] += many * amount
                    if s < last and work.extra[i] > 0:  # the dearest work in the cheapest pieces
                        rest = 1.0
                        for k in range(n2):
                            after = max(0.0, rest - free2[k] / work.heavy[i])
                            amount = work.extra[i] * (rest * rest - after * after)
                            paid, rest = paid + amount * cost2[k], after
                            if turn == 1 and s == goal:
                                square = part + fast * shape.ratios[place2[k] % len(shape.ratios)] ** 2
                                usage[place2[k] // len(shape.ratios)] += many * amount * square
                    if left <= 1e-12 * need and paid < best:
                        best, chosen = paid, s
                        far = min(last, int((arrival + best / rate) // slot) + 1)
                        later = 0.0 if far == last else every * price[low : far + 1].min()
                if s < last:
                    span = slot if s * slot >= begin else (s + 1) * slot - begin
                    for k in range(pieces):
                        here = price[s] * (each * (part + fast * shape.ratios[k] ** 2) + fee)
                        mark = s * len(shape.ratios) + k
                        n, total = insert(cost, free, place, n, here, span * room[k], mark, need, total)
            if turn == 0:
                if chosen < 0 or best <= rate * work.alone[i]:
                    best = rate * work.alone[i]
                    break
                goal = chosen
        value += many * best
    return value
