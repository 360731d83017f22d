"""Starts of rigid requests, searched with memory that may be exceeded at a price; compiled.

`over[t]` is the use of slot t above the limit (negative: what is left), `price[t]` the cost of each block above it.
`load[i]` are the blocks of request i by batch, with `pad` zeros before and at least `pad` after. Both are floats, which
only propose: the starts are inserted anew, in integers.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import allocating, compiled, fast


class Cooling(NamedTuple):
    """How heat falls from `hot` to `cold`, and the factor of prices rises from `dear` to `dearer`."""

    hot: float
    cold: float
    dear: float
    dearer: float


class Loads(NamedTuple):
    """Rigid requests: `load` with `pad`, lengths and releases in slots, rates, and the order by area."""

    load: Any
    pad: int
    length: Any
    release: Any
    rate: Any
    rank: Any


@fast
def change(over, price, out, out_at, back, back_at, begin, end):
    """Return the rise of the price paid in the slots `begin` to `end` - 1 when one load replaces another.

    `out[k]` is the first one's use of slot `out_at` + k, and likewise `back`.
    """
    rise, zero = np.float32(0), np.float32(0)
    a, b = begin - out_at, begin - back_at
    for k in range(end - begin):
        now = over[begin + k]
        rise += price[begin + k] * (max(zero, now + back[b + k] - out[a + k]) - max(zero, now))
    return rise


@fast
def change_both(over, price, one, one_at, one_to, two, two_at, two_to, begin, end):
    """Return the rise for two loads that move, each from place to place."""
    rise, zero = np.float32(0), np.float32(0)
    a, b, c, d = begin - one_at, begin - one_to, begin - two_at, begin - two_to
    for k in range(end - begin):
        now = over[begin + k]
        then = now + one[b + k] - one[a + k] + two[d + k] - two[c + k]
        rise += price[begin + k] * (max(zero, then) - max(zero, now))
    return rise


@fast
def shift_rise(over, price, load, pad, length, t, s):
    """Return the rise when a load moves from start t to start s."""
    if abs(s - t) < length:
        return change(over, price, load, t - pad, load, s - pad, min(s, t), max(s, t) + length)
    gone = change(over, price, load, t - pad, load, t - pad + length, t, t + length)
    return gone + change(over, price, load, s - pad - length, load, s - pad, s, s + length)


@fast
def exchange_rise(over, price, pad, one, n, t, s, two, m, u, v):
    """Return the rise when load `one`, of length n, moves from t to s, and `two`, of length m, from u to v."""
    a, b = min(t, v), max(t + n, v + m)
    c, d = min(u, s), max(u + m, s + n)
    if b <= c or d <= a:
        rise = change(over, price, one, t - pad, two, v - pad, a, b)
        return rise + change(over, price, two, u - pad, one, s - pad, c, d)
    return change_both(over, price, one, t - pad, s - pad, two, u - pad, v - pad, min(a, c), max(b, d))


@fast
def shift(over, load, pad, length, t, s):
    """Move a load from start t to start s."""
    for k in range(length):
        over[t + k] -= load[pad + k]
    for k in range(length):
        over[s + k] += load[pad + k]


@compiled
def like(i, rank, place, neighbours):
    """Draw a request of about the area of request i."""
    k = place[i] + np.random.randint(-neighbours, neighbours + 1)
    return rank[min(rank.shape[0] - 1, max(0, k))]


@allocating
def soften(rounds, cooling, shifts, worth, over, loads, start):
    """Change `start`, and `over` with it, in `rounds` moves; prices are `worth` times a factor.

    A move shifts a request, mostly by a few slots, or exchanges two, mostly of like area: start for start, end for end,
    or nearly so.
    """
    hot, cold, dear, dearer = cooling
    load, pad, length, release, rate, rank = loads
    n, slots = start.shape[0], over.shape[0]
    place = np.empty(n, np.int64)
    place[rank] = np.arange(n)
    price, heat = worth.copy(), hot
    for r in range(rounds):
        if r % shifts.reprice == 0:
            share = r / rounds
            heat = hot * (cold / hot) ** share
            price[:] = worth * np.float32(dear * (dearer / dear) ** share)
        i, kind = np.random.randint(n), np.random.random()
        j = i
        t, u = start[i], start[i]
        if kind < 0.05:
            s = start[like(i, rank, place, shifts.neighbours)]
        elif kind < 0.65:
            s = t + int(shifts.shift * np.random.random() ** 2 + 1) * (1 if kind < 0.35 else -1)
        else:
            j = like(i, rank, place, shifts.neighbours) if kind < 0.99 else np.random.randint(n)
            s, u = start[j], start[j]
        v = t
        if 0.65 <= kind < 0.75:
            s, v = u + length[j] - length[i], t + length[i] - length[j]
        elif 0.75 <= kind < 0.9:
            s = u + np.random.randint(-shifts.jitter, shifts.jitter + 1)
            v = t + np.random.randint(-shifts.jitter, shifts.jitter + 1)
        if s < release[i] or s + length[i] > slots or (kind >= 0.65 and i == j):
            continue
        if i != j and (v < release[j] or v + length[j] > slots):
            continue
        rise = rate[i] * (s - t)
        if i == j:
            rise += shift_rise(over, price, load[i], pad, length[i], t, s)
        else:
            rise += rate[j] * (v - u)
            rise += exchange_rise(over, price, pad, load[i], length[i], t, s, load[j], length[j], u, v)
        if rise <= 0 or np.random.random() < math.exp(-rise / heat):
            shift(over, load[i], pad, length[i], t, s)
            start[i] = s
            if i != j:
                shift(over, load[j], pad, length[j], u, v)
                start[j] = v
