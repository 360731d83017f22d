"""Compiled: the cheapest path of a request that may be evicted, through priced slots; floating point only proposes.

What `kvcore/certificates/evictions.py` does exactly, on arrays, is done here slot by slot, with what the path takes.
`rows` [4, slots] are the prices of device blocks, host tokens, and tokens and requests of a batch.
"""

from typing import NamedTuple

import numpy as np

from kvcore.certificates import path_kernels as at
from kvcore.compiled import compiled


class Token(NamedTuple):
    """One token: KV when it is generated, and that which was kept; slots that its work takes, and may begin in."""

    resident: int
    kept: int
    parts: int
    since: int


@compiled
def lies(rows, tokens, block, t):
    """Return what KV pays in slot t where it is cheaper, on the device or the host."""
    return min(rows[at.DEVICE, t] * -(-tokens // block), rows[at.HOST, t] * tokens)


@compiled
def make(route, k, done, keeps):
    """Return the token of leg k after `done` ones, with the KV before it kept or dropped."""
    resident = route.legs[k, at.CONTEXT] + done
    kept = 0 if not keeps else resident - 1 if done else route.starts[k, 0, at.KEPT]
    parts = 1 if route.part == 0 else -(-(resident - kept) // route.part)
    return Token(resident, kept, parts, route.legs[k, at.EARLIEST] + done)


@compiled
def cost_at(token, route, chunked, rows, least, f):
    """Return what a token pays that is generated in slot f; `least` [2, slots]: least prices of batches up to f."""
    need = token.resident - token.kept
    now = 1 if chunked else need
    cost = rows[at.DEVICE, f] * -(-token.resident // route.block) + now * rows[at.TOKENS, f] + rows[at.REQUESTS, f]
    cost += (need - now) * least[0, f] + (token.parts - 1) * least[1, f]
    for j in range(1, min(token.parts, f + 1)):
        cost += lies(rows, max(token.kept, token.resident - j * route.part), route.block, f - j)
    return cost


@compiled
def fill_token(token, route, chunked, rows, then, beyond, values):
    """Fill `values` [slots + 1] with the least cost by the slot in which a token's work may begin, or later.

    `then` [slots + 1] are the costs of what follows; a token in slot f after the last costs `beyond` + rate f.
    """
    slots = rows.shape[1]
    least = np.zeros((2, slots))
    if rows[at.TOKENS].any() or rows[at.REQUESTS].any():
        at.fill_least(rows[at.TOKENS], token.since, least[0])
        at.fill_least(rows[at.REQUESTS], token.since, least[1])
    held = 0.0
    for t in range(slots, -1, -1):
        f = t + token.parts - 1
        now = lies(rows, token.kept, route.block, t) if t < slots and token.kept else 0.0
        held += now
        if f >= slots:
            values[t] = beyond + route.rate * f + (held if f > slots else 0.0)
        else:
            cost = cost_at(token, route, chunked, rows, least, f) + then[f + 1]
            values[t] = min(cost, now + values[t + 1])


@compiled
def cost_in_call(route, k, rows, fee):
    """Fill `fee` [slots + 1] with the sums before each slot of what KV pays in the call before leg k."""
    kept = route.starts[k, 0, at.KEPT]
    for t in range(rows.shape[1]):
        on_device = rows[at.DEVICE, t] * -(-kept // route.block)
        fee[t + 1] = fee[t] + (on_device if route.legs[k, at.PRESERVED] else lies(rows, kept, route.block, t))


@compiled
def late(values, token, beyond, rate, r):
    """Return the cost of a token whose work may begin in slot r, after the last one too."""
    return values[r] if r < len(values) else beyond + rate * (r + token.parts - 1)


@compiled
def after_call(route, k, rate, dropped, kept, fee, beyond, c):
    """Return the cost of a leg whose call began before slot c, where it goes on from, and whether KV is kept."""
    pause, slots = route.legs[k - 1, at.PAUSE], len(dropped) - 1
    r = c + pause
    anew, on = make(route, k, 0, False), make(route, k, 0, True)
    if on.kept == 0:
        return late(dropped, anew, beyond, rate, r), r, False
    in_call = fee[min(r, slots)] - fee[min(c, slots)]
    keep = in_call + late(kept, on, beyond, rate, r)
    if route.legs[k, at.COUNT] == 2:
        drop, start = late(dropped, anew, beyond, rate, r), r
    else:
        drop, start = in_call + late(dropped, anew, beyond, rate, r + 1), r + 1
    return (keep, r, True) if keep <= drop else (drop, start, False)


@compiled
def walk_with_evictions(route, chunked, rows, use, path):
    """Return the cost of the cheapest path; what it takes is added to `use` [4, slots].

    `path` [k, 3] is filled with (the first slot of each segment, if it had no break, ..).
    """
    legs, rate, arrival = route.legs, route.rate, route.arrival
    slots, K = rows.shape[1], len(legs)
    first = np.zeros(K + 1, np.int64)
    for k in range(K):
        first[k + 1] = first[k] + legs[k, at.DECODE]
    kept, dropped = np.zeros((first[K], slots + 1)), np.zeros((first[K], slots + 1))
    fee = np.zeros((K, slots + 1))
    then = rate * (np.arange(slots + 1) - arrival)
    for k in range(K - 1, -1, -1):
        for c in range(slots + 1):
            if not legs[k, at.LOW] < c <= legs[k, at.HIGH] + 1:
                then[c] = at.NEVER
        for done in range(legs[k, at.DECODE] - 1, -1, -1):
            i, beyond = first[k] + done, after_last(route, k, slots) - rate * done
            fill_token(make(route, k, done, False), route, chunked, rows, then, beyond, dropped[i])
            if done:
                fill_token(make(route, k, done, True), route, chunked, rows, then, beyond, kept[i])
                then = kept[i].copy()
                for t in range(slots):
                    then[t] = min(then[t], dropped[i, t + 1])
            elif k:
                fill_token(make(route, k, 0, True), route, chunked, rows, then, beyond, kept[i])
                cost_in_call(route, k, rows, fee[k])
                then = np.empty(slots + 1)
                for c in range(slots + 1):
                    then[c] = after_call(route, k, rate, dropped[i], kept[i], fee[k], beyond, c)[0]
    total = late(dropped[0], make(route, 0, 0, False), after_last(route, 0, slots), rate, arrival)
    follow_evicted(route, chunked, rows, first, kept, dropped, fee, use, path)
    return total


@compiled
def after_last(route, k, slots):
    """Return what leg k costs, but for the rate times the slot of its first token, if that is after the last one."""
    return at.NEVER if route.legs[k, at.HIGH] < slots else route.rate * (1 + route.legs[k, at.LEAST] - route.arrival)


@compiled
def follow_evicted(route, chunked, rows, first, kept, dropped, fee, use, path):
    """Add to `use` what the cheapest path takes."""
    legs, rate, slots = route.legs, route.rate, rows.shape[1]
    c = route.arrival
    for k in range(len(legs)):
        r, keeps = c, False
        if k:
            beyond = after_last(route, k, slots)
            _, r, keeps = after_call(route, k, rate, dropped[first[k]], kept[first[k]], fee[k], beyond, c)
            if keeps or legs[k, at.COUNT] == 1:
                end = min(slots, c + legs[k - 1, at.PAUSE])
                hold(rows, route.starts[k, 0, at.KEPT], route.block, legs[k, at.PRESERVED], c, end, use)
        for done in range(legs[k, at.DECODE]):
            i = first[k] + done
            if done:
                keeps = r >= slots or kept[i, r] <= dropped[i, r + 1]
                r += not keeps
            token = make(route, k, done, keeps)
            values = kept[i] if keeps else dropped[i]
            t = min(r, slots)
            while t + token.parts - 1 < slots:
                now = lies(rows, token.kept, route.block, t) if token.kept else 0.0
                if values[t] < now + values[t + 1]:
                    break
                t += 1
            hold(rows, token.kept, route.block, False, r, min(t, slots), use)
            f = max(r, t) + token.parts - 1
            if f < slots:
                take(token, route, chunked, rows, f, use)
            r = f + 1
        c, path[k, 0] = r, r - legs[k, at.DECODE]


@compiled
def hold(rows, tokens, block, on_device, begin, end, use):
    """Add KV that lies somewhere in the slots `begin` to `end` - 1."""
    if tokens:
        for t in range(begin, end):
            if not on_device and rows[at.HOST, t] * tokens < rows[at.DEVICE, t] * -(-tokens // block):
                use[at.HOST, t] += tokens
            else:
                use[at.DEVICE, t] += -(-tokens // block)


@compiled
def take(token, route, chunked, rows, f, use):
    """Add what a token takes that is generated in slot f."""
    need = token.resident - token.kept
    now = 1 if chunked else need
    use[at.DEVICE, f] += -(-token.resident // route.block)
    use[at.TOKENS, f] += now
    use[at.REQUESTS, f] += 1
    for j in range(1, min(token.parts, f + 1)):
        hold(rows, max(token.kept, token.resident - j * route.part), route.block, False, f - j, f - j + 1, use)
    for row, amount in ((at.TOKENS, need - now), (at.REQUESTS, token.parts - 1)):
        if amount and token.since <= f:
            use[row, token.since + np.argmin(rows[row, token.since : f + 1])] += amount
