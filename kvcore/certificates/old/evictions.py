"""Compiled where numba is installed: the cheapest path of one request that may be evicted, through priced slots.

As in `paths.py`, but token by token, since KV may leave the device after any. Take two consecutive tokens of a segment,
in slots s < f, the later one with n tokens resident.

* **Kept.** If no KV is dropped in between, n - 1 tokens lie in slots s + 1 to f - 1 on the device or the host (all in
  one place: `partial` is off), and f processes one, in one batch.
* **Dropped.** Else let x be the slot of the last drop: s < x < f (R4), and after it all n tokens are processed, at most
  P a slot: a first batch in slot b > x means f - b >= ceil(n / P) - 1, and in slot f - j at least n - j P tokens lie on
  device or host. A path that drops in slot s + 1 and waits costs no more.
* **The first token** of a segment comes after the arrival, as if dropped, or after a call that ends in slot r, before
  which m tokens were held in slots c to r - 1: on the device if preserved, else where it is cheaper. KV of a `free`
  call may be dropped at no cost, that of `discard` is; another drop is an eviction, in slot r or later (R8), before the
  work. If nothing is dropped, f - j has at least max(m, n - j P) tokens, and m in the slots before.
* **Batches.** Slot f processes one token, or all without `chunked`. The others come no earlier than the segment can
  have generated its tokens so far, each at the lowest price since then.

So the least cost is found backwards over (tokens done, KV kept or not, slot). KV on the host is kept, unless it has no
room at all. After the last slot all prices are 0, and time alone counts.

Whole prices and rates make all exact. A `Route` is that of `path_kernels.py`, `rows` are those of `PriceArrays` there.
Tables have a row for each token, or one refilled where only the cost is asked for.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates.old import path_kernels as at
from kvcore.compiled import allocating, compiled


class Token(NamedTuple):
    """The token of a leg after `done` ones: KV when it is generated, and that kept.

    Its work takes `parts` slots from `first_slot` on.
    """

    leg: int
    done: int
    resident: int
    kept: int
    parts: int
    first_slot: int


class CostTables(NamedTuple):
    """Least costs [rows, slots + 1] by first slot of work, with the KV before kept or dropped."""

    kept: Any
    dropped: Any
    fee: Any
    """By leg: sums before each slot of KV's payments in the call before."""


@compiled
def make(route, k, done, keeps):
    """Return the token of leg k after `done` ones."""
    resident = route.legs[k, at.CONTEXT] + done
    kept = 0 if not keeps else resident - 1 if done else route.starts[k, 0, at.KEPT]
    parts = 1 if route.part == 0 else -(-(resident - kept) // route.part)
    return Token(k, done, resident, kept, parts, route.legs[k, at.EARLIEST] + done)


@compiled
def cost_at(token, route, chunked, rows, least, f):
    """Return the cost of a token in slot f; `least` [2, slots]: least prices of batches up to f."""
    need = token.resident - token.kept
    now = 1 if chunked else need
    cost = rows[at.DEVICE, f] * -(-token.resident // route.block) + now * rows[at.TOKENS, f] + rows[at.REQUESTS, f]
    cost += (need - now) * least[0, f] + (token.parts - 1) * least[1, f]
    for j in range(1, min(token.parts, f + 1)):
        cost += at.holding(max(token.kept, token.resident - j * route.part), False, route.block, rows, f - j)
    return cost


@compiled
def after_last(token, route, slots, f):
    """Return the cost of a token in slot f, after the last one, and of all that follow."""
    if route.legs[token.leg, at.HIGH] < slots:
        return at.NEVER
    return route.rate * (f + 1 + route.legs[token.leg, at.LEAST] - token.done - route.arrival)


@allocating
def fill_token(token, route, chunked, rows, then, values):
    """Fill `values` [slots + 1] with least costs by first slot of work; `then` are those that follow."""
    slots = rows.shape[1]
    least = np.zeros((2, slots), rows.dtype)
    if rows[at.TOKENS].any() or rows[at.REQUESTS].any():
        at.fill_least(rows[at.TOKENS], token.first_slot, least[0])
        at.fill_least(rows[at.REQUESTS], token.first_slot, least[1])
    held = 0
    for t in range(slots, -1, -1):
        f = t + token.parts - 1
        now = at.holding(token.kept, False, route.block, rows, t) if t < slots and token.kept else 0
        held += now
        if f >= slots:
            values[t] = after_last(token, route, slots, f) + (held if f > slots else 0)
        else:
            cost = cost_at(token, route, chunked, rows, least, f) + min(then[f + 1], at.NEVER)
            values[t] = min(cost, now + values[t + 1])


@compiled
def cost_in_call(route, k, rows, fee):
    """Fill `fee` [slots + 1] with sums before each slot of KV's payments in the call before leg k."""
    kept = route.starts[k, 0, at.KEPT]
    for t in range(rows.shape[1]):
        fee[t + 1] = fee[t] + at.holding(kept, route.legs[k, at.PRESERVED], route.block, rows, t)


@compiled
def late(values, token, route, r):
    """Return the cost of a token by first slot of work r, after the last one too."""
    return values[r] if r < len(values) else after_last(token, route, len(values) - 1, r + token.parts - 1)


@compiled
def after_call(route, k, dropped, kept, fee, c):
    """Return the cost of a leg whose call began before slot c, its start, and whether KV is kept."""
    pause, slots = route.legs[k - 1, at.PAUSE], len(dropped) - 1
    r = c + pause
    anew, on = make(route, k, 0, False), make(route, k, 0, True)
    if on.kept == 0:
        return late(dropped, anew, route, r), r, False
    in_call = fee[min(r, slots)] - fee[min(c, slots)]
    keep = in_call + late(kept, on, route, r)
    if route.legs[k, at.COUNT] == 2:
        drop, start = late(dropped, anew, route, r), r
    else:
        drop, start = in_call + late(dropped, anew, route, r + 1), r + 1
    return (keep, r, True) if keep <= drop else (drop, start, False)


@allocating
def least_cost(route, chunked, rows, tables):
    """Return the cost of the cheapest path; fill `tables` from the last token back."""
    legs, slots, i = route.legs, rows.shape[1], route.legs[:, at.DECODE].sum()
    then = route.rate * (np.arange(slots + 1) - route.arrival)
    for k in range(len(legs) - 1, -1, -1):
        for c in range(slots + 1):
            if not legs[k, at.LOW] < c <= legs[k, at.HIGH] + 1:
                then[c] = at.NEVER
        for done in range(legs[k, at.DECODE] - 1, -1, -1):
            i -= 1
            kept, dropped = tables.kept[i % len(tables.kept)], tables.dropped[i % len(tables.dropped)]
            fill_token(make(route, k, done, False), route, chunked, rows, then, dropped)
            if done or k:
                fill_token(make(route, k, done, True), route, chunked, rows, then, kept)
            if done:
                then[:slots] = np.minimum(kept[:slots], dropped[1:])
                then[slots] = kept[slots]
            elif k:
                fee = tables.fee[k % len(tables.fee)]
                cost_in_call(route, k, rows, fee)
                for c in range(slots + 1):
                    then[c] = after_call(route, k, dropped, kept, fee, c)[0]
    return late(tables.dropped[0], make(route, 0, 0, False), route, route.arrival)


def cheapest(route: at.Route, chunked: bool, rows: Any) -> int:
    """Return the cost of the cheapest path (`NEVER` or more: none is allowed)."""
    return int(least_cost(route, chunked, rows, CostTables(*np.zeros((3, 1, rows.shape[1] + 1), np.int64))))
