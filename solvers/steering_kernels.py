"""Compiled: a run of the index rule in floating point, which only proposes."""

from typing import Any, NamedTuple

import numpy as np

from heuristics.policies.index import HEADROOM, LEAST
from kvcore.compiled import allocating, compiled, inlined

Array = Any
CLOSE = 1e-6
"""Ticks by which a batch counted in floating point may be too long."""


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


class Requests(NamedTuple):
    """The requests by arrival: in ticks and tokens, with the factor of work and the most tokens of a prefill."""

    arrival: Array
    prompt: Array
    output: Array
    factors: Array
    chunks: Array


class RunState(NamedTuple):
    """A run's state: of each request its KV, missing KV, tokens to go, work, and whether it joins.

    Besides: who is present, in order; the batch; and its use by each function of the cost.
    """

    held: Array
    lacks: Array
    left: Array
    work: Array
    joins: Array
    present: Array
    batch: Array
    parts: Array


@compiled
def adds(costs, k, resident, tokens, decodes):
    """Return what a request adds to a batch, by function k."""
    if decodes:
        return costs.decode[k] + costs.decode_kv[k] * resident
    pairs = costs.pair[k] * tokens * (tokens + 2.0 * resident)
    fixed = costs.generated[k] + costs.prefill[k]
    return fixed + costs.token[k] * tokens + costs.prefill_kv[k] * resident + pairs


@allocating
def simulate(costs, limits, jobs, steps):
    """Return when each request has its first token and its end, by `Index`; infinite where nothing can work.

    `steps` are `heuristics.policies.index.Windows` in ticks.
    """
    n = len(jobs.arrival)
    held, lacks, present, batch = np.zeros((4, n), np.int64)
    joins, parts = np.zeros(n, np.bool_), np.zeros(len(costs.busy))
    run = RunState(held, lacks, jobs.output.copy(), np.zeros(n), joins, present, batch, parts)
    first, end = np.full(n, np.inf), np.full(n, np.inf)
    shared, extra = np.max(costs.busy + costs.any_decode), np.max(costs.any_prefill)
    now, come, count, done, memory, lost = 0.0, 0, 0, 0, 0, 0.0
    while done < n:
        while come < n and jobs.arrival[come] <= now:
            run.present[count] = come
            count, come = count + 1, come + 1
        if count == 0:
            now = float(jobs.arrival[come])
            continue
        coming, holds, refills = rank(costs, jobs, run, count)
        at = min(len(steps.r0) - 1, int(now / steps.seconds))
        joining = admit(run, count, limits.memory - memory - HEADROOM * coming)
        lost += shared * joining / max(1, holds + joining)
        chunk = wait(limits, jobs, run, count, holds > 0 and not refills and lost < steps.group[at] * extra)
        size = paying(costs, limits, run, count, chunk, steps.r0[at])
        some, used, memory, decodes, prefills = fill(costs, limits, run, count, chunk, size, memory)
        if some == 0:
            return first, end
        if prefills:
            lost = 0.0
        lasts = 1.0
        for k in range(len(costs.busy)):
            part = run.parts[k] - LEAST * used + fixed(costs, k, used, decodes, prefills)
            lasts = max(lasts, np.ceil(part - CLOSE))
        now += lasts
        for a in range(some):
            j = run.batch[a]
            if run.lacks[j] > 0:
                continue
            if run.left[j] == jobs.output[j]:
                first[j] = min(first[j], now)
            run.left[j] -= 1
            if run.left[j] == 0:
                end[j] = now
                done, memory, run.held[j] = done + 1, memory - run.held[j], 0
        stay = 0
        for a in range(count):
            if run.left[run.present[a]] > 0:
                run.present[stay] = run.present[a]
                stay += 1
        count = stay
    return first, end


@compiled
def missing(jobs, run, j):
    """Return the tokens of KV that request j lacks for its next token."""
    return jobs.prompt[j] + jobs.output[j] - run.left[j] - run.held[j]


@inlined
def rank(costs, jobs, run, count):
    """Sort those present by the work left; return what those with KV will add, their number, and if one refills."""
    coming, holds, refills, present = 0, 0, False, run.present
    for a in range(count):
        j = present[a]
        known, rest, work = jobs.prompt[j] + jobs.output[j] - run.left[j], run.left[j] - 1, 0.0
        run.lacks[j] = lacks = known - run.held[j]
        for k in range(len(costs.busy)):
            total = adds(costs, k, run.held[j], lacks, lacks == 1 and run.held[j] > 0)
            total += rest * (costs.decode[k] + costs.decode_kv[k] * (known + (rest - 1) / 2))
            work = max(work, total)
        run.work[j] = work = work * jobs.factors[j]
        if run.held[j] > 0:
            coming, holds, refills = coming + lacks + rest, holds + 1, refills or lacks > 1
        b = a - 1
        while b >= 0 and (run.work[present[b]] > work or (run.work[present[b]] == work and present[b] > j)):
            present[b + 1] = present[b]
            b -= 1
        present[b + 1] = j
    return coming, holds, refills


@inlined
def admit(run, count, room):
    """Let those with KV join, and others, in order, as long as all fit; return how many others join."""
    growth, closed, joining = 0, False, 0
    for a in range(count):
        j = run.present[a]
        growth += run.lacks[j]
        closed = closed or (run.held[j] == 0 and growth > room)
        run.joins[j] = run.held[j] > 0 or not closed
        joining += run.joins[j] and run.held[j] == 0
    return joining


@compiled
def wait(limits, jobs, run, count, waits):
    """Let nobody without KV join, if they wait; return the chunk of the first prefill."""
    for a in range(count):
        j = run.present[a]
        run.joins[j] = run.joins[j] and (run.held[j] > 0 or not waits)
    for a in range(count):
        j = run.present[a]
        if run.joins[j] and (run.held[j] == 0 or run.lacks[j] > 1):
            return min(limits.prefill, jobs.chunks[j])
    return limits.prefill


@inlined
def paying(costs, limits, run, count, chunk, r0):
    """Return how many of those present the batch with the most worth for its time takes."""
    best, size, worth, some = -1.0, 0, 0.0, 0
    tokens, prefill, decodes, prefills = limits.tokens, chunk, False, False
    run.parts[:] = 0.0
    for a in range(count):
        j = run.present[a]
        decode = run.lacks[j] == 1 and run.held[j] > 0
        take = min(run.lacks[j], tokens if decode else min(tokens, prefill))
        if not run.joins[j] or take <= 0 or some == limits.requests:
            continue
        tokens, some = tokens - take, some + 1
        decodes, prefills = decodes or decode, prefills or not decode
        if not decode:
            prefill -= take
        most, lasts = 0.0, 1.0
        for k in range(len(costs.busy)):
            part = adds(costs, k, run.held[j], take, decode)
            run.parts[k] += part
            most = max(most, part)
            lasts = max(lasts, run.parts[k] + fixed(costs, k, limits.tokens - tokens, decodes, prefills))
        worth += most / (run.work[j] + r0)
        if worth / lasts >= best:
            best, size = worth / lasts, a + 1
    return size


@inlined
def fill(costs, limits, run, count, chunk, size, memory):
    """Make the batch of the first `size` present, who evict the last.

    Return its requests and tokens, the memory then, and whether it has decodes and prefills.
    """
    tokens, prefill, decodes, prefills, some = limits.tokens, chunk, False, False, 0
    run.parts[:] = 0.0
    for a in range(count):
        j = run.present[a]
        if a >= size and some > 0:
            break
        decode = run.lacks[j] == 1 and run.held[j] > 0
        take = min(run.lacks[j], tokens if decode else min(tokens, prefill))
        if not run.joins[j] or take <= 0 or some == limits.requests:
            continue
        if run.held[j] > 0 and take > limits.memory - memory:
            memory = evict(run, count, a, take - limits.memory, memory)
        if take > limits.memory - memory:
            continue
        for k in range(len(costs.busy)):
            run.parts[k] += adds(costs, k, run.held[j], take, decode)
        run.batch[some] = j
        tokens, some = tokens - take, some + 1
        decodes, prefills = decodes or decode, prefills or not decode
        if not decode:
            prefill -= take
        run.held[j] += take
        run.lacks[j] -= take
        memory += take
    return some, limits.tokens - tokens, memory, decodes, prefills


@compiled
def evict(run, count, a, over, memory):
    """Evict those behind place `a`, the last first, until `over` and the memory are at most 0, if all do."""
    after, last = 0, count - 1
    for b in range(a + 1, count):
        after += run.held[run.present[b]]
    while over + memory - after <= 0 and over + memory > 0:
        i = run.present[last]
        if run.held[i] > 0:
            memory, after = memory - run.held[i], after - run.held[i]
            run.held[i], run.joins[i] = 0, False
        last -= 1
    return memory


@compiled
def fixed(costs, k, tokens, decodes, prefills):
    """Return what a batch takes besides its requests, by function k."""
    hinged = costs.above[k] * max(0.0, tokens - costs.knee[k])
    return costs.busy[k] + costs.any_decode[k] * decodes + costs.any_prefill[k] * prefills + hinged
