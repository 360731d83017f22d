"""The search of `potentials.py` over arrays, compiled by numba where it is installed."""

from typing import Any, NamedTuple

from kvcore.certificates import labels
from kvcore.certificates.frontier import ZERO
from kvcore.certificates.labels import EMPTY, FREE, LARGE, TIRED, is_tired, mixed, numbers
from kvcore.certificates.remaining import least_from, supplied
from kvcore.compiled import compiled

APART, HERE, AWAY = range(3)
"""Where the KV is that a request's last token left: anywhere, or gone; on the device; on the host."""

LOW = -4 * LARGE
"""Of a potential whose request is over."""
UNKNOWN = 2 * LOW
"""Of one that was not asked for yet."""


class Priced(NamedTuple):
    """Requests as chains of tokens, and potentials; times as in `potentials.py`."""

    length: Any  # [requests]: tokens to generate
    context: Any  # [requests, tokens]: tokens with KV on the device when a token is generated
    call: Any  # [requests, tokens]: the call after a token
    rest: Any  # [requests, tokens]: what follows the end of a token at the least
    calls: Any  # [requests, tokens]: all calls after this token and later ones, but not after the last
    kept: Any  # [requests, tokens]: tokens whose KV is there after a token: all, or none if its call discards them
    places: bool  # whether labels know where that is
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
    alike: Any  # [2 ** requests, potentials]: the first one with the same prices of these requests
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
    place: Any  # [labels, requests]: where the KV is that the last token left
    batch: Any  # [labels]: the requests that the batch before generates tokens of, as bits
    before: Any  # [potentials]: at the start of a batch
    gain: Any  # [potentials]: with the batch
    best: Any  # [potentials]: the most of those that are alike
    sure: Any  # [potentials]: the sum of low of those that keep a place
    after: Any  # [potentials]: what these are worth at its end
    first: Any  # [2 ** requests]: the earliest time when all of a set have their next token
    sums: Any  # [2 ** requests]: the least sum of the ends of a set
    weight: Any  # [3, requests]: prices of a token on the device, on the host, and what it is dearer on the device
    who: Any  # [requests]: whose they are
    side: Any  # [requests]: their places
    kept: Any  # [requests]: tokens that are there
    size: Any  # [requests]: the most tokens besides
    then: Any  # [requests]: the place during a batch
    nowhere: Any  # [requests]: `APART`
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
        room, ways = p.blocks, 1
        for i in range(len(p.length)):
            if batch >> i & 1:
                room -= -(-p.context[i, f.token[at, i]] // p.block)
            elif left >> i & 1 and f.place[at, i] != APART:
                ways *= 3
        for way in range(ways if room >= 0 else 1):
            if is_tired(f.labels):
                return TIRED
            if fits(p, f, at, left & ~batch, way, room):
                code = step(p, f, at, batch, left, room * p.block)
                if code != EMPTY:
                    return code
        batch = (batch - 1) & left
    return EMPTY


@compiled
def fits(p, f, at, others, way, room):
    """Keep places of other requests during a batch, by number; return whether they fit beside it."""
    host = p.host
    for i in range(len(p.length)):
        f.then[i] = APART
        if others >> i & 1 and f.place[at, i] != APART:
            kept, f.then[i], way = p.kept[i, f.token[at, i] - 1], (way + HERE) % 3, way // 3
            if f.then[i] == HERE:
                room -= -(-kept // p.block)
            elif f.then[i] == AWAY:
                host -= kept
    return room >= 0 and host >= 0


@compiled
def step(p, f, at, batch, left, room):
    """Add the label after a batch."""
    new, tokens, ends, key = f.labels.count[FREE], f.labels.left[at], f.ends[at], 0
    start, made = f.time[at], 0
    for i in range(len(p.length)):
        if batch >> i & 1:
            start, made = max(start, f.ready[at, i]), made + 1
    for k in range(len(p.whom)):
        f.before[k] = f.worth[at, k]
    for i in range(len(p.length)):
        if left & ~batch & 1 << i and f.place[at, i] != f.then[i] == APART:  # it was dropped
            for k in range(len(p.whom)):
                if f.before[k] != LOW:
                    f.before[k] += there(p, f, at, i, k)
    if start > f.time[at]:  # else it is raised
        rise(p, f, at, f.before, start, left, f.nowhere)
        for i in range(len(p.length)):
            if left >> i & 1 and f.time[at] < f.ready[at, i] < start:
                rise(p, f, at, f.before, f.ready[at, i], left, f.nowhere)
    for k in range(len(p.whom)):
        compute = p.compute[k] + (p.wait[k] if waited(p.whom[k], batch) else 0)
        f.gain[k] = f.before[k] + compute * (p.busy + p.token * made)
        for i in range(len(p.length)):
            if batch >> i & 1:
                f.gain[k] += compute * p.each + p.prices[k, i, 0] * (p.context[i, f.token[at, i]] - 1)
        if f.before[k] == LOW:
            f.gain[k] = LOW
    some = left & ~batch
    gather(p, f, at, some)
    others = sizes(p, f, at, some, -1, f.then)
    free = after(p, f, 0, some, others, room)
    time = max(start + p.busy + made * (p.each + p.token), -(-free // p.scale))
    for i in range(len(p.length)):
        q = f.token[at, i]
        f.token[new, i], f.ready[new, i], f.place[new, i] = q, f.ready[at, i], f.then[i]
        if batch >> i & 1:
            f.place[new, i] = HERE if p.places and p.kept[i, q] and q + 1 < p.length[i] else APART
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
            f.worth[new, k] = p.scale * time
            if k:
                f.worth[new, k] = after(p, f, k, some, others, room)
                for i in range(len(p.length)):
                    if batch >> i & 1:
                        if left >> i & 1:
                            f.worth[new, k] -= p.prices[k, i, 0] * p.kept[i, f.token[at, i]]
                        if i == p.whom[k]:
                            f.worth[new, k] += p.wait[k] * p.call[i, f.token[at, i]]
    rise(p, f, new, f.worth[new], time, left, f.place[new])
    return add(p, f, at)


@compiled
def there(p, f, at, i, k):
    """Return low of a request."""
    place = f.place[at, i]
    return 0 if place == APART else p.prices[k, i, place - HERE] * p.kept[i, f.token[at, i] - 1]


@compiled
def waited(whom, some):
    """Whether it is one of these for whom a potential waits."""
    return whom >= 0 and some >> whom & 1


@compiled
def gather(p, f, at, some):
    """Keep the most that potentials are worth with a batch of those that are alike for some requests."""
    for k in range(len(p.whom)):
        f.best[k], f.after[k], f.sure[k] = LOW, UNKNOWN, 0
    for i in range(len(p.length)):
        if some >> i & 1 and f.then[i] != APART:
            for k in range(len(p.whom)):
                f.sure[k] += p.prices[k, i, f.then[i] - HERE] * p.kept[i, f.token[at, i] - 1]
    for k in range(len(p.whom)):
        first = p.alike[some, k]
        f.best[first] = max(f.best[first], f.gain[k])


@compiled
def after(p, f, k, some, others, room):
    """Return what a potential is worth after a batch, by Lemma 3, but for those of the batch."""
    first = p.alike[some, k]
    if f.after[first] != UNKNOWN:
        return f.after[first]
    worth, best, price, whom, wait = LOW, f.best, p.prices, p.whom, p.wait
    who, size, side, kept, weight, host = f.who, f.size, f.side, f.kept, f.weight, p.host
    wants, sure = waited(p.whom[k], some), f.sure
    for turn in range(-1, len(whom)):
        j = turn if turn >= 0 else first
        if best[j] + sure[j] <= worth or waited(whom[j], some) != wants:
            continue
        if wants and (whom[j] != whom[k] or wait[j] != wait[k]):
            continue
        worth = max(worth, best[j] - most(price, who, size, side, kept, weight, others, j, k, room, host))
    f.after[first] = worth
    return worth


@compiled
def rise(p, f, at, worth, time, left, place):
    """Raise what potentials are worth to what Lemma 2 says."""
    room, n = p.blocks * p.block, sizes(p, f, at, left, time, place)
    for k in range(len(worth)):
        if worth[k] != LOW:
            ready = p.wait[k] * f.ready[at, p.whom[k]] if p.whom[k] >= 0 else 0
            whole = most(p.prices, f.who, f.size, f.side, f.kept, f.weight, n, -1, k, room, p.host)
            worth[k] = max(worth[k], (p.scale - p.wait[k]) * time + ready - whole)


@compiled
def sizes(p, f, at, some, time, place):
    """Keep who of some holds how many tokens where, and may hold more, by a moment if it is not negative.

    Return how many they are.
    """
    n = 0
    for i in range(len(p.length)):
        if some >> i & 1:
            q = f.token[at, i]
            if f.ready[at, i] >= time >= 0:
                f.size[n] = p.kept[i, q - 1] if q else 0
            else:
                f.size[n] = p.context[i, q] - 1
            f.side[n], f.kept[n] = place[i], p.kept[i, q - 1] if place[i] != APART else 0
            f.size[n] -= f.kept[n]
            f.who[n], n = i, n + 1
    return n


@compiled
def most(price, who, size, side, kept, weight, n, j, k, room, host):
    """Return the most by which v of n requests is larger at prices k than j: without the host, or sides apart."""
    sure, whole = 0, ZERO
    for x in range(n):
        here, there = price[k, who[x], 0], price[k, who[x], 1]
        if j >= 0:
            here, there = here - price[j, who[x], 0], there - price[j, who[x], 1]
        if side[x] == HERE:
            sure, room, there = sure + here * kept[x], room - kept[x], 0
        elif side[x] == AWAY:
            sure, host, here = sure + there * kept[x], host - kept[x], 0
        here, there = max(here, 0), max(there, 0)
        weight[0, x], weight[1, x], weight[2, x] = here, there, max(0, here - there)
        whole += there * size[x]
    if whole == 0:
        return sure + filled(weight[0], size, n, room)
    return sure + min(
        whole + filled(weight[2], size, n, room),
        filled(weight[0], size, n, room) + filled(weight[1], size, n, host),
    )


@compiled
def filled(weight, size, n, room):
    """Return the worth of a room, the dearest first."""
    worth, done = 0, 0
    for _ in range(n):
        best, dear = -1, 0
        for i in range(n):
            if not done >> i & 1 and weight[i] > dear:
                best, dear = i, weight[i]
        if best < 0 or room <= 0:
            break
        done |= 1 << best
        worth += dear * min(room, size[best])
        room -= size[best]
    return worth


@compiled
def covers(p, f, one, other):
    """Whether one label covers all that another covers."""
    if f.time[one] > f.time[other] or f.ends[one] > f.ends[other]:
        return False
    moved = False
    for k in range(len(p.whom)):
        if f.worth[one, k] > f.worth[other, k]:
            return False
    for i in range(len(p.length)):
        if f.token[one, i] != f.token[other, i]:
            return False
        if f.ready[one, i] > f.ready[other, i]:
            return False
        moved = moved or f.place[one, i] != f.place[other, i]
    for k in range(len(p.whom) if moved else 0):
        worth = f.worth[one, k]
        for i in range(len(p.length)):
            worth += max(0, there(p, f, one, i, k) - there(p, f, other, i, k))
        if worth > f.worth[other, k] > LOW:
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
        **{name: numbers(most + 1, requests) for name in ("token", "ready", "place")},
        **{name: numbers(most + 1) for name in ("time", "ends", "batch")},
        worth=numbers(most + 1, potentials),
        **{name: numbers(potentials) for name in ("before", "gain", "best", "sure", "after")},
        **{name: numbers(2**requests) for name in ("first", "sums")},
        weight=numbers(3, requests),
        **{name: numbers(requests) for name in ("who", "size", "side", "kept", "then", "nowhere", "pause")},
    )  # fmt: skip
