"""The sweep of `fresh.py`, over arrays: compiled by numba where it is installed, and the same in plain Python."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates.frontier import HEAP, ROWS, TRIED, ZERO, mixed, pop, push, turns
from kvcore.compiled import compiled, inlined

NO = -1
EMPTY, FOUND, FULL, TIRED, PAUSED = range(5)
"""How a search ends: no label is left below the target, the first one has no token left, or there are no more labels,
no more tries, or a pause."""


class Jobs(NamedTuple):
    """Requests as chains of tokens to generate; all times are in ticks times the divisor of the cost function."""

    length: Any  # [requests]: tokens to generate
    work: Any  # [requests, tokens]: what the fresh tokens of a token take
    fresh: Any  # [requests, tokens]: tokens that are fresh
    early: Any  # [requests, tokens]: how many of them may be processed in batches before the last one
    call: Any  # [requests, tokens]: the call after a token
    rest: Any  # [requests, tokens]: what follows the end of a token at the least
    busy: int
    each: int  # what a fresh token takes
    fee: int  # what it takes more in a batch that generates nothing: `busy`, shared by as many as a batch holds
    budget: int  # of tokens in a batch
    rate: Any  # [requests]: above `low`
    low: int
    target: int


class Labels(NamedTuple):
    """What was reached, those to be followed as a heap (`frontier.py`), and room for what is made of one.

    `next` chains labels whose keys have the same place in `heads`; both count from 1.
    """

    token: Any  # [labels, requests]: the next token
    time: Any
    ends: Any  # sum of the ends of completed requests, each times its rate
    bound: Any
    ready: Any  # [labels, requests]: when the next token may be worked on
    open: Any  # [labels, requests]: when the work on it that is done by now may have begun
    parent: Any
    batch: Any  # the requests that the batch before generates tokens of, as bits
    is_open: Any  # whether it is to be followed
    key: Any
    next: Any
    heads: Any
    tokens: Any  # left in all
    heap: Any
    place: Any
    count: Any
    waits: Any
    works: Any


@compiled
def search(p, f, most, most_tries, pause):
    """Follow labels, the least bound first, until one of the ends above; it may be called again, with more."""
    while f.count[HEAP]:
        at = f.heap[0]
        if f.is_open[at]:
            if f.tokens[at] == 0:
                return FOUND
            if f.count[TRIED] >= pause:
                return PAUSED
        pop(f)
        if f.is_open[at]:
            code = follow(p, f, at, most, most_tries)
            if code != EMPTY:
                push(f, at)
                return code
            f.is_open[at] = False
    return EMPTY


@compiled
def follow(p, f, at, most, most_tries):
    """Add the label after each batch that generates tokens of some requests."""
    left = ZERO
    for i in range(len(p.length)):
        if f.token[at, i] < p.length[i]:
            left |= 1 << i
    batch = left
    while batch:
        f.count[TRIED] += 1
        if f.count[TRIED] > most_tries:
            return TIRED
        if f.count[ROWS] >= most:
            return FULL
        add(p, f, at, batch, left)
        batch = (batch - 1) & left
    return EMPTY


@compiled
def add(p, f, at, batch, left):
    """Add the label after one batch, if it is below the target and no other is as good."""
    new, n = f.count[ROWS], len(p.length)
    start, ends, tokens, key = f.time[at], f.ends[at], f.tokens[at], 0
    for i in range(n):
        if batch >> i & 1:
            start = max(start, f.ready[at, i])
    work, fresh = 0, 0
    for i in range(n):
        if batch >> i & 1:
            work += p.work[i, f.token[at, i]]
            fresh += p.fresh[i, f.token[at, i]]
    time = start + p.busy + work - spared(p, f, at, batch, start, fresh)
    for i in range(n):
        k = f.token[at, i]
        f.token[new, i] = k
        if batch >> i & 1:
            tokens -= 1
            f.token[new, i] = k + 1
            f.ready[new, i] = f.open[new, i] = time + p.call[i, k]
            if k + 1 == p.length[i]:
                ends += (p.low + p.rate[i]) * time
        elif left >> i & 1:
            f.ready[new, i] = f.ready[at, i]
            since = start + p.busy - p.fee * p.budget + work + p.fee * fresh
            since -= used(p, f, at, batch, start, f.open[at, i])
            f.open[new, i] = min(max(time, f.ready[at, i]), since)
        key = mixed(key, f.token[new, i])
    f.time[new], f.ends[new], f.tokens[new], f.key[new] = time, ends, tokens, key
    f.bound[new] = max(f.bound[at], least(p, f, new))
    if f.bound[new] < p.target and not is_covered(p, f, new):
        place = key % len(f.heads)
        f.next[new], f.heads[place], f.count[ROWS] = f.heads[place], new + 1, new + 1
        f.parent[new], f.batch[new], f.is_open[new] = at, batch, True
        push(f, new)


@inlined
def early(p, f, at, batch, start, longest):
    """Return the tokens of a batch that may be processed early, of requests open for longer than so many ticks."""
    found = 0
    for i in range(len(p.length)):
        if batch >> i & 1 and start - f.open[at, i] > longest:
            found += p.early[i, f.token[at, i]]
    return found


@inlined
def spared(p, f, at, batch, start, fresh):
    """Return how much work of a batch may be done before its start: the least over what is left out of it."""
    others = early(p, f, at, batch, start, NO)
    found = p.each * others - p.fee * max(0, fresh - p.budget - others)
    for i in range(len(p.length)):
        if batch >> i & 1:
            longest = start - f.open[at, i]
            others = early(p, f, at, batch, start, longest)
            found = min(found, longest + p.each * others - p.fee * max(0, fresh - p.budget - others))
    return found


@inlined
def used(p, f, at, batch, start, since):
    """Return how much work of a batch, and of a request that is open `since`, may be done before its start."""
    found = start - since + (p.each + p.fee) * early(p, f, at, batch, start, NO)
    for i in range(len(p.length)):
        if batch >> i & 1:
            longest = start - f.open[at, i]
            others = early(p, f, at, batch, start, longest)
            found = min(found, max(longest, start - since) + (p.each + p.fee) * others)
    return found


@inlined
def is_covered(p, f, new):
    """Whether another label covers all that this one does; those that it covers are left out."""
    place = f.key[new] % len(f.heads)
    before, other, found = NO, f.heads[place] - 1, False
    while other != NO and not found:
        after = f.next[other] - 1
        if f.key[other] == f.key[new]:
            f.count[TRIED] += 1
            found = covers(p, f, other, new)
        if not found and f.key[other] == f.key[new] and covers(p, f, new, other):
            f.is_open[other] = False
            if before == NO:
                f.heads[place] = after + 1
            else:
                f.next[before] = after + 1
        else:
            before = other
        other = after
    return found


@inlined
def covers(p, f, one, other):
    """Whether all that a label stands for is no earlier, and no further on, than what another one stands for."""
    if f.time[one] > f.time[other] or f.ends[one] > f.ends[other]:
        return False
    for i in range(len(p.length)):
        if f.token[one, i] != f.token[other, i]:
            return False
        if f.token[one, i] < p.length[i]:
            if f.open[one, i] > f.open[other, i]:
                return False
            if max(f.time[one], f.ready[one, i]) > max(f.time[other], f.ready[other, i]):
                return False
    return True


@inlined
def least(p, f, at):
    """Return what no schedule through a label ends below: next tokens take turns, and then each has its own time."""
    alone, total, tails, m, now = f.ends[at], f.ends[at], 0, ZERO, f.time[at]
    for i in range(len(p.length)):
        k = f.token[at, i]
        if k == p.length[i]:
            continue
        start = max(now, f.ready[at, i])
        credit = start - f.open[at, i]
        work = p.work[i, k] - min(p.each * p.early[i, k], credit)
        more = p.work[i, k] - credit + p.fee * max(0, p.fresh[i, k] - p.budget)
        own = start + p.busy + max(work, more) + p.rest[i, k]
        alone += (p.low + p.rate[i]) * own
        total += p.rate[i] * own
        tails += now + p.rest[i, k]
        f.waits[m], f.works[m] = start + p.busy - now, work
        m += 1
    return max(alone, total + p.low * (tails + turns(f.waits, f.works, m)))


def room(requests: int, labels: int) -> Labels:
    """Return arrays for so many labels; the system gives memory to what is written only."""

    def numbers(*shape: int) -> Any:
        return np.zeros(shape, dtype=np.int64)

    return Labels(
        token=numbers(labels + 1, requests), time=numbers(labels + 1), ends=numbers(labels + 1),
        bound=numbers(labels + 1), ready=numbers(labels + 1, requests), open=numbers(labels + 1, requests),
        parent=numbers(labels + 1), batch=numbers(labels + 1),
        is_open=np.zeros(labels + 1, dtype=np.bool_),
        key=numbers(labels + 1), next=numbers(labels + 1), heads=numbers(2 * labels + 1), tokens=numbers(labels + 1),
        heap=numbers(labels + 1), place=numbers(labels + 1), count=numbers(3), waits=numbers(requests),
        works=numbers(requests),
    )  # fmt: skip
