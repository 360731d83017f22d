"""The search of `potentials.py` over arrays, compiled by numba where it is installed."""

from typing import Any, NamedTuple

from kvcore.certificates import labels
from kvcore.certificates.frontier import ZERO
from kvcore.certificates.labels import EMPTY, FREE, LARGE, TIRED, is_tired, mixed, numbers
from kvcore.certificates.remaining import least_from, supplied
from kvcore.compiled import compiled

LOW = -4 * LARGE
"""Of a potential whose request is over."""


class Priced(NamedTuple):
    """Requests as chains of tokens, and potentials; times as in `potentials.py`."""

    length: Any  # [requests]: tokens to generate
    context: Any  # [requests, tokens]: tokens with KV on the device when a token is generated
    call: Any  # [requests, tokens]: the call after a token
    rest: Any  # [requests, tokens]: what follows the end of a token at the least
    calls: Any  # [requests, tokens]: all calls after this token and later ones, but not after the last
    pause: Any  # [requests, tokens]: the first token from this one on with a call of these after it, else the last
    rate: Any  # [requests]
    busy: int  # what a batch takes that works
    each: int  # ... for a token that is processed
    token: int  # ... that is generated
    block: int
    blocks: int  # of the device
    host: int  # tokens of the host
    scale: int  # weights are in parts of it
    compute: Any  # [potentials]: the weight of the time of work
    wait: Any  # [potentials]: the weight of the time when a request is ready
    whom: Any  # [potentials]: that request, or -1
    prices: Any  # [potentials, requests, 2]: of a token on the device, on the host
    needs: Any  # [potentials]: the requests with prices or waited for, as bits
    begun: int  # the first arrival
    divisor: int  # of times
    remaining: Any  # prices in order: `Remaining`


class Orders(NamedTuple):
    """Labels, and work space."""

    labels: labels.Labels
    token: Any  # [labels, requests]: the next token
    time: Any  # [labels]
    ends: Any  # [labels]: the sum of the ends of completed requests, each times its rate
    ready: Any  # [labels, requests]: when the next token may be worked on, if later than `time`, else 0
    worth: Any  # [labels, potentials]: what each is worth at the least
    batch: Any  # [labels]: the requests that the batch before generates tokens of, as bits
    before: Any  # [potentials]: at the start of a batch
    gain: Any  # [potentials]: with the batch
    first: Any  # [2 ** requests]: the earliest time when all of a set have their next token
    sums: Any  # [2 ** requests]: the least sum of the ends of a set
    weight: Any  # [requests, 3]: prices of a token on the device, on the host, and what it is dearer on the device
    size: Any  # [requests]: the most tokens
    pause: Any  # [requests]: the token before the next call


@compiled
def expand(p, f, at):
    """Add the labels that may follow."""
    left = ZERO
    for i in range(len(p.length)):
        if f.token[at, i] < p.length[i]:
            left |= 1 << i
    batch = left
    while batch:
        if is_tired(f.labels):
            return TIRED
        room = p.blocks
        for i in range(len(p.length)):
            if batch >> i & 1:
                room -= -(-p.context[i, f.token[at, i]] // p.block)
        if room >= 0:
            code = step(p, f, at, batch, left, room * p.block)
            if code != EMPTY:
                return code
        batch = (batch - 1) & left
    return EMPTY


@compiled
def step(p, f, at, batch, left, room):
    """Add the label after a batch."""
    new, tokens, ends, key = f.labels.count[FREE], f.labels.left[at], f.ends[at], 0
    start, made = f.time[at], 0
    for i in range(len(p.length)):
        if batch >> i & 1:
            start, made = max(start, f.ready[at, i]), made + 1
    for k in range(len(p.whom)):
        f.before[k] = max(f.worth[at, k], at_moment(p, f, at, k, start, left))
        for i in range(len(p.length)):
            if left >> i & 1 and f.time[at] < f.ready[at, i] < start:
                f.before[k] = max(f.before[k], at_moment(p, f, at, k, f.ready[at, i], left))
        compute = p.compute[k] + (p.wait[k] if waited(p, k, batch) else 0)
        f.gain[k] = f.before[k] + compute * (p.busy + p.token * made)
        for i in range(len(p.length)):
            if batch >> i & 1:
                f.gain[k] += compute * p.each + p.prices[k, i, 0] * (p.context[i, f.token[at, i]] - 1)
    time = max(start + p.busy + made * (p.each + p.token), -(-after(p, f, at, 0, batch, left, room) // p.scale))
    for i in range(len(p.length)):
        q = f.token[at, i]
        f.token[new, i], f.ready[new, i] = q, f.ready[at, i]
        if batch >> i & 1:
            f.token[new, i], f.ready[new, i] = q + 1, time + p.call[i, q]
            tokens -= 1
            if q + 1 == p.length[i]:
                ends += p.rate[i] * time
        if f.ready[new, i] <= time:
            f.ready[new, i] = 0
        key = mixed(key, f.token[new, i])
    f.time[new], f.ends[new], f.batch[new] = time, ends, batch
    f.labels.left[new], f.labels.key[new] = tokens, key
    for i in range(len(p.length)):
        if f.token[new, i] == p.length[i]:
            left &= ~(1 << i)
    for k in range(len(p.whom)):
        f.worth[new, k] = LOW
        if p.whom[k] < 0 or left >> p.whom[k] & 1:
            f.worth[new, k] = p.scale * time if k == 0 else after(p, f, at, k, batch, left, room)
            f.worth[new, k] = max(f.worth[new, k], at_moment(p, f, new, k, time, left))
    return add(p, f, at)


@compiled
def waited(p, k, batch):
    """Whether a potential waits for a request of a batch."""
    return p.whom[k] >= 0 and batch >> p.whom[k] & 1


@compiled
def after(p, f, at, k, batch, left, room):
    """Return what a potential is worth after a batch, by Lemma 3."""
    worth, ends = LOW, waited(p, k, batch)
    for j in range(len(p.whom)):
        if f.before[j] == LOW or f.gain[j] <= worth:
            continue
        same = waited(p, j, batch) or p.whom[j] < 0
        if same != (ends or p.whom[k] < 0) or (not same and (p.whom[j] != p.whom[k] or p.wait[j] != p.wait[k])):
            continue
        worth = max(worth, f.gain[j] - most(p, f, at, j, k, left & ~batch, room, -1))
    for i in range(len(p.length)):
        if batch >> i & 1:
            if left >> i & 1:
                worth -= p.prices[k, i, 0] * p.context[i, f.token[at, i]]
            if ends and i == p.whom[k]:
                worth += p.wait[k] * p.call[i, f.token[at, i]]
    return worth


@compiled
def at_moment(p, f, at, k, time, left):
    """Return what a potential is worth by Lemma 2."""
    if f.worth[at, k] == LOW:
        return LOW
    ready = p.wait[k] * f.ready[at, p.whom[k]] if p.whom[k] >= 0 else 0
    return (p.scale - p.wait[k]) * time + ready - most(p, f, at, -1, k, left, p.blocks * p.block, time)


@compiled
def most(p, f, at, j, k, some, room, time):
    """Return the most by which v of some requests is larger at prices k than j: without the host, or sides apart."""
    whole = 0
    for i in range(len(p.length)):
        f.weight[i, :] = 0
        if some >> i & 1:
            q, here, there = f.token[at, i], p.prices[k, i, 0], p.prices[k, i, 1]
            if j >= 0:
                here, there = here - p.prices[j, i, 0], there - p.prices[j, i, 1]
            here, there = max(here, 0), max(there, 0)
            if f.ready[at, i] >= time >= 0:
                f.size[i] = p.context[i, q - 1] if q else 0
            else:
                f.size[i] = p.context[i, q] - 1
            f.weight[i, 0], f.weight[i, 1], f.weight[i, 2] = here, there, max(0, here - there)
            whole += there * f.size[i]
    if whole == 0:
        return filled(f, 0, room)
    return min(whole + filled(f, 2, room), filled(f, 0, room) + filled(f, 1, p.host))


@compiled
def filled(f, which, room):
    """Return the worth of a room, the dearest first."""
    worth, done = 0, 0
    for _ in range(len(f.size)):
        best = -1
        for i in range(len(f.size)):
            if not done >> i & 1 and f.weight[i, which] > (f.weight[best, which] if best >= 0 else 0):
                best = i
        if best < 0 or room <= 0:
            break
        done |= 1 << best
        worth += f.weight[best, which] * min(room, f.size[best])
        room -= f.size[best]
    return worth


@compiled
def covers(p, f, one, other):
    """Whether one label covers all that another covers."""
    if f.time[one] > f.time[other] or f.ends[one] > f.ends[other]:
        return False
    for k in range(len(p.whom)):
        if f.worth[one, k] > f.worth[other, k]:
            return False
    for i in range(len(p.length)):
        if f.token[one, i] != f.token[other, i]:
            return False
        if f.ready[one, i] > f.ready[other, i]:
            return False
    return True


@compiled
def least(p, f, at):
    """Return a lower bound through a label, by the best order of next tokens."""
    left, total = ZERO, f.ends[at]
    f.first[:] = 0
    for i in range(len(p.length)):
        q = f.token[at, i]
        if q < p.length[i]:
            left |= 1 << i
            f.first[1 << i] = max(f.time[at], f.ready[at, i]) + p.busy + p.each + p.token
            total += p.rate[i] * p.rest[i, q]
    for k in range(1, len(p.whom)):
        if f.worth[at, k] == LOW:
            continue
        worth, need = f.worth[at, k] + p.compute[k] * p.busy, p.needs[k] & left
        for i in range(len(p.length)):
            if need >> i & 1:
                worth += p.compute[k] * (p.each + p.token) + p.prices[k, i, 0] * (p.context[i, f.token[at, i]] - 1)
        if need:
            f.first[need] = max(f.first[need], -(-worth // p.scale))
    for some in range(1, left + 1):
        if some & ~left:
            continue
        f.sums[some] = 4 * LARGE
        for i in range(len(p.length)):
            if some >> i & 1:
                f.first[some] = max(f.first[some], f.first[some & ~(1 << i)])
        for i in range(len(p.length)):
            if some >> i & 1:
                f.sums[some] = min(f.sums[some], f.sums[some & ~(1 << i)] + p.rate[i] * f.first[some])
    if left == 0:
        return total
    return max(total + f.sums[left], f.ends[at] + crowd(p, f, at, left), f.ends[at] + priced(p, f, at, left))


@compiled
def priced(p, f, at, left):
    """Return the least sum of the ends of those left by prices in order."""
    x, begun, total = p.remaining, ZERO, ZERO
    now = max(0, f.time[at] * x.divisor // p.divisor - x.begun)
    for v in range(len(x.price)):
        cost = -supplied(x, v, now)
        for i in range(len(p.length)):
            if left >> i & 1:
                ready = max(now, f.ready[at, i] * x.divisor // p.divisor - x.begun)
                cost += least_from(x, v, i, f.token[at, i], ready)
        total = max(total, cost)
    for i in range(len(p.length)):
        if left >> i & 1:
            begun += p.rate[i] * p.begun
    return begun + total // x.scale * p.divisor // x.divisor


@compiled
def crowd(p, f, at, left):
    """Return the least sum of the ends of those left, as each waits where not all fit."""
    one, n, room, few, calls, rate = p.busy + p.each + p.token, 0, p.blocks * p.block, LARGE, 0, LARGE
    total, first, tokens = 0, 4 * LARGE, 0
    for i in range(len(p.length)):
        if left >> i & 1:
            q, a = f.token[at, i], p.length[i] - f.token[at, i]
            pause = max(0, f.ready[at, i] - f.time[at]) + p.calls[i, q]
            n, few, rate, first = n + 1, min(few, a), min(rate, p.rate[i]), min(first, one * a + pause)
            room, tokens, calls = room + 1 - p.context[i, q], tokens + a, calls + pause
            total += p.rate[i] * (f.time[at] + one * a + pause)
    return total + rate * max(0, first - calls - together(p, f, at, left, n, few, one * min(room, tokens)))


@compiled
def together(p, f, at, left, n, few, room):
    """Return the most time in which all of these n generate tokens."""
    ended, most = 0, 0
    for i in range(len(p.length)):
        if left >> i & 1:
            ended += max(0, f.ready[at, i] - f.time[at])
            f.pause[i] = p.pause[i, f.token[at, i]]
    while True:
        near = few
        for i in range(len(p.length)):
            if left >> i & 1:
                near = min(near, f.pause[i] + 1 - f.token[at, i])
        most = max(most, min(near * (p.busy + p.each + p.token), -(-(room - (n - 1) * ended) // n)))
        if near == few:
            return most
        for i in range(len(p.length)):
            if left >> i & 1 and f.pause[i] + 1 - f.token[at, i] == near:
                ended += p.call[i, f.pause[i]]
                f.pause[i] = p.pause[i, f.pause[i] + 1]


add = labels.adding(covers, least)
search = labels.searching(expand)


def room(requests: int, potentials: int, most: int) -> Orders:
    """Return arrays for these labels."""
    return Orders(
        labels=labels.room(most),
        **{name: numbers(most + 1, requests) for name in ("token", "ready")},
        **{name: numbers(most + 1) for name in ("time", "ends", "batch")},
        worth=numbers(most + 1, potentials),
        **{name: numbers(potentials) for name in ("before", "gain")},
        **{name: numbers(2**requests) for name in ("first", "sums")},
        weight=numbers(requests, 3), size=numbers(requests), pause=numbers(requests),
    )  # fmt: skip
