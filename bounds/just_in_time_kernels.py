"""The search of `just_in_time.py` over arrays; compiled where numba is installed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates import labels
from kvcore.certificates.frontier import DECODES, PREFILLS, TRANSFERRED, VALUES, ZERO, duration, fits, turns
from kvcore.certificates.labels import EMPTY, FREE, FULL, MOST, NO, ROWS, TARGET, TRIED, mixed
from kvcore.certificates.options import Load
from kvcore.compiled import compiled, inlined
from kvcore.limits import DEVICE, LIMITS, SHARED, TOKENS

DROP, OUT, IN, WORK, FLEX = range(5)
"""Columns of an option: tokens dropped, swapped out, swapped in, and processed; and which of these is still open."""
MOST_OPTIONS = 12
"""Most options of a request."""
REQUESTS = len(Load._fields)
"""The last column of a load."""
COLUMNS = tuple((*Load._fields, "requests").index(limit.column) for limit in LIMITS)


class Chains(NamedTuple):
    """Requests as chains of tokens, and the machine; times are in ticks times `divisor`."""

    length: Any
    context: Any  # [requests, tokens]: tokens that are processed when a token is generated
    call: Any  # [requests, tokens]: the call after a token
    calls: Any  # [requests, tokens]: whether there is one
    rest: Any  # [requests, tokens]: what follows the end of a token at the least
    rate: Any  # [requests]: above `low`
    low: int
    busy: int
    each: int
    token: int
    swap_in_ticks: int
    divisor: int
    block: int
    chunked: bool
    partial: bool
    evict: bool
    linear: Any  # [functions, counts of a load]
    fixed_costs: Any  # as in `frontier.Problem`, and so are the next two
    limits: Any
    hybrid: bool
    width: int  # labels with the same tokens left that are followed
    order: Any  # [tokens left, requests]: the next token of each in an order to keep to
    slack: int  # by how many tokens a request may be before it, or behind


class Steps(NamedTuple):
    """Labels reached, and work space."""

    labels: labels.Labels
    token: Any  # [labels, requests]: the next token
    device: Any  # ... of its KV, tokens on the device
    host: Any
    ready: Any  # ... when it may be worked on
    window: Any  # ... whether its KV may move as a free call began, and no work since
    time: Any
    ends: Any
    start: Any  # of the batch before
    moves: Any  # [labels, requests, DROP .. WORK]
    followed: Any
    waits: Any
    works: Any
    option: Any  # [requests, options, DROP .. FLEX]
    many: Any
    pick: Any
    chosen: Any  # [requests, DROP .. WORK]
    load: Any
    loads: Any


@compiled
def expand(p, f, at):
    """Add what a label leads to, if it is followed."""
    x = f.labels
    f.followed[x.left[at]] += 1
    if f.followed[x.left[at]] > p.width:
        return EMPTY
    now = f.time[at]
    while now != NO:
        batches(p, f, at, now)
        now = following(p, f, at, now)
    return FULL if x.count[ROWS] >= x.count[MOST] else EMPTY


@inlined
def following(p, f, at, now):
    """Return when the next request is ready after a tick (NO: none)."""
    found = NO
    for i in range(len(p.length)):
        ready = f.ready[at, i]
        if f.token[at, i] < p.length[i] and ready > now and (found == NO or ready < found):
            found = ready
    return found


@inlined
def offer(f, i, drop, out, back, work, flex):
    """Add an option of a request."""
    f.option[i, f.many[i], DROP], f.option[i, f.many[i], OUT] = drop, out
    f.option[i, f.many[i], IN], f.option[i, f.many[i], WORK] = back, work
    f.option[i, f.many[i], FLEX] = flex
    f.many[i] += 1


@compiled
def offers(p, f, at, i, now):
    """Write the options of a request: all that it has or lacks, or one open amount."""
    f.many[i] = 0
    offer(f, i, 0, 0, 0, 0, NO)
    k, device, host, window = f.token[at, i], f.device[at, i], f.host[at, i], f.window[at, i]
    if k == p.length[i]:
        return
    if device and (window or p.evict):
        offer(f, i, device, 0, 0, 0, NO)
        offer(f, i, 0, device, 0, 0, NO)
        if p.partial:
            offer(f, i, 0, 0, 0, 0, DROP)
            offer(f, i, 0, 0, 0, 0, OUT)
    if host:
        offer(f, i, 0, 0, host, 0, NO)
        if p.partial:
            offer(f, i, 0, 0, 0, 0, IN)
        elif p.evict and not window:
            offer(f, i, host, 0, 0, 0, NO)
    if f.ready[at, i] > now:
        return
    offer(f, i, 0, 0, host, p.context[i, k] - device - host, NO)
    if p.chunked and p.context[i, k] - device - host > 1:
        offer(f, i, 0, 0, host, 0, WORK)
    if host and window:
        offer(f, i, host, 0, 0, p.context[i, k] - device, NO)
        if p.chunked:
            offer(f, i, host, 0, 0, 0, WORK)


@compiled
def add_load(p, f, at, i):
    """Add what a request does to a batch."""
    drop, out, back, work = f.chosen[i, DROP], f.chosen[i, OUT], f.chosen[i, IN], f.chosen[i, WORK]
    from_host, x = min(f.host[at, i], drop), f.load
    device = f.device[at, i] - drop + from_host - out + back
    over = f.token[at, i] == p.length[i]
    missing = 0 if over else p.context[i, f.token[at, i]] - device
    decode = work > 0 and device > 0 and missing == 1
    prefill = work > 0 and not decode
    x[0], x[1], x[2] = -(-(device + work) // p.block), f.host[at, i] - from_host + out - back, work
    x[3], x[4], x[5], x[6] = work * prefill, decode, prefill, 0 < work == missing
    x[7], x[8], x[9] = device * decode, device * prefill, (work + 2 * device) * work * prefill
    x[10], x[11], x[12], x[13], x[REQUESTS] = out, back, out > 0, back > 0, work > 0
    for r in range(SHARED):
        f.loads[i + 1, r] = f.loads[i, r] + x[COLUMNS[r]]
    f.loads[i + 1, DECODES] = f.loads[i, DECODES] + decode
    f.loads[i + 1, PREFILLS] = f.loads[i, PREFILLS] + prefill
    f.loads[i + 1, TRANSFERRED] = f.loads[i, TRANSFERRED] + out + back
    for k in range(len(p.linear)):
        value = f.loads[i, VALUES + k]
        for c in range(REQUESTS):
            value += p.linear[k, c] * x[c]
        f.loads[i + 1, VALUES + k] = value


@compiled
def batches(p, f, at, now):
    """Add what batches that start at a tick lead to, with at most one partial amount."""
    n = len(p.length)
    for i in range(n):
        offers(p, f, at, i, now)
    j, f.pick[0] = 0, NO
    while j >= 0:
        f.pick[j] += 1
        if f.pick[j] == f.many[j]:
            j -= 1
            continue
        flex, is_open = f.option[j, f.pick[j], FLEX], False
        for i in range(j):
            is_open = is_open or f.option[i, f.pick[i], FLEX] != NO
        if flex != NO and is_open:
            continue
        for c in range(4):
            f.chosen[j, c] = f.option[j, f.pick[j], c]
        if flex in (DROP, OUT):  # all of it, as yet
            f.chosen[j, flex] = f.device[at, j]
        add_load(p, f, at, j)
        f.labels.count[TRIED] += 1
        if f.loads[j + 1, DEVICE] > p.limits[DEVICE] or f.loads[j + 1, TOKENS] > p.limits[TOKENS]:
            continue
        if j + 1 < n:
            j += 1
            f.pick[j] = NO
        elif is_in_time(p, f, at, now):
            flexible = NO
            for i in range(n):
                if f.option[i, f.pick[i], FLEX] != NO:
                    flexible = i
            if flexible == NO:
                step(p, f, at, now)
            else:
                column = f.option[flexible, f.pick[flexible], FLEX]
                amounts(p, f, at, now, flexible, column)
                ticks(p, f, at, flexible, column, f.device[at, flexible] if column in (DROP, OUT) else 0)


@inlined
def is_in_time(p, f, at, now):
    """Whether a batch works on a request that is ready now: it might else start before."""
    found = now == f.time[at]
    for i in range(len(p.length)):
        found = found or (f.ready[at, i] == now and (f.chosen[i, WORK] > 0 or f.option[i, f.pick[i], FLEX] == WORK))
    return found


@compiled
def ticks(p, f, at, i, column, amount):
    """Return the ticks of a batch at an open amount (NO: it does not fit)."""
    f.chosen[i, column] = amount
    for j in range(i, len(p.length)):
        add_load(p, f, at, j)
    n = len(p.length)
    if not fits(p, f.loads, n):
        return NO
    return duration(p, f.loads, n) * p.divisor


@compiled
def amounts(p, f, at, now, i, column):
    """Add what a batch leads to with each amount that is just enough, or just in time (`just_in_time.py`)."""
    n, device, host = len(p.length), f.device[at, i], f.host[at, i]
    if column == WORK:
        largest = p.context[i, f.token[at, i]] - device - host + min(host, f.chosen[i, DROP]) - 1
    else:
        largest = host if column == IN else device
    alone = ticks(p, f, at, i, column, 0 if column != WORK else 1)
    least = 1
    if column in (DROP, OUT):
        low, high = 0, largest
        while low < high:  # the least that makes room
            middle = (low + high) // 2
            if ticks(p, f, at, i, column, middle) == NO:
                low = middle + 1
            else:
                high = middle
        least = max(1, low)
        if 1 < least < largest and ticks(p, f, at, i, column, least) != NO:
            step(p, f, at, now)
        if column == DROP:
            return
    if least > largest or ticks(p, f, at, i, column, least) == NO:
        return
    top = last_within(p, f, at, i, column, least, largest, 2**60)
    if column != OUT and top < largest:
        ticks(p, f, at, i, column, top)
        step(p, f, at, now)
    for j in range(-1, n):
        until = alone
        if j >= 0:
            until = f.ready[at, j] - now if f.token[at, j] < p.length[j] and j != i else NO
        if until <= 0 or ticks(p, f, at, i, column, least) > until:
            continue
        found = last_within(p, f, at, i, column, least, top, until)
        if found < largest:
            ticks(p, f, at, i, column, found)
            step(p, f, at, now)
            if j >= 0 and found + 1 < largest and found < top:
                ticks(p, f, at, i, column, found + 1)
                step(p, f, at, now)


@compiled
def last_within(p, f, at, i, column, low, high, until):
    """Return the largest amount that fits, in a batch of at most `until` ticks."""
    while low < high:
        middle = (low + high + 1) // 2
        took = ticks(p, f, at, i, column, middle)
        if took == NO or took > until:
            high = middle - 1
        else:
            low = middle
    return low


@compiled
def step(p, f, at, now):
    """Add the label after a batch, if it may beat the best end, and no other is as good."""
    x, n = f.labels, len(p.length)
    new = x.count[FREE]
    if not fits(p, f.loads, n) or f.loads[n, TOKENS] + f.loads[n, TRANSFERRED] == 0:
        return
    for i in range(n):  # a drop that makes no room
        is_all = f.chosen[i, DROP] > 0 and f.chosen[i, DROP] == f.device[at, i] and f.chosen[i, WORK] == 0
        if is_all and f.loads[n, DEVICE] + -(-f.device[at, i] // p.block) <= p.limits[DEVICE]:
            return
    end, key = now + duration(p, f.loads, n) * p.divisor, 0
    f.time[new], f.ends[new], x.left[new], f.start[new] = end, f.ends[at], x.left[at], now
    for i in range(n):
        drop, out, back, work = f.chosen[i, DROP], f.chosen[i, OUT], f.chosen[i, IN], f.chosen[i, WORK]
        from_host, k = min(f.host[at, i], drop), f.token[at, i]
        device, host = f.device[at, i] - drop + from_host - out + back, f.host[at, i] - from_host + out - back
        f.token[new, i], f.ready[new, i] = k, f.ready[at, i]
        f.device[new, i], f.host[new, i] = device + work, host
        f.window[new, i] = f.window[at, i] and work == 0
        if work and device + work == p.context[i, k]:
            f.token[new, i], f.ready[new, i], f.window[new, i] = k + 1, end + p.call[i, k], p.calls[i, k]
            x.left[new] -= 1
            if k + 1 == p.length[i]:
                f.ends[new] += (p.low + p.rate[i]) * end
                f.device[new, i] = 0
        key = mixed(key, f.token[new, i])
        for c in range(4):
            f.moves[new, i, c] = f.chosen[i, c]
    for i in range(n):
        if abs(f.token[new, i] - p.order[x.left[new], i]) > p.slack:
            return
    x.key[new] = key
    add(p, f, at)
    if x.left[new] == 0:
        x.count[TARGET] = min(x.count[TARGET], x.bound[new])


@compiled
def covers(p, f, one, other):
    """Whether a label has all that another has with the same tokens, no later."""
    if f.time[one] > f.time[other] or f.ends[one] > f.ends[other]:
        return False
    for i in range(len(p.length)):
        if f.token[one, i] != f.token[other, i]:
            return False
        if f.token[one, i] < p.length[i] and (
            max(f.time[one], f.ready[one, i]) > max(f.time[other], f.ready[other, i])
            or f.device[one, i] < f.device[other, i] or f.host[one, i] < f.host[other, i]
            or f.window[one, i] < f.window[other, i]
        ):  # fmt: skip
            return False
    return True


@compiled
def least(p, f, at):
    """Return about the least end through a label: next tokens take turns, then each has its own time."""
    total, tails, m, now = f.ends[at], 0, ZERO, f.time[at]
    alone = total
    for i in range(len(p.length)):
        k = f.token[at, i]
        if k == p.length[i]:
            continue
        wait = max(0, f.ready[at, i] - now)
        lacks = p.context[i, k] - f.device[at, i] - f.host[at, i]
        if f.host[at, i]:
            wait = max(wait, min(p.swap_in_ticks * f.host[at, i], p.each * f.host[at, i]))
        work = p.token + p.each * lacks
        own = now + wait + p.busy + work + p.rest[i, k]
        alone += (p.low + p.rate[i]) * own
        total += p.rate[i] * own
        tails += now + p.rest[i, k]
        f.waits[m], f.works[m] = wait + p.busy, work
        m += 1
    return max(alone, total + p.low * (tails + turns(f.waits, f.works, m)))


add = labels.adding(covers, least)
search = labels.searching(expand)


def room(requests: int, most: int, tokens: int, columns: int) -> Steps:
    """Return arrays for these labels; only written pages take memory."""

    def numbers(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    return Steps(
        labels=labels.room(most),
        **{name: numbers(most + 1, requests) for name in ("token", "device", "host", "ready", "window")},
        **{name: numbers(most + 1) for name in ("time", "ends", "start")},
        **{name: numbers(requests) for name in ("waits", "works", "many", "pick")},
        moves=numbers(most + 1, requests, 4), followed=numbers(tokens + 1),
        option=numbers(requests, MOST_OPTIONS, 5), chosen=numbers(requests, 4),
        load=numbers(REQUESTS + 1), loads=numbers(requests + 1, columns),
    )  # fmt: skip
