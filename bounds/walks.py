"""Compiled: the use of cheapest paths through priced slots, and through networks of configurations.

In floating point. `kvcore.certificates.path_kernels` says what the cheapest paths cost, where only every `stride`-th
slot of a segment's first token may be looked at.
"""

import numpy as np

from kvcore.certificates import evictions as evicted
from kvcore.certificates import path_kernels as at
from kvcore.compiled import allocating, compiled

FAR = at.NEVER / 2
"""A bound from here on: some request has no path that ends its segments as it must."""


@allocating
def walk(route, prices, stride, path):
    """Fill `path` [k, 3] with (first slot, start, kept since) of each segment on the cheapest path; return its cost."""
    legs, table = route.legs, at.least_costs(route, prices, stride)
    slots, c, s = prices.rows.shape[1], route.arrival, 0
    for k in range(len(legs)):
        f = c + (legs[k - 1, at.PAUSE] if k else 0) + route.starts[k, s, at.SLOTS] - 1
        if f < slots:
            low = table.lows[k, s]
            i = at.place(f, low, stride)
            while low + i * stride < slots and table.best[k, s, i] == table.best[k, s, i + 1]:
                i += 1
            f = low + i * stride
        path[k, 0], path[k, 1], path[k, 2] = min(f, slots), s, min(c, slots)
        c = path[k, 0] + legs[k, at.DECODE]
        if k < len(legs) - 1:
            s = at.after(c, k, route, table)[1]
    return at.least_cost(route, table)


@compiled
def add_use(route, path, prices, use):
    """Add the use of a path to `use` [4, slots], the rows of `prices`."""
    legs, starts, part, block = route.legs, route.starts, route.part, route.block
    device, slots = use[0], use.shape[1]
    for k in range(len(legs)):
        f, s, since = path[k, 0], path[k, 1], path[k, 2]
        context, start = legs[k, at.CONTEXT], starts[k, s]
        kept, need, count = start[at.KEPT], start[at.NEED], start[at.SLOTS]
        for t in range(since if kept else max(f - count + 1, 0), min(f, slots)):
            resident = context - (f - t) * part if t > f - count else 0
            if resident > kept:
                device[t] += -(-resident // block)
            else:
                hold(prices, kept, block, legs[k, at.PRESERVED], t, t + 1, use)
        for j in range(min(legs[k, at.DECODE], slots - f)):
            device[f + j] += -(-(context + j) // block)
        charge(use[2], prices[2], legs[k, at.EARLIEST], f, legs[k, at.DECODE], need)
        charge(use[3], prices[3], legs[k, at.EARLIEST], f, legs[k, at.DECODE], count)


@compiled
def charge(use, prices, earliest, first, decode, need):
    """Add `need` at the first slot and one at each later; each where its price was least since `earliest`."""
    slots, cheapest, low = len(use), earliest, FAR
    for t in range(earliest, min(first + decode, slots)):
        if prices[t] <= low:
            cheapest, low = t, prices[t]
        if t == first:
            use[cheapest] += need
        elif t > first:
            use[cheapest] += 1


@allocating
def walk_with_evictions(route, chunked, rows, use, path):
    """Return the cost of the cheapest path where KV may be evicted; add its use to `use` [4, slots].

    `path` [k, 3] gets (first slot of each segment, if it had no break, ..).
    """
    legs, slots = route.legs, rows.shape[1]
    shape = legs[:, at.DECODE].sum(), slots + 1
    tables = evicted.CostTables(np.zeros(shape), np.zeros(shape), np.zeros((len(legs), slots + 1)))
    total = evicted.least_cost(route, chunked, rows, tables)
    c, i = route.arrival, 0
    for k in range(len(legs)):
        r, keeps = c, False
        if k:
            _, r, keeps = evicted.after_call(route, k, tables.dropped[i], tables.kept[i], tables.fee[k], c)
            if keeps or legs[k, at.COUNT] == 1:
                end = min(slots, c + legs[k - 1, at.PAUSE])
                hold(rows, route.starts[k, 0, at.KEPT], route.block, legs[k, at.PRESERVED], c, end, use)
        for done in range(legs[k, at.DECODE]):
            kept, dropped = tables.kept[i], tables.dropped[i]
            if done:
                keeps = r >= slots or kept[r] <= dropped[r + 1]
                r += not keeps
            token = evicted.make(route, k, done, keeps)
            r = take_token(token, route, chunked, rows, kept if keeps else dropped, r, use) + 1
            i += 1
        c, path[k, 0] = r, r - legs[k, at.DECODE]
    return total


@compiled
def take_token(token, route, chunked, rows, values, r, use):
    """Add the use of a token with work from slot r on; return the slot in which it is generated."""
    slots = rows.shape[1]
    t = min(r, slots)
    while t + token.parts - 1 < slots:
        now = at.holding(token.kept, False, route.block, rows, t) if token.kept else 0.0
        if values[t] < now + values[t + 1]:
            break
        t += 1
    hold(rows, token.kept, route.block, False, r, min(t, slots), use)
    f = max(r, t) + token.parts - 1
    if f < slots:
        take(token, route, chunked, rows, f, use)
    return f


@compiled
def hold(rows, tokens, block, on_device, begin, end, use):
    """Add KV somewhere in the slots `begin` to `end` - 1."""
    if tokens:
        for t in range(begin, end):
            if not on_device and rows[at.HOST, t] * tokens < rows[at.DEVICE, t] * -(-tokens // block):
                use[at.HOST, t] += tokens
            else:
                use[at.DEVICE, t] += -(-tokens // block)


@compiled
def take(token, route, chunked, rows, f, use):
    """Add the use of a token generated in slot f, without waiting."""
    need = token.resident - token.kept
    now = 1 if chunked else need
    use[at.DEVICE, f] += -(-token.resident // route.block)
    use[at.TOKENS, f] += now
    use[at.REQUESTS, f] += 1
    for j in range(1, min(token.parts, f + 1)):
        hold(rows, max(token.kept, token.resident - j * route.part), route.block, False, f - j, f - j + 1, use)
    for row, amount in ((at.TOKENS, need - now), (at.REQUESTS, token.parts - 1)):
        if amount and token.first_slot <= f:
            use[row, token.first_slot + np.argmin(rows[row, token.first_slot : f + 1])] += amount


@compiled
def fill(values, ticks, cost, begin, base, next, later):
    """Fill in the least cost from each base at each tick, from the last tick back."""
    values[ticks] = 0.0
    for t in range(ticks - 1, -1, -1):
        for b in range(len(later)):
            values[t, b] = values[t + 1, later[b]]
        for s in range(1, len(begin) - 1):
            if cost[t, s] < 0.0:
                for r in range(begin[s], begin[s + 1]):
                    values[t, base[r]] = min(values[t, base[r]], cost[t, s] + values[t + 1, next[r]])


@allocating
def follow(values, ticks, cost, begin, base, next, later):
    """Return the set that starts at each tick on a cheapest path from the empty configuration."""
    chosen = np.zeros(ticks, np.int64)
    node = 0
    for t in range(ticks):
        least, head = values[t + 1, later[node]], later[node]
        for s in range(1, len(begin) - 1):
            if cost[t, s] < 0.0:
                r = begin[s] + np.searchsorted(base[begin[s] : begin[s + 1]], node)
                if r < begin[s + 1] and base[r] == node and cost[t, s] + values[t + 1, next[r]] < least:
                    least, head, chosen[t] = cost[t, s] + values[t + 1, next[r]], next[r], s
        node = head
    return chosen
