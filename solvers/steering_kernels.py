"""Compiled: a run of the index rule (`heuristics.policies.index`) in floating point, which only proposes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from heuristics.policies.index import HEADROOM, LEAST

Array = Any
CLOSE = 1e-6
"""Ticks by which a batch that is counted in floating point may be too long."""


class Costs(NamedTuple):
    """The linear parts of a cost, [functions], in ticks."""

    token: Array
    generated: Array
    pair: Array
    decode: Array
    decode_kv: Array
    prefill: Array
    prefill_kv: Array
    busy: Array
    any_decode: Array
    any_prefill: Array
    knee: Array
    above: Array


class Limits(NamedTuple):
    """Tokens of memory, of a batch, of its prefills; its requests."""

    memory: int
    tokens: int
    prefill: int
    requests: int


@njit(cache=True)
def adds(costs, k, resident, tokens, decodes):
    """Return what a request adds to a batch, by function k."""
    if decodes:
        return costs.decode[k] + costs.decode_kv[k] * resident
    pairs = costs.pair[k] * tokens * (tokens + 2.0 * resident)
    fixed = costs.generated[k] + costs.prefill[k]
    return fixed + costs.token[k] * tokens + costs.prefill_kv[k] * resident + pairs


@njit(cache=True)
def simulate(costs, limits, arrival, prompt, output, window, r0, groups, factors, chunks):
    """Return when each request has its first token and its end, by `Index`; infinite where nothing can work."""
    n, functions = len(arrival), len(costs.busy)
    held, left = np.zeros(n, np.int64), output.copy()
    first, end, work = np.full(n, np.inf), np.full(n, np.inf), np.zeros(n)
    present, batch, joins = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.bool_)
    parts = np.zeros(functions)
    shared, extra = np.max(costs.busy + costs.any_decode), np.max(costs.any_prefill)
    now, come, count, done, memory, lost = 0.0, 0, 0, 0, 0, 0.0
    while done < n:
        while come < n and arrival[come] <= now:
            present[count] = come
            count, come = count + 1, come + 1
        if count == 0:
            now = float(arrival[come])
            continue
        coming, holds, refills = 0, 0, False
        for a in range(count):
            j = present[a]
            known = prompt[j] + output[j] - left[j]
            missing, rest = known - held[j], left[j] - 1
            work[j] = 0.0
            for k in range(functions):
                total = adds(costs, k, held[j], missing, missing == 1 and held[j] > 0)
                total += rest * (costs.decode[k] + costs.decode_kv[k] * (known + (rest - 1) / 2))
                work[j] = max(work[j], total)
            work[j] *= factors[j]
            if held[j] > 0:
                coming, holds, refills = coming + missing + rest, holds + 1, refills or missing > 1
            b = a - 1
            while b >= 0 and (work[present[b]] > work[j] or (work[present[b]] == work[j] and present[b] > j)):
                present[b + 1] = present[b]
                b -= 1
            present[b + 1] = j
        at = min(len(r0) - 1, int(now / window))
        growth, closed, joining = 0, False, 0
        for a in range(count):
            j = present[a]
            growth += prompt[j] + output[j] - left[j] - held[j]
            closed = closed or (held[j] == 0 and growth + HEADROOM * coming > limits.memory - memory)
            joins[j] = held[j] > 0 or not closed
            joining += joins[j] and held[j] == 0
        lost += shared * joining / max(1, holds + joining)
        waits = holds > 0 and not refills and lost < groups[at] * extra
        best, size, worth, some, chunk = -1.0, 0, 0.0, 0, limits.prefill
        for a in range(count):
            j = present[a]
            joins[j] = joins[j] and (held[j] > 0 or not waits)
            if joins[j] and (held[j] == 0 or prompt[j] + output[j] - left[j] - held[j] > 1):
                chunk = min(chunk, chunks[j])
                break
        tokens, prefill, decodes, prefills = limits.tokens, chunk, False, False
        parts[:] = 0.0
        for a in range(count):
            j = present[a]
            missing = prompt[j] + output[j] - left[j] - held[j]
            joins[j] = joins[j] and (held[j] > 0 or not waits)
            decode = missing == 1 and held[j] > 0
            take = min(missing, tokens if decode else min(tokens, prefill))
            if not joins[j] or take <= 0 or some == limits.requests:
                continue
            tokens, some = tokens - take, some + 1
            decodes, prefills = decodes or decode, prefills or not decode
            if not decode:
                prefill -= take
            most, lasts = 0.0, 1.0
            for k in range(functions):
                part = adds(costs, k, held[j], take, decode)
                parts[k] += part
                most = max(most, part)
                lasts = max(lasts, parts[k] + fixed(costs, k, limits.tokens - tokens, decodes, prefills))
            worth += most / (work[j] + r0[at])
            if worth / lasts >= best:
                best, size = worth / lasts, a + 1
        tokens, prefill, decodes, prefills, some = limits.tokens, chunk, False, False, 0
        parts[:] = 0.0
        for a in range(count):
            j = present[a]
            if a >= size and some > 0:
                break
            missing = prompt[j] + output[j] - left[j] - held[j]
            decode = missing == 1 and held[j] > 0
            take = min(missing, tokens if decode else min(tokens, prefill))
            if not joins[j] or take <= 0 or some == limits.requests:
                continue
            if held[j] > 0 and take > limits.memory - memory:
                after = 0
                for b in range(a + 1, count):
                    after += held[present[b]]
                last = count - 1
                while take <= limits.memory - memory + after and take > limits.memory - memory:
                    i = present[last]
                    if held[i] > 0:
                        memory, after = memory - held[i], after - held[i]
                        held[i], joins[i] = 0, False
                    last -= 1
            if take > limits.memory - memory:
                continue
            for k in range(functions):
                parts[k] += adds(costs, k, held[j], take, decode)
            batch[some] = j
            tokens, some = tokens - take, some + 1
            decodes, prefills = decodes or decode, prefills or not decode
            if not decode:
                prefill -= take
            held[j] += take
            memory += take
        if some == 0:
            return first, end
        if prefills:
            lost = 0.0
        lasts = 1.0
        for k in range(functions):
            used = limits.tokens - tokens
            lasts = max(lasts, np.ceil(parts[k] - LEAST * used + fixed(costs, k, used, decodes, prefills) - CLOSE))
        now += lasts
        for a in range(some):
            j = batch[a]
            if held[j] < prompt[j] + output[j] - left[j]:
                continue
            if left[j] == output[j]:
                first[j] = min(first[j], now)
            left[j] -= 1
            if left[j] == 0:
                end[j] = now
                done, memory, held[j] = done + 1, memory - held[j], 0
        stay = 0
        for a in range(count):
            if left[present[a]] > 0:
                present[stay] = present[a]
                stay += 1
        count = stay
    return first, end


@njit(cache=True)
def fixed(costs, k, tokens, decodes, prefills):
    """Return what a batch takes besides what its requests add, by function k."""
    hinged = costs.above[k] * max(0.0, tokens - costs.knee[k])
    return costs.busy[k] + costs.any_decode[k] * decodes + costs.any_prefill[k] * prefills + hinged
