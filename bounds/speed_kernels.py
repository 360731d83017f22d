"""Compiled: the cheapest speeds of requests under prices of work, in floating point.

As `kvcore/certificates/speed.py`, but the slot, or cell, of a first token counts as whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import allocating, compiled

FAR = 1e300


class RequestWork(NamedTuple):
    """Of each request, [n]: arrival, least time alone, the cost of a tick; and its groups of tokens.

    `first` work for the token before all others, its least `time` and the ticks `after` it (0 work: there is none);
    `count` others, from `begin` on, of `each` work, that take `least` ticks; besides, `extra` work of the `heavy` ones
    among them, growing evenly. `requests` are like this. In each of the other lines, [lines, n]: work of its first
    token and its least time, and what each of the others has besides.
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
    heads: Any
    quick: Any
    besides: Any


class Shape(NamedTuple):
    """Slots: length, fixed part of a batch, and ratios at which tangents touch, 1 first.

    Where it is `ordered`, the other tokens begin after the first, which comes in one of the `cells` of a slot.
    """

    slot: float
    fixed: float
    ratios: Any
    ordered: bool
    cells: int = 1


class Fees(NamedTuple):
    """Payment other than by speed: this `part` of prices, besides for work for `ticks` a token.

    Those of request i are in `first`[i] to `first`[i + 1] - 1, for the slots from `start`[i] on; use goes to `taken`.
    """

    part: float
    first: Any
    start: Any
    ticks: Any
    taken: Any


@compiled
def insert(cost, room, place, n, price, more, where, need, total):
    """Put a piece among the sorted ones, drop those beyond the need; return their number and room."""
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


@compiled
def speeds(least, shape, room, ticks, means):
    """Fill tokens per tick of each piece, a token's ticks at its end and its mean ratio; return the pieces."""
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


@compiled
def first_pieces(cost, room, place, n, price, work, fee, part, ratios, rooms, span, where, total):
    """Put the pieces of one slot for a first token among the sorted ones; return as `insert`."""
    for k in range(len(rooms)):
        each = price * (work * (part + (1 - part) * ratios[k] ** 2) + fee)
        n, total = insert(cost, room, place, n, each, span * rooms[k], where + k, 1.0, total)
        if total >= 1.0 and each >= cost[n - 1]:
            break
    return n, total


@compiled
def cheapest(cost, room, n, others, more, m):
    """Return what a first token pays in the cheapest of n sorted pieces and m others (FAR: too little room)."""
    paid, left, k = 0.0, 1.0, 0
    for j in range(m + 1):
        while k < n and (j == m or cost[k] <= others[j]):
            paid += min(left, room[k]) * cost[k]
            left -= min(left, room[k])
            k += 1
        if j < m:
            paid += min(left, more[j]) * others[j]
            left -= min(left, more[j])
    return FAR if left > 1e-9 else paid


@allocating
def pay(work, shape, fees, prices, usages):
    """Return the least that all take and pay; add the work at these speeds to `usages` [lines, slots]."""
    part, fast, price, usage, lines = fees.part, 1 - fees.part, prices[0], usages[0], len(prices) - 1
    slot, last, pieces = shape.slot, len(price), len(shape.ratios)
    room, ticks, means = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    room1, ticks1, means1 = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    size = 4000
    cost, free, place = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost1, free1, place1 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost2, free2, place2 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    costs, frees, places = np.empty((lines, size)), np.empty((lines, size)), np.empty((lines, size), np.int64)
    counts, totals = np.zeros(lines, np.int64), np.zeros(lines)
    others, rooms = np.empty(pieces), np.empty(pieces)
    value, known = 0.0, np.zeros(last + 1)
    for i in range(len(work.arrival)):
        arrival, begin, need, rate, each = work.arrival[i], work.begin[i], work.count[i], work.rate[i], work.each[i]
        many, alone = work.requests[i], arrival + work.alone[i]
        pieces = speeds(work.least[i], shape, room, ticks, means)
        pieces1 = speeds(work.time[i], shape, room1, ticks1, means1)
        start, best, chosen = min(last, int(begin // slot)), FAR, -1
        low, ordered = min(last, int(arrival // slot)), shape.ordered and work.first[i] > 0
        cells = shape.cells if ordered else 1
        goal, later, rest = last, 0.0, alone - begin
        since = begun = min(last * cells, int(begin // (slot / cells)))
        place0, stop0 = fees.first[i] - fees.start[i], fees.first[i + 1]
        every = need * each + work.extra[i] + (0 if ordered else work.first[i])
        known[start:] = 0.0
        heads = work.first[i] > 0 or lines > 0
        for turn in range(2):
            n1, total1, done = 0, 0.0, low
            counts[:], totals[:] = 0, 0.0
            for cell in range(since, (last * cells if ordered and turn == 0 else since) + 1):  # that of the first token
                first, within = cell // cells, cell % cells
                upto = first * slot + math.ceil(slot * (within + 1) / cells)
                ready = max(begin, first * slot + math.floor(slot * within / cells))
                if turn == 0 and rate * (ready + rest - arrival) + later >= best:
                    break
                n, total, n2, total2, sure, until = 0, 0.0, 0, 0.0, 0.0, goal
                for s in range(first, goal + 1):
                    span = slot if s * slot >= ready else (s + 1) * slot - ready
                    if heads and (s == first or not ordered):
                        close = last if s == last else s - (1 - turn if ordered else int(work.after[i] // slot))
                        while done <= close:
                            mark, span1 = done * len(shape.ratios), min(slot, (done + 1) * slot - arrival)
                            if ordered and done == s:
                                span1 = upto - max(arrival, s * slot)
                            for k in range(lines):
                                each1 = 0.0 if done == last else prices[k + 1, done] * work.heads[k, i]
                                room2 = 1.0 if done == last else span1 / work.quick[k, i]
                                counts[k], totals[k] = insert(
                                    costs[k], frees[k], places[k], counts[k], each1, room2, done, 1.0, totals[k]
                                )
                            if work.first[i] == 0:
                                pass
                            elif done == last:
                                n1, total1 = insert(cost1, free1, place1, n1, 0.0, 1.0, mark, 1.0, total1)
                            else:
                                fee = part * fees.ticks[place0 + done] if place0 + done < stop0 else 0.0
                                n1, total1 = first_pieces(
                                    cost1, free1, place1, n1, price[done], work.first[i], fee, part, shape.ratios,
                                    room1[:pieces1], span1, mark, total1,
                                )  # fmt: skip
                            done += 1
                        more1, span1 = 0, upto - max(arrival, s * slot)
                        if ordered and turn == 0 and s < last:  # the cell, besides the slots before
                            more1, fee = pieces1, part * fees.ticks[place0 + s] if place0 + s < stop0 else 0.0
                            for k in range(pieces1):
                                others[k] = price[s] * (work.first[i] * (part + fast * shape.ratios[k] ** 2) + fee)
                                rooms[k] = span1 * room1[k]
                        sure = cheapest(cost1, free1, n1, others, rooms, more1) if work.first[i] > 0 else 0.0
                        for k in range(lines):
                            others[0] = prices[k + 1, min(s, last - 1)] * work.heads[k, i]
                            rooms[0] = span1 / work.quick[k, i]
                            sure += cheapest(costs[k], frees[k], counts[k], others, rooms, min(1, more1))
                        if ordered and turn == 0:
                            if sure >= FAR:
                                break
                            until = first - 1
                            for k in range(first, last + 1):  # the last end that may be better
                                if rate * (max(k * slot, ready) - arrival) + later + sure >= best:
                                    break
                                if known[k] + sure < best:
                                    until = k
                    if s > until:
                        break
                    taken = rate * (max(s * slot, ready) - arrival)
                    if turn == 0 and taken + later + (sure if ordered else 0.0) >= best:
                        break
                    if s < last and work.extra[i] > 0:
                        for k in range(pieces):
                            here, mark = price[s] * (part + fast * shape.ratios[k] ** 2), s * len(shape.ratios) + k
                            n2, total2 = insert(
                                cost2, free2, place2, n2, here, span * room[k], mark, work.heavy[i], total2
                            )
                    fee = part * fees.ticks[place0 + s] if s < last and place0 + s < stop0 else 0.0
                    more = 0.0  # what a token pays in other lines
                    for k in range(lines if s < last else 0):
                        more += prices[k + 1, s] * work.besides[k, i]
                    fits = (s == last or (s + 1) * slot >= ready + rest) and sure < FAR
                    if fits and (s == goal if turn == 1 else sure + known[s] < best):
                        end, piece = FAR, 0
                        for k in range(pieces):
                            paid = 0.0 if s == last else price[s] * (each * (part + fast * means[k]) + fee) + more
                            here = rate * ticks[k] + paid
                            if here < end:
                                end, piece = here, k
                        left, closed = need, need if s == last else min(need, span / work.least[i])
                        paid, k = taken + sure, 0
                        while left > 1e-12 * need and (k < n or closed > 0):
                            if closed > 0 and (k == n or cost[k] >= end):
                                amount = min(left, closed)
                                paid += amount * end
                                if turn == 1 and s < last:
                                    usage[s] += many * amount * (each * (part + fast * means[piece]) + fee)
                                    for j in range(lines):
                                        usages[j + 1, s] += many * amount * work.besides[j, i]
                                    if place0 + s < stop0:
                                        fees.taken[place0 + s] += many * amount
                                closed = 0.0
                            else:
                                amount = min(left, free[k])
                                paid += amount * cost[k]
                                if turn == 1:
                                    at = place[k] // len(shape.ratios)
                                    square = part + fast * shape.ratios[place[k] % len(shape.ratios)] ** 2
                                    usage[at] += many * amount * each * square
                                    for j in range(lines):
                                        usages[j + 1, at] += many * amount * work.besides[j, i]
                                    if place0 + at < stop0:
                                        usage[at] += many * amount * part * fees.ticks[place0 + at]
                                        fees.taken[place0 + at] += many * amount
                                k += 1
                            left -= amount
                        for j in range(lines if turn == 1 else 0):
                            over = 1.0
                            for k in range(counts[j]):
                                if places[j, k] < last:
                                    usages[j + 1, places[j, k]] += many * min(over, frees[j, k]) * work.heads[j, i]
                                over -= min(over, frees[j, k])
                        over = 1.0
                        for k in range(n1 if turn == 1 else 0):
                            amount, at = min(over, free1[k]), place1[k] // len(shape.ratios)
                            square = part + fast * shape.ratios[place1[k] % len(shape.ratios)] ** 2
                            over -= amount
                            if at < last:
                                usage[at] += many * amount * work.first[i] * square
                                if place0 + at < stop0:
                                    usage[at] += many * amount * part * fees.ticks[place0 + at]
                                    fees.taken[place0 + at] += many * amount
                        if s < last and work.extra[i] > 0:  # the dearest work in the cheapest pieces
                            over = 1.0
                            for k in range(n2):
                                after = max(0.0, over - free2[k] / work.heavy[i])
                                amount = work.extra[i] * (over * over - after * after)
                                paid, over = paid + amount * cost2[k], after
                                if turn == 1:
                                    square = part + fast * shape.ratios[place2[k] % len(shape.ratios)] ** 2
                                    usage[place2[k] // len(shape.ratios)] += many * amount * square
                        if turn == 0:
                            known[s] = paid - sure
                        if left <= 1e-12 * need and paid < best:
                            best, chosen, begun = paid, s, cell
                            far = min(last, int((arrival + best / rate) // slot) + 1)
                            later = 0.0 if far == last else every * price[low : far + 1].min()
                    if s < last:
                        for k in range(pieces):
                            here = price[s] * (each * (part + fast * shape.ratios[k] ** 2) + fee) + more
                            if n > 0 and total >= need and here >= cost[n - 1]:
                                break
                            mark = s * len(shape.ratios) + k
                            n, total = insert(cost, free, place, n, here, span * room[k], mark, need, total)
            if turn == 0:
                if chosen < 0 or best <= rate * work.alone[i]:
                    best = rate * work.alone[i]
                    break
                goal, since = chosen, begun
        value += many * best
    return value


@allocating
def pay_by(work, shape, fees, price, usage, within):
    """Return the least that all pay if each ends `within` these ticks, and add up their work as `pay`."""
    part, fast = fees.part, 1 - fees.part
    slot, last, pieces = shape.slot, len(price), len(shape.ratios)
    room, ticks, means = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    room1, ticks1, means1 = np.empty(pieces), np.empty(pieces), np.empty(pieces)
    size = 4000
    cost, free, place = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost1, free1, place1 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    cost2, free2, place2 = np.empty(size), np.empty(size), np.empty(size, np.int64)
    value, sure = 0.0, np.zeros(last)
    for i in range(len(work.arrival)):
        arrival, begin, need, each, many = work.arrival[i], work.begin[i], work.count[i], work.each[i], work.requests[i]
        due, low, start = arrival + within, int(arrival // slot), int(begin // slot)
        stop, ordered = int(due // slot), shape.ordered and work.first[i] > 0
        if stop >= last or start > stop:
            continue
        place0, stop0 = fees.first[i] - fees.start[i], fees.first[i + 1]
        pieces = speeds(work.least[i], shape, room, ticks, means)
        pieces1 = speeds(work.time[i], shape, room1, ticks1, means1)
        best, chosen, sure[start] = FAR, start, 0.0
        for turn in range(2):
            n1, total1, early = 0, 0.0, (stop + 1) * slot if ordered else due - work.after[i]
            for s in range(low, (min(stop, int(early // slot)) if turn == 0 or not ordered else chosen) + 1):
                if work.first[i] == 0:
                    break
                fee = part * fees.ticks[place0 + s] if place0 + s < stop0 else 0.0
                span = min((s + 1) * slot, early) - max(s * slot, arrival)
                n1, total1 = first_pieces(
                    cost1, free1, place1, n1, price[s], work.first[i], fee, part, shape.ratios,
                    room1[:pieces1], span, s * len(shape.ratios), total1,
                )  # fmt: skip
                if turn == 0:
                    sure[s], left = 0.0, 1.0
                    for k in range(n1):
                        sure[s] += min(left, free1[k]) * cost1[k]
                        left -= min(left, free1[k])
                    if left > 1e-9:
                        sure[s] = FAR
                if turn == 0 and not ordered:
                    sure[start] = sure[s]
            n, total, n2, total2 = 0, 0.0, 0, 0.0
            for s in range(stop, (start if turn == 0 else chosen) - 1, -1):
                fee = part * fees.ticks[place0 + s] if place0 + s < stop0 else 0.0
                whole = (s + 1) * slot - max(s * slot, begin)
                span = whole - (max(0.0, (s + 1) * slot - due) if s == stop else 0.0)
                for k in range(pieces):
                    mark = s * len(shape.ratios) + k
                    square = part + fast * shape.ratios[k] ** 2
                    here = price[s] * (each * square + fee)
                    full = total >= need and n > 0 and here >= cost[n - 1]
                    if full and (work.extra[i] == 0 or (n2 > 0 and total2 >= work.heavy[i])):
                        break
                    n, total = insert(cost, free, place, n, here, span * room[k], mark, need, total)
                    if work.extra[i] > 0:
                        n2, total2 = insert(
                            cost2, free2, place2, n2, price[s] * square, whole * room[k], mark, work.heavy[i], total2
                        )
                if turn == 0 and ((s > start and not ordered) or total < need * (1 - 1e-9)):
                    continue
                if turn == 1 and s > chosen:
                    continue
                paid, left = (sure[s] if work.first[i] > 0 else 0.0), need
                for k in range(n):
                    amount = min(left, free[k])
                    paid, left = paid + amount * cost[k], left - amount
                    if turn == 1:
                        at = place[k] // len(shape.ratios)
                        square = part + fast * shape.ratios[place[k] % len(shape.ratios)] ** 2
                        usage[at] += many * amount * each * square
                        if place0 + at < stop0:
                            usage[at] += many * amount * part * fees.ticks[place0 + at]
                            fees.taken[place0 + at] += many * amount
                more = 1.0
                for k in range(n2):
                    after = max(0.0, more - free2[k] / work.heavy[i])
                    amount = work.extra[i] * (more * more - after * after)
                    paid, more = paid + amount * cost2[k], after
                    if turn == 1:
                        square = part + fast * shape.ratios[place2[k] % len(shape.ratios)] ** 2
                        usage[place2[k] // len(shape.ratios)] += many * amount * square
                more = 1.0
                for k in range(n1 if turn == 1 else 0):
                    amount, at = min(more, free1[k]), place1[k] // len(shape.ratios)
                    square = part + fast * shape.ratios[place1[k] % len(shape.ratios)] ** 2
                    more -= amount
                    usage[at] += many * amount * work.first[i] * square
                    if place0 + at < stop0:
                        usage[at] += many * amount * part * fees.ticks[place0 + at]
                        fees.taken[place0 + at] += many * amount
                if paid < best:
                    best, chosen = paid, s
            if best == FAR:
                break
        if best < FAR:
            value += many * best
    return value
