"""Compiled: the cheapest speeds of requests under prices of work, in floating point.

As `kvcore/certificates/speed.py`, but the slot, or cell, of a first token counts as whole.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import allocating, compiled, inlined

FAR = 1e300
TAIL, HEAVY, HEAD, LINES = range(4)
"""Rows of `Pieces`: tokens after the first, the heaviest of them, the first token, and that in each other line."""


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


class Speeds(NamedTuple):
    """Pieces of the speeds of a token: tokens per tick in each, ticks at its end, and payment there at a price of 1."""

    room: Any
    ticks: Any
    mean: Any


class Pieces(NamedTuple):
    """Pieces by row, sorted by cost: room and place (slot and piece) of each; number of pieces and room of a row.

    Pieces of first tokens are of the slots before `done`. `steps` counts pieces that were moved or looked at.
    """

    cost: Any
    room: Any
    place: Any
    count: Any
    total: Any
    done: Any
    steps: Any


class Priced(NamedTuple):
    """What `pay` works on: prices and use of lines [lines, slots], the last slot free, and payments of pieces.

    For one request: speeds of tokens after the first (`tail`) and of the first (`head`), pieces, and what the request
    pays at least by the slot of its end; `others` and `rooms` are pieces of one slot.
    """

    work: RequestWork
    shape: Shape
    fees: Fees
    prices: Any
    usages: Any
    squares: Any
    tail: Speeds
    head: Speeds
    pieces: Pieces
    known: Any
    others: Any
    rooms: Any


@compiled
def fill_speeds(speeds, shape, part, least):
    """Fill in the pieces for a token that takes `least` ticks; return their number."""
    low = 0.0
    for k in range(len(shape.ratios)):
        g, fastest = shape.ratios[k], True
        speeds.ticks[k] = least
        if shape.fixed > 0 and k + 1 < len(shape.ratios):
            both = g + shape.ratios[k + 1]
            slow = shape.fixed * both / (both - 2)
            if slow > least:
                speeds.ticks[k], fastest = slow, False
        speeds.room[k] = 1 / speeds.ticks[k] - low
        low = 1 / speeds.ticks[k]
        mean = 1.0 if g == 1 else g * g - (g - 1) ** 2 * speeds.ticks[k] / shape.fixed
        speeds.mean[k] = part + (1 - part) * mean
        if fastest:
            return k + 1
    return len(shape.ratios)


@compiled
def insert(pieces, row, price, more, where, need):
    """Put a piece among the sorted ones, drop those beyond the need; return whether it is needed."""
    cost, room, place, n, total = (
        pieces.cost[row],
        pieces.room[row],
        pieces.place[row],
        pieces.count[row],
        pieces.total[row],
    )
    if total >= need and (n == 0 or price >= cost[n - 1]):
        return False
    if n == len(cost):
        total -= room[n - 1]
        n -= 1
    k = n
    while k > 0 and cost[k - 1] > price:
        cost[k], room[k], place[k] = cost[k - 1], room[k - 1], place[k - 1]
        k -= 1
    pieces.steps[0] += 1 + n - k
    cost[k], room[k], place[k] = price, more, where
    n += 1
    total += more
    while n > 1 and total - room[n - 1] >= need:
        total -= room[n - 1]
        n -= 1
    pieces.count[row], pieces.total[row] = n, total
    return True


@compiled
def cheapest(pieces, row, need, others, more, m):
    """Return what tokens pay in the cheapest pieces of a row and of m others (FAR: too little room)."""
    paid, left, k, cost, room, n = 0.0, need, 0, pieces.cost[row], pieces.room[row], pieces.count[row]
    for j in range(m + 1):
        while left > 0 and k < n and (j == m or cost[k] <= others[j]):
            amount = min(left, room[k])
            paid, left, k = paid + amount * cost[k], left - amount, k + 1
        if j < m:
            amount = min(left, more[j])
            paid, left = paid + amount * others[j], left - amount
    pieces.steps[0] += 1 + k + m
    return FAR if left > 1e-9 * need else paid


@inlined
def fee(fees, i, slot):
    """Return what a token of request i pays besides for its work where the price is 1."""
    at = fees.first[i] - fees.start[i] + slot
    return fees.part * fees.ticks[at] if at < fees.first[i + 1] else 0.0


@inlined
def extra(given, i, slot):
    """Return what a token after the first pays besides for its work in the first line."""
    paid = given.prices[0, slot] * fee(given.fees, i, slot)
    for k in range(len(given.prices) - 1):
        paid += given.prices[k + 1, slot] * given.work.besides[k, i]
    return paid


@inlined
def clear(pieces, first, stop):
    """Forget the pieces of these rows."""
    for row in range(first, stop):
        pieces.count[row], pieces.total[row] = 0, 0.0


@inlined
def add(given, row, speeds, count, price, besides, span, slot, need):
    """Put the pieces of some ticks of a slot among those of a row: `price` for work, and `besides`."""
    for k in range(count):
        each, place = price * given.squares[k] + besides, slot * len(given.squares) + k
        if not insert(given.pieces, row, each, span * speeds.room[k], place, need):
            break


@compiled
def add_tail(given, i, count, slot, span):
    """Put ticks of a slot among the pieces of the tokens after the first."""
    each = given.prices[0, slot] * given.work.each[i]
    add(given, TAIL, given.tail, count, each, extra(given, i, slot), span, slot, given.work.count[i])


@compiled
def add_heavy(given, i, count, slot, span):
    """Put ticks of a slot among the pieces of the heaviest tokens."""
    if given.work.extra[i] > 0:
        add(given, HEAVY, given.tail, count, given.prices[0, slot], 0.0, span, slot, given.work.heavy[i])


@compiled
def add_head(given, i, count, slot, span):
    """Put ticks of a slot among the pieces of the first token, in all lines."""
    price, first = given.prices[0, slot], given.work.first[i]
    if first > 0:
        add(given, HEAD, given.head, count, price * first, price * fee(given.fees, i, slot), span, slot, 1.0)
    for k in range(len(given.prices) - 1):
        each, room = given.prices[k + 1, slot] * given.work.heads[k, i], span / given.work.quick[k, i]
        insert(given.pieces, LINES + k, each, room, slot * len(given.squares), 1.0)


@inlined
def add_heads(given, i, count, stop):
    """Put the slots up to `stop` that are not yet there among the pieces of the first token."""
    for slot in range(given.pieces.done[0], stop):
        left = (slot + 1) * given.shape.slot - given.work.arrival[i]
        add_head(given, i, count, slot, min(left, given.shape.slot))
    given.pieces.done[0] = max(given.pieces.done[0], stop)


@compiled
def head_by(given, i, count, slot, span):
    """Return what the first token pays in its pieces and these ticks of a slot (FAR: too little room)."""
    price, paid = given.prices[0, slot], 0.0
    if given.work.first[i] > 0:
        for k in range(count):
            given.others[k] = price * (given.work.first[i] * given.squares[k] + fee(given.fees, i, slot))
            given.rooms[k] = span * given.head.room[k]
        paid = cheapest(given.pieces, HEAD, 1.0, given.others, given.rooms, count)
    for k in range(len(given.prices) - 1):
        given.others[0] = given.prices[k + 1, slot] * given.work.heads[k, i]
        given.rooms[0] = span / given.work.quick[k, i]
        paid += cheapest(given.pieces, LINES + k, 1.0, given.others, given.rooms, min(1, count))
    return paid


@inlined
def last_piece(given, i, count, slot):
    """Return the least that a token costs if the last ends in this slot, and in which piece of its speeds."""
    price, besides, least, piece = given.prices[0, slot], extra(given, i, slot), FAR, 0
    for k in range(count):
        here = given.work.rate[i] * given.tail.ticks[k] + price * given.work.each[i] * given.tail.mean[k] + besides
        if here < least:
            least, piece = here, k
    return least, piece


@inlined
def heaviest(given, i):
    """Return what the heaviest tokens pay besides: the dearest work in the cheapest pieces."""
    paid, over, pieces = 0.0, 1.0, given.pieces
    for k in range(pieces.count[HEAVY]):
        after = max(0.0, over - pieces.room[HEAVY, k] / given.work.heavy[i])
        paid += given.work.extra[i] * (over * over - after * after) * pieces.cost[HEAVY, k]
        over = after
    pieces.steps[0] += pieces.count[HEAVY]
    return paid


@compiled
def lowest(prices, first, last):
    """Return the least price of work in these slots."""
    least = prices[0, last]
    for slot in range(first, last):
        least = min(least, prices[0, slot])
    return least


@inlined
def first_in(work, shape, i, cell):
    """Return, for the first token in a cell: its slot, its ticks there, and when the others begin."""
    cells = shape.cells if shape.ordered and work.first[i] > 0 else 1
    slot, within = cell // cells, cell % cells
    since, close = math.floor(shape.slot * within / cells), math.ceil(shape.slot * (within + 1) / cells)
    span = slot * shape.slot + close - max(work.arrival[i], slot * shape.slot)
    return slot, span, max(work.begin[i], slot * shape.slot + since)


@inlined
def last_end(given, i, first, ready, early, best):
    """Return the last slot in which an end may be better."""
    found = first - 1
    for slot in range(first, given.prices.shape[1]):
        if given.work.rate[i] * (max(slot * given.shape.slot, ready) - given.work.arrival[i]) + early >= best:
            break
        if given.known[slot] + early < best:
            found = slot
    return found


@inlined
def pay_in(given, i, tails, heads, cell, best):
    """Return the least that a request takes and pays with its first token in this cell, and the slot of its end.

    None that is not below `best` is looked for (-1).
    """
    work, slot, known, last, end, later = given.work, given.shape.slot, given.known, given.prices.shape[1] - 1, -1, 0.0
    ordered, arrival, early = given.shape.ordered and work.first[i] > 0, work.arrival[i], 0.0
    first, span, ready = first_in(work, given.shape, i, cell)
    clear(given.pieces, TAIL, HEAD)
    if ordered and first < last:
        add_heads(given, i, heads, first)
        early = head_by(given, i, heads, first, span)
    every = work.count[i] * work.each[i] + work.extra[i] + (0.0 if ordered else work.first[i])
    rest = arrival + work.alone[i] - work.begin[i]
    for s in range(first, last_end(given, i, first, ready, early, best) + 1):
        taken, ticks = work.rate[i] * (max(s * slot, ready) - arrival), min(slot, (s + 1) * slot - ready)
        if taken + later + (early if ordered else 0.0) >= best:
            break
        if s < last:
            add_heavy(given, i, tails, s, ticks)
        if not ordered and (work.first[i] > 0 or len(given.prices) > 1):
            add_heads(given, i, heads, min(last, s + 1 - int(work.after[i] // slot)))
            early = 0.0 if s == last else head_by(given, i, 0, s, 0.0)
        if (s == last or (s + 1) * slot >= ready + rest) and early + known[s] < best:
            given.others[0], _ = last_piece(given, i, tails, s)
            given.rooms[0] = work.count[i] if s == last else ticks / work.least[i]
            known[s] = taken + cheapest(given.pieces, TAIL, work.count[i], given.others, given.rooms, 1)
            if s < last:
                known[s] += heaviest(given, i)
            if early + known[s] < best:  # no later end than one that costs as much is better
                best, end = early + known[s], s
                later = every * lowest(
                    given.prices, low_of(given, i), min(last, int((arrival + best / work.rate[i]) // slot) + 1)
                )
        if s < last:
            add_tail(given, i, tails, s, ticks)
    return best, end


@inlined
def low_of(given, i):
    """Return the slot in which a request arrives."""
    return min(given.prices.shape[1] - 1, int(given.work.arrival[i] // given.shape.slot))


@inlined
def pay_one(given, i, tails, heads):
    """Return the least that a request takes and pays; add its use, if that is more than it takes alone."""
    work, shape, pieces, last = given.work, given.shape, given.pieces, given.prices.shape[1] - 1
    slot, ordered, arrival, alone = (
        shape.slot,
        shape.ordered and work.first[i] > 0,
        work.arrival[i],
        work.rate[i] * work.alone[i],
    )
    cells, rest = shape.cells if ordered else 1, arrival + work.alone[i] - work.begin[i]
    start = min(last * cells, int(work.begin[i] // (slot / cells)))
    best, chosen, end = FAR, start, -1
    for s in range(start // cells, last + 1):
        given.known[s] = 0.0
    clear(pieces, HEAD, len(pieces.count))
    pieces.done[0] = low_of(given, i)
    for cell in range(start, (last * cells if ordered else start) + 1):
        first, span, ready = first_in(work, shape, i, cell)
        if work.rate[i] * (ready + rest - arrival) >= best:
            break
        best, found = pay_in(given, i, tails, heads, cell, best)
        if found >= 0:
            chosen, end = cell, found
    if end < 0 or best <= alone:
        return alone
    first, span, ready = first_in(work, shape, i, chosen)
    ticks, (price, piece) = min(slot, (end + 1) * slot - ready), last_piece(given, i, tails, end)
    clear(pieces, TAIL, HEAD)
    for s in range(first, end):
        add_tail(given, i, tails, s, min(slot, (s + 1) * slot - ready))
    for s in range(first, end + 1 if end < last else first):
        add_heavy(given, i, tails, s, min(slot, (s + 1) * slot - ready))
    room = work.count[i] if end == last else ticks / work.least[i]
    insert(pieces, TAIL, price, room, end * len(given.squares) + piece, work.count[i])
    close = first if ordered else last if end == last else end - int(work.after[i] // slot)
    use_first(given, i, heads, close, span if ordered else min(slot, (close + 1) * slot - arrival))
    use(given, i, end)
    return best


@inlined
def pay_due(given, i, tails, heads, due):
    """Return the least that a request pays if it ends by `due`; add its use."""
    work, slot, known, pieces = given.work, given.shape.slot, given.known, given.pieces
    ordered, arrival, begin = given.shape.ordered and work.first[i] > 0, work.arrival[i], work.begin[i]
    low, start, stop, best, chosen = int(arrival // slot), int(begin // slot), int(due // slot), FAR, -1
    if stop >= given.prices.shape[1] - 1 or start > stop:
        return 0.0
    clear(pieces, TAIL, len(pieces.count))
    early = (stop + 1) * slot if ordered else due - work.after[i]
    known[start] = 0.0 if work.first[i] == 0 else FAR
    for s in range(low, int(early // slot) + 1 if work.first[i] > 0 else low):
        if s > stop:
            break
        add_head(given, i, heads, s, min((s + 1) * slot, early) - max(s * slot, arrival))
        known[s if ordered else start] = head_by(given, i, 0, s, 0.0)
    for turn in range(2):
        for s in range(stop, (start if turn == 0 else chosen) - 1, -1):
            span = (s + 1) * slot - max(s * slot, begin)
            add_tail(given, i, tails, s, span - max(0.0, (s + 1) * slot - due))
            add_heavy(given, i, tails, s, span)
            if turn == 0 and (ordered or s == start):
                paid = (
                    known[s] + heaviest(given, i) + cheapest(pieces, TAIL, work.count[i], given.others, given.rooms, 0)
                )
                if paid < best:
                    best, chosen = paid, s
        if chosen < 0:
            return 0.0
        if turn == 0:
            clear(pieces, TAIL, HEAD)
    close = chosen if ordered else min(stop, int(early // slot))
    use_first(given, i, heads, close, min((close + 1) * slot, early) - max(close * slot, arrival))
    use(given, i, -1)
    return best


@compiled
def use_first(given, i, count, slot, span):
    """Keep the pieces of the first token up to these ticks of a slot alone."""
    clear(given.pieces, HEAD, len(given.pieces.count))
    given.pieces.done[0] = low_of(given, i)
    if slot < given.prices.shape[1] - 1:
        add_heads(given, i, count, slot)
        add_head(given, i, count, slot, span)


@compiled
def use(given, i, end):
    """Add up the work of all pieces by slot; in slot `end` that of the last tokens."""
    work, pieces, usages, many, n = given.work, given.pieces, given.usages, given.work.requests[i], len(given.squares)
    for row in range(len(pieces.count)):
        left = work.count[i] if row == TAIL else 1.0
        for k in range(pieces.count[row]):
            slot, piece = pieces.place[row, k] // n, pieces.place[row, k] % n
            square = given.tail.mean[piece] if row == TAIL and slot == end else given.squares[piece]
            amount = min(left, pieces.room[row, k] / (work.heavy[i] if row == HEAVY else 1.0))
            if row == HEAVY:
                usages[0, slot] += many * work.extra[i] * amount * (2 * left - amount) * square
            elif row >= LINES:
                usages[row - LINES + 1, slot] += many * amount * work.heads[row - LINES, i]
            else:
                each, at = (
                    work.each[i] if row == TAIL else work.first[i],
                    given.fees.first[i] - given.fees.start[i] + slot,
                )
                usages[0, slot] += many * amount * (each * square + fee(given.fees, i, slot))
                if at < given.fees.first[i + 1]:
                    given.fees.taken[at] += many * amount
                for j in range(len(usages) - 1 if row == TAIL else 0):
                    usages[j + 1, slot] += many * amount * work.besides[j, i]
            left -= amount


@compiled
def pay_all(given, within):
    """Return the least that all take and pay, or (`within` at least 0) pay if each ends within these ticks."""
    value = 0.0
    for i in range(len(given.work.arrival)):
        tails = fill_speeds(given.tail, given.shape, given.fees.part, given.work.least[i])
        heads = fill_speeds(given.head, given.shape, given.fees.part, given.work.time[i])
        if within < 0:
            value += given.work.requests[i] * pay_one(given, i, tails, heads)
        else:
            value += given.work.requests[i] * pay_due(given, i, tails, heads, given.work.arrival[i] + within)
    return value


@allocating
def pay(work, shape, fees, prices, usages, within):
    """Return what `pay_all` does, and the steps; prices and `usages` [lines, slots] have a last slot that is free."""
    rows, n, most = LINES + len(prices) - 1, len(shape.ratios), 4000  # pieces of a row, at most
    pieces = Pieces(
        np.empty((rows, most)), np.empty((rows, most)), np.empty((rows, most), np.int64),
        np.zeros(rows, np.int64), np.zeros(rows), np.zeros(1, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip
    squares = fees.part + (1 - fees.part) * shape.ratios**2
    tail, head = Speeds(np.empty(n), np.empty(n), np.empty(n)), Speeds(np.empty(n), np.empty(n), np.empty(n))
    room = np.zeros(prices.shape[1]), np.empty(n), np.empty(n)
    paid = pay_all(Priced(work, shape, fees, prices, usages, squares, tail, head, pieces, *room), within)
    return paid, pieces.steps[0]
