"""The search of `events.py` over arrays, compiled by numba where it is installed.

State, dominance and what is left may each be replaced. All numbers are below 2^62: `events.py` refuses larger ones.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates import labels
from kvcore.certificates.labels import EMPTY, FREE, INCONSISTENT, NO, TARGET, TIRED, is_tired, mixed, numbers
from kvcore.compiled import compiled, inlined
from kvcore.limits import DEVICE, HOST, SHARED, TOKENS

SUM, LAST, LARGEST, LATE = range(4)
"""Objectives: sum of ends, last end, longest flow time, late requests."""
LOCAL, WAIT, AGE, DECODING = range(4)
"""Numbers of a request at a batch boundary: local state, ticks until it arrives or its call returns; if needed, ticks
since its arrival (0 before it) and since its first token, else `NO`.
"""
MISSED = -2
"""An age that no longer matters as an SLO is, or will be, exceeded."""
BUSY, ANY_DECODE, ANY_PREFILL, KNEE, ABOVE, DIVISOR = range(6)
DECODES, PREFILLS, TRANSFERRED, VALUES = range(SHARED, SHARED + 4)
"""Columns of a load after `LIMITS`: requests by phase, tokens swapped, terms of each cost function."""
FIRST_TOKEN, COMPLETION, BETWEEN = range(3)
ZERO, ONE = np.int64(0), np.int64(1)
"""Numba compiles once more what is called with a constant."""


class Problem(NamedTuple):
    """What does not change during a search."""

    first: Any
    load: Any
    to: Any
    away: Any
    touches: Any  # of options: whether there is work or a move
    kept: Any  # of options: where drops are free and it drops all, that which only keeps it; else `NO`
    ready: Any
    alike: Any  # of states: a number that states have in common if one may be as good as another
    empty: Any  # of states: all that one with its tokens left can do is free to one without KV, that is to it
    arriving: Any
    begun: Any
    left: Any
    over: Any  # of states: the objective waits for no more
    ticks: Any  # until it is over, at the least, and its wait
    to_done: Any
    to_first: Any
    shares: Any  # [states, vectors]: what it takes at the least of amounts of which there are `unit` a tick
    unit: Any
    work: Any  # [states, functions]: what its next token adds at the least to the cost of its batches
    tail: Any  # of states: ticks from its next token on, at the least
    fixed_costs: Any  # [functions, BUSY .. DIVISOR]
    limits: Any
    hybrid: bool
    group: Any
    rate: Any  # of requests, above `low`
    low: int
    slo: Any  # [requests, FIRST_TOKEN .. BETWEEN]
    objective: int
    watched: bool  # ages matter
    every_tick: bool
    target: int


class Frontier(NamedTuple):
    """The states seen, as labels, and work space."""

    labels: labels.Labels
    rows: Any
    label: Any
    least: Any  # of states: their own, by `least`
    picks: Any  # ... the options of the batch that led there
    delay: Any  # ... and the ticks that were waited before it
    start: Any  # the state in which a batch starts
    pick: Any
    loads: Any
    ends: Any
    parts: Any


# --- the state --------------------------------------------------------------------------------------------------------


@inlined
def pass_time(s, row, label, pick, ticks, child):
    """Write `child`, `ticks` later with options `pick` (NO: all wait); return the label."""
    rate = 0
    for j in range(len(row)):
        local, wait, age, decoding = row[j, LOCAL], row[j, WAIT], row[j, AGE], row[j, DECODING]
        to, away = local, NO
        if not s.over[local]:
            rate += s.low + s.rate[j]
        if pick[0] != NO:
            to, away = s.to[pick[j]], s.away[pick[j]]
        if s.watched and age >= 0:
            age += max(0, ticks - wait) if s.arriving[local] else ticks
        if away >= 0:
            wait = away
        else:
            wait = max(0, wait - ticks)
            if wait == 0:
                to = s.ready[to]
        if s.watched:
            if decoding >= 0:
                decoding += ticks
            if s.objective == LARGEST:
                if s.left[to] == 0 and age >= 0:
                    label, age = max(label, age), NO
            elif age != MISSED and s.left[local]:
                began = s.begun[to] and not s.begun[local]
                if began:
                    decoding = 0
                if is_late(s, j, to, wait, age, decoding, began):
                    label, age, decoding = label + 1, MISSED, NO
                elif s.left[to] == 0:
                    age, decoding = NO, NO
                else:
                    if s.slo[j, BETWEEN] == NO:
                        decoding = NO
                    if s.slo[j, COMPLETION] == NO and (s.begun[to] or s.slo[j, FIRST_TOKEN] == NO):
                        age = NO
        child[j, LOCAL], child[j, WAIT], child[j, AGE], child[j, DECODING] = to, wait, age, decoding
    if s.objective == SUM:
        label += rate * ticks
    elif s.objective == LAST:
        label += ticks
    return label


@compiled
def is_late(s, j, local, wait, age, decoding, began):
    """Whether a request must exceed an SLO; `began`: with its first token."""
    left = s.to_done[local] + (0 if s.arriving[local] else wait)
    if s.slo[j, FIRST_TOKEN] != NO and (began or not s.begun[local]):
        to_first = 0 if began else s.to_first[local]
        if age + to_first > s.slo[j, FIRST_TOKEN]:
            return True
    if s.slo[j, COMPLETION] != NO and age + left > s.slo[j, COMPLETION]:
        return True
    return s.slo[j, BETWEEN] != NO and decoding >= 0 and decoding + left > s.slo[j, BETWEEN]


@inlined
def arrange(s, row):
    """Sort requests that are alike by their numbers."""
    for j in range(1, len(row)):
        i = j
        while i > 0 and s.group[i - 1] == s.group[i] and comes_before(row, i, i - 1):
            for k in range(4):
                row[i, k], row[i - 1, k] = row[i - 1, k], row[i, k]
            i -= 1


@inlined
def comes_before(row, i, j):
    """Whether one request has smaller numbers than another."""
    for k in range(4):
        if row[i, k] != row[j, k]:
            return row[i, k] < row[j, k]
    return False


# --- dominance --------------------------------------------------------------------------------------------------------


@inlined
def key_of(s, row):
    """Return a key that states share if one may be as good as another: all but ages."""
    key = 0
    for j in range(len(row)):
        if s.objective == SUM or s.objective == LAST:
            key = mixed(key, s.alike[row[j, LOCAL]])
            continue
        for k in range(4 if s.objective == LATE else 2):
            key = mixed(key, row[j, k])
    return key


@inlined
def covers(s, f, at, its):
    """Whether all that follows the other state may follow this one at no more: the same but for smaller label and ages.

    For sums and ends this one may wait until no request waits longer than in the other; with free drops it may hold
    less.
    """
    row, other = f.rows[at], f.rows[its]
    if f.label[at] > f.label[its]:
        return False
    if s.objective == SUM or s.objective == LAST:
        ticks, rate = 0, 0
        for j in range(len(row)):
            one, another = s.ready[row[j, LOCAL]], s.ready[other[j, LOCAL]]
            if one != another and not (s.empty[another] and s.left[one] == s.left[another]):
                return False
            ticks = max(ticks, row[j, WAIT] - other[j, WAIT])
            rate += 0 if s.over[row[j, LOCAL]] else s.low + s.rate[j]
        return f.label[at] + ticks * (rate if s.objective == SUM else 1) <= f.label[its]
    for j in range(len(row)):
        if row[j, LOCAL] != other[j, LOCAL] or row[j, WAIT] != other[j, WAIT]:
            return False
        if s.objective == LARGEST:
            if row[j, AGE] > other[j, AGE]:
                return False
        elif row[j, AGE] != other[j, AGE] or row[j, DECODING] != other[j, DECODING]:
            return False
    return True


# --- what is left at the least ----------------------------------------------------------------------------------------


@compiled
def least(s, f, row, label):
    """Return a lower bound through this state: its label plus the least that is left.

    Each request takes its own ticks. The k-th to be over comes after the k that take the smallest shares.
    """
    ends, parts, n, total = f.ends, f.parts, 0, 0
    if s.objective == LATE:
        return label
    for j in range(len(row)):
        local = row[j, LOCAL]
        if s.over[local]:
            continue
        ticks = s.ticks[local] + row[j, WAIT]
        if s.objective == LARGEST:
            label = max(label, row[j, AGE] + ticks - (row[j, WAIT] if s.arriving[local] else 0))
        total += s.rate[j] * ticks
        insert(ends, n, ticks)
        for k in range(len(s.unit)):
            insert(parts[k], n, s.shares[local, k])
        n += 1
    if s.objective == LARGEST:
        return label
    for k in range(len(s.unit)):
        taken = 0
        for i in range(n):
            taken += parts[k, i]
            ends[i] = max(ends[i], (taken + s.unit[k] - 1) // s.unit[k])
    if s.objective == LAST:
        return label + (ends[n - 1] if n else 0)
    alone = 0
    for i in range(n):
        alone += ends[i]
    return label + total + s.low * alone


@compiled
def least_by_turns(s, f, row, label):
    """Return a lower bound through this state: next tokens take turns, the shortest work left first.

    A batch lasts `busy` plus its requests' terms of a cost function, in turn: all next tokens together are no earlier
    than on one machine that may be interrupted.
    """
    most, total, waits, works = 0, 0, f.ends, f.parts[0]
    for j in range(len(row)):
        local = row[j, LOCAL]
        if not s.over[local]:
            total += s.rate[j] * (s.ticks[local] + row[j, WAIT])
    for k in range(len(s.fixed_costs)):
        n, tails, divisor = ZERO, 0, s.fixed_costs[k, DIVISOR]
        for j in range(len(row)):
            local = row[j, LOCAL]
            if not s.over[local]:
                waits[n] = row[j, WAIT] + s.fixed_costs[k, BUSY] // divisor
                works[n] = s.work[local, k] // divisor
                tails += s.tail[local]
                n += 1
        most = max(most, tails + turns(waits, works, n))
    return label + total + s.low * most


@inlined
def least_through(s, f, at):
    """Return the larger of both lower bounds."""
    bound = f.least[at] = least(s, f, f.rows[at], f.label[at])
    if s.objective == SUM and bound < f.labels.count[TARGET]:
        bound = max(bound, least_by_turns(s, f, f.rows[at], f.label[at]))
    return bound


@compiled
def turns(waits, works, n):
    """Return the sum of the ends of n jobs that wait, then take turns, the least work left first."""
    now, total, left = 0, 0, n
    while left:
        best, event = NO, NO
        for i in range(n):
            if works[i] == NO:
                continue
            if waits[i] <= now:
                if best == NO or works[i] < works[best]:
                    best = i
            elif event == NO or waits[i] < event:
                event = waits[i]
        if best == NO:
            now = event
        elif event == NO or now + works[best] <= event:
            now += works[best]
            total += now
            works[best] = NO
            left -= 1
        else:
            works[best] -= event - now
            now = event
    return total


@compiled
def partial(s, row, label, pick, last, ticks):
    """Return a lower bound through batches of `ticks` or more in which requests up to `last` take options."""
    total, longest = label, 0
    if s.objective == LARGEST or s.objective == LATE:
        return label
    for j in range(len(row)):
        local, wait, passed = row[j, LOCAL], row[j, WAIT], 0
        if s.over[local]:
            continue
        if j <= last:
            local, passed = s.to[pick[j]], ticks
            wait = s.away[pick[j]] if s.away[pick[j]] >= 0 else max(0, wait - ticks)
            local = local if wait else s.ready[local]
        left = passed + (0 if s.over[local] else s.ticks[local] + wait)
        total += (s.low + s.rate[j]) * left
        longest = max(longest, left)
    return total if s.objective == SUM else label + longest


@inlined
def insert(values, n, value):
    """Insert a value into n sorted ones."""
    while n > 0 and values[n - 1] > value:
        values[n] = values[n - 1]
        n -= 1
    values[n] = value


# --- the search -------------------------------------------------------------------------------------------------------


@compiled
def expand(s, f, at):
    """Add the states after all batches that may come next; return EMPTY if all were added."""
    row, event = f.rows[at], ZERO
    while event != NO:
        f.pick[0] = NO
        label = pass_time(s, row, f.label[at], f.pick, event, f.start)
        code = batches(s, f, at, label, event)
        if code != EMPTY:
            return code
        event = next_event(row, event)
        if s.every_tick and event != NO:
            f.pick[0] = NO
            return step(s, f, at, f.label[at], ZERO, ONE)
    return EMPTY


@inlined
def next_event(row, event):
    """Return the ticks to the first arrival or return after `event` (NO: none)."""
    found = NO
    for j in range(len(row)):
        if row[j, WAIT] > event and (found == NO or row[j, WAIT] < found):
            found = row[j, WAIT]
    return found


@inlined
def is_in_time(s, row, pick, event):
    """Whether a batch at an event serves a request that waits for it."""
    found = event == 0
    for j in range(len(row)):
        found = found or (row[j, WAIT] == event and s.touches[pick[j]])
    return found


@compiled
def batches(s, f, at, label, event):
    """Add the states after every batch from `f.start`, `event` ticks after the state `at`."""
    row, pick, loads, n = f.start, f.pick, f.loads, len(f.start)
    j, pick[0] = ZERO, s.first[row[0, LOCAL]] - 1
    while j >= 0:
        pick[j] += 1
        if pick[j] == s.first[row[j, LOCAL] + 1]:
            j -= 1
            continue
        if is_tired(f.labels):
            return TIRED
        for k in range(loads.shape[1]):
            loads[j + 1, k] = loads[j, k] + s.load[pick[j], k]
        if not fits(s, loads, j + 1):
            continue
        if j + 1 < n:
            if partial(s, row, label, pick, j, duration(s, loads, j + 1)) >= s.target:
                continue
            j += 1
            pick[j] = (pick[j - 1] if is_twin(s, row, j) else s.first[row[j, LOCAL]]) - 1
            continue
        acts = loads[n, TOKENS] or loads[n, TRANSFERRED]
        if acts and is_in_time(s, f.rows[at], pick, event) and not drops_in_vain(s, pick, loads, n):
            code = step(s, f, at, label, event, duration(s, loads, n))
            if code != EMPTY:
                return code
    return EMPTY


@inlined
def drops_in_vain(s, pick, loads, n):
    """Whether a request without work loses KV that fits beside the batch."""
    for j in range(n):
        kept = s.kept[pick[j]]
        if (
            kept != NO
            and loads[n, DEVICE] + s.load[kept, DEVICE] <= s.limits[DEVICE]
            and loads[n, HOST] + s.load[kept, HOST] <= s.limits[HOST]
        ):
            return True
    return False


@inlined
def is_twin(s, row, j):
    """Whether a request equals the one before, so that one order is enough."""
    return s.group[j] == s.group[j - 1] and not comes_before(row, j - 1, j) and not comes_before(row, j, j - 1)


@inlined
def fits(s, loads, j):
    """Check R5 to R7 but for `pause`; what is broken stays broken."""
    within = s.hybrid or loads[j, DECODES] == 0 or loads[j, PREFILLS] == 0
    for r in range(SHARED):
        within = within and loads[j, r] <= s.limits[r]
    return within


@inlined
def duration(s, loads, j):
    """Return the ticks of a batch."""
    longest = ONE
    for k in range(len(s.fixed_costs)):
        value = loads[j, VALUES + k]
        if loads[j, TOKENS] > 0:
            value += s.fixed_costs[k, BUSY] + s.fixed_costs[k, ABOVE] * max(
                0, loads[j, TOKENS] - s.fixed_costs[k, KNEE]
            )
        if loads[j, DECODES] > 0:
            value += s.fixed_costs[k, ANY_DECODE]
        if loads[j, PREFILLS] > 0:
            value += s.fixed_costs[k, ANY_PREFILL]
        longest = max(longest, (value + s.fixed_costs[k, DIVISOR] - 1) // s.fixed_costs[k, DIVISOR])
    return longest


@inlined
def step(s, f, at, label, event, ticks):
    """Add the state after `ticks` with options `f.pick`, if new or better."""
    x, new = f.labels, f.labels.count[FREE]
    row = f.rows[new]
    f.label[new] = pass_time(s, f.start, label, f.pick, ticks, row)
    arrange(s, row)
    x.key[new], x.left[new], f.delay[new] = key_of(s, row), 0, event
    for j in range(len(row)):
        x.left[new] += s.left[row[j, LOCAL]]
    code = add(s, f, at)
    if x.count[FREE] != new:
        for j in range(len(row)):
            f.picks[new, j] = f.pick[j]
    return INCONSISTENT if f.least[new] < f.least[at] else code


add = labels.adding(covers, least_through)
search = labels.searching(expand)


def room(requests: int, states: int, vectors: int, columns: int) -> Frontier:
    """Return arrays for these numbers of states."""
    return Frontier(
        labels=labels.room(states), rows=numbers(states + 1, requests, 4), label=numbers(states + 1),
        least=numbers(states + 1), picks=np.zeros((states + 1, requests), dtype=np.int32), delay=numbers(states + 1),
        start=numbers(requests, 4), pick=numbers(requests), loads=numbers(requests + 1, columns),
        ends=numbers(requests + 1), parts=numbers(vectors, requests + 1),
    )  # fmt: skip
