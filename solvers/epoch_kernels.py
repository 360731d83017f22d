"""Schedules from a few choices: an order of the requests and some switches for each epoch; annealing over them.

An epoch ends with each end of a segment and each return. In each batch the requests reserve blocks in order; who has
its whole context reserved works; KV beyond a reserve goes, block by block, to the host as far as the batch hides the
copy, else it is dropped; it comes back likewise, the first in order first. Integers, as the rules have them; the
referee judges what is found.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import compiled
from kvcore.instance import LIMIT

Array = Any
KEEP, DROP, CHUNK, EARLY, DIRECT, SPLIT, AWAIT, END = (1 << k for k in range(8))
"""Switches of an epoch.

KEEP: requests in calls reserve their KV. DROP: none is swapped out to make room. CHUNK: a prefill ends when a request
of higher priority returns. EARLY: KV beyond a reserve is swapped out as soon as a batch hides it. DIRECT: KV comes from
the host in the batch of the refill; SPLIT: only as much as takes as long as the refill. AWAIT: no refill that does not
end before one of higher priority returns.
"""
MAKING, CALLING, DONE = range(3)
TOKENS, DEVICE, HOST, READY, PHASE, WINDOW, RESERVE, NEED, WORK, LOST, OUT, IN, AT, ROWS = range(14)
"""Rows of the state, a column a request: tokens generated, KV, when it is ready, and so on.

WORK, LOST, OUT, IN: what the batch does. AT: the request at each place of the order.
"""


class Jobs(NamedTuple):
    """Requests and machine; `least`: tokens of a prefill in parts, `most`: batches.

    `context[i, q]`: tokens known before token q; `call[i, q]`: the call after it (-1: none).
    """

    arrival: Array
    count: Array
    context: Array
    call: Array
    rate: Array
    busy: Array
    tokens: Array
    swap_out: Array
    swap_in: Array
    divisor: Array
    orders: Array
    blocks: int
    block: int
    host: int
    batch: int
    chunked: bool
    least: int
    most: int


class Genes(NamedTuple):
    """Of each epoch: order, switches; both again (from `count` on) after `cut` batches of it."""

    order: Array
    switches: Array
    cut: Array


@compiled
def up(tokens, block):
    """Return blocks."""
    return -(-tokens // block)


@compiled
def duration(jobs, tokens, out, back):
    """Return the ticks of a batch."""
    longest = 1
    for k in range(len(jobs.busy)):
        busy = (
            (jobs.busy[k] if tokens else 0) + jobs.tokens[k] * tokens + jobs.swap_out[k] * out + jobs.swap_in[k] * back
        )
        longest = max(longest, up(busy, jobs.divisor[k]))
    return longest


@compiled
def hidden(jobs, tokens, ticks):
    """Return the tokens that can be swapped beside work within these ticks."""
    most = LIMIT
    for k in range(len(jobs.busy)):
        if jobs.swap_out[k] + jobs.swap_in[k]:
            busy = (jobs.busy[k] if tokens else 0) + jobs.tokens[k] * tokens
            most = min(most, (ticks * jobs.divisor[k] - busy) // max(jobs.swap_out[k], jobs.swap_in[k]))
    return max(0, most)


@compiled
def prefix(jobs, ticks):
    """Return the tokens that a batch processes in these ticks."""
    most = LIMIT
    for k in range(len(jobs.busy)):
        if jobs.tokens[k]:
            most = min(most, (ticks * jobs.divisor[k] - jobs.busy[k]) // jobs.tokens[k])
    return most


@compiled
def total(x, row):
    """Return the sum of a row."""
    found = 0
    for i in range(x.shape[1]):
        found += x[row, i]
    return found


@compiled
def later(jobs, x, i, now, until):
    """Whether a request of higher priority than `i` returns after `now` and before `until`."""
    for place in range(x.shape[1]):
        j = x[AT, place]
        if j == i:
            return False
        if x[PHASE, j] != DONE and now < x[READY, j] < until:
            return True
    return False


@compiled
def reserve(jobs, x, now, keep):
    """Reserve blocks in order, for those in calls if `keep`, else what is left."""
    left = jobs.blocks
    for place in range(x.shape[1]):
        i = x[AT, place]
        held = up(x[DEVICE, i] + x[HOST, i], jobs.block)
        need = held if keep else 0
        if x[PHASE, i] == DONE:
            need = 0
        elif x[READY, i] <= now:
            need = up(jobs.context[i, x[TOKENS, i]], jobs.block)
        x[NEED, i], x[RESERVE, i] = need, min(left, need)
        left -= x[RESERVE, i]
    for place in range(0 if keep else x.shape[1]):
        i = x[AT, place]
        if x[PHASE, i] != DONE and x[READY, i] > now:
            x[RESERVE, i] = min(left, up(x[DEVICE, i] + x[HOST, i], jobs.block))
            left -= x[RESERVE, i]


@compiled
def make_room(jobs, x, candidate, want, free, copies, drops):
    """Let requests give up blocks beyond their reserve, the last in order first; return free blocks and copies left."""
    hosted = total(x, HOST) + total(x, OUT)
    for place in range(x.shape[1] - 1, -1, -1):
        v = x[AT, place]
        while free < want and v != candidate and not x[WORK, v] and not x[IN, v] and x[PHASE, v] != DONE:
            left = x[DEVICE, v] - x[OUT, v] - max(0, x[LOST, v] - x[HOST, v])
            if up(left, jobs.block) <= x[RESERVE, v]:
                break
            tail = left - (up(left, jobs.block) - 1) * jobs.block
            if x[LOST, v] == 0 and tail <= copies and hosted + tail <= jobs.host:
                x[OUT, v] += tail
                copies -= tail
                hosted += tail
            elif drops and x[HOST, v] == 0 and x[OUT, v] == 0:
                x[LOST, v] += tail
            else:
                break
            free += 1
    return free, copies


@compiled
def choose_work(jobs, x, now, event, switches, free):
    """Let requests with their context reserved work; return free blocks and tokens."""
    tokens, copies = 0, 0 if switches & DROP else hidden(jobs, 1, duration(jobs, 1, 0, 0))
    for place in range(x.shape[1]):
        i = x[AT, place]
        if x[PHASE, i] == DONE or x[READY, i] > now or x[RESERVE, i] < x[NEED, i] or x[OUT, i] or x[LOST, i]:
            continue
        missing = jobs.context[i, x[TOKENS, i]] - x[DEVICE, i]
        end = now + duration(jobs, missing, 0, 0)
        if switches & AWAIT and missing > 1 and not tokens and not switches & CHUNK and later(jobs, x, i, now, end):
            continue
        back = 0
        if x[HOST, i]:
            back = min(x[HOST, i], missing - 1)
            if switches & SPLIT:
                while back > 0 and hidden(jobs, missing - back, duration(jobs, missing - back, 0, 0)) < back:
                    back -= max(1, back // 16)
            if not switches & DIRECT or back <= 0 or (back < x[HOST, i] and not x[WINDOW, i]):
                continue
        work = missing - back if back or not jobs.chunked else min(missing, jobs.batch - tokens)
        grown = up(x[DEVICE, i] + back + work, jobs.block) - up(x[DEVICE, i], jobs.block)
        if grown > free:
            most = copies if not back else 0 if switches & DROP else LIMIT
            free, left = make_room(jobs, x, i, grown, free, most, True)
            copies = left if not back else copies
        if grown > free:
            work = (up(x[DEVICE, i], jobs.block) + free) * jobs.block - x[DEVICE, i]
            if back or tokens or not jobs.chunked or work <= 0:
                continue
        if jobs.chunked and not back and work > 1 and not tokens and switches & CHUNK and event < LIMIT:
            part = prefix(jobs, event - now)
            if jobs.least <= part < work and later(jobs, x, i, event - 1, event + 1):
                work = part
        if work <= 0 or tokens + work > jobs.batch:
            continue
        free -= up(x[DEVICE, i] + back + work, jobs.block) - up(x[DEVICE, i], jobs.block)
        x[WORK, i], x[IN, i], x[LOST, i] = work, back, x[HOST, i] - back
        tokens += work
    return free, tokens


@compiled
def begin_prefill(jobs, x, now, event, free):
    """Let the first that can begin a prefill in its reserve, up to the next event; return free blocks and tokens."""
    for place in range(x.shape[1]):
        i = x[AT, place]
        idle = x[PHASE, i] == DONE or x[READY, i] > now or x[HOST, i] or x[OUT, i] or x[LOST, i]
        work = min(jobs.context[i, x[TOKENS, i]] - 1, x[RESERVE, i] * jobs.block) - x[DEVICE, i]
        if event < LIMIT:
            work = min(work, prefix(jobs, event - now))
        work = min(work, jobs.batch)
        if idle or work < jobs.least:
            continue
        grown = up(x[DEVICE, i] + work, jobs.block) - up(x[DEVICE, i], jobs.block)
        free, _ = make_room(jobs, x, i, grown, free, 0, True)
        work = min(work, (up(x[DEVICE, i], jobs.block) + free) * jobs.block - x[DEVICE, i])
        if work >= jobs.least:
            x[WORK, i] = work
            return free - (up(x[DEVICE, i] + work, jobs.block) - up(x[DEVICE, i], jobs.block)), work
    return free, 0


@compiled
def choose_copies(jobs, x, free, copies, early):
    """Bring KV back within reserves, the first in order first; if `early`, send out what is beyond them."""
    for place in range(x.shape[1]):
        i = x[AT, place]
        if x[PHASE, i] == DONE or not x[HOST, i] or x[OUT, i] or x[LOST, i] or x[WORK, i]:
            continue
        back = min(x[HOST, i], x[RESERVE, i] * jobs.block - x[DEVICE, i])
        grown = up(x[DEVICE, i] + max(0, back), jobs.block) - up(x[DEVICE, i], jobs.block)
        if grown > free:
            free, copies = make_room(jobs, x, i, grown, free, copies, False)
        back = min(back, copies, (up(x[DEVICE, i], jobs.block) + free) * jobs.block - x[DEVICE, i])
        if back > 0:
            free -= up(x[DEVICE, i] + back, jobs.block) - up(x[DEVICE, i], jobs.block)
            x[IN, i] = back
            copies -= back
    for place in range(x.shape[1] - 1 if early else -1, -1, -1):
        v = x[AT, place]
        beyond = x[DEVICE, v] - x[OUT, v] - x[RESERVE, v] * jobs.block
        sent = min(beyond, copies, jobs.host - total(x, HOST) - total(x, OUT))
        if sent > 0 and not x[WORK, v] and not x[LOST, v] and not x[IN, v] and x[PHASE, v] != DONE:
            x[OUT, v] += sent
            copies -= sent


@compiled
def finish(jobs, x, end):
    """Carry out the batch that ends then; return the value added, and the epochs and requests ended."""
    value = epochs = done = 0
    for i in range(x.shape[1]):
        of_host = min(x[HOST, i], x[LOST, i])
        x[HOST, i] += x[OUT, i] - x[IN, i] - of_host
        x[DEVICE, i] += x[IN, i] - x[OUT, i] - (x[LOST, i] - of_host) + x[WORK, i]
        if not x[WORK, i]:
            continue
        x[WINDOW, i], q = 0, x[TOKENS, i]
        if x[DEVICE, i] < jobs.context[i, q]:
            continue
        x[TOKENS, i] += 1
        if q + 1 == jobs.count[i]:
            x[PHASE, i], x[DEVICE, i] = DONE, 0
            value += jobs.rate[i] * (end - jobs.arrival[i])
            epochs, done = epochs + 1, done + 1
        elif jobs.call[i, q] >= 0:
            x[PHASE, i], x[READY, i], x[WINDOW, i] = CALLING, end + jobs.call[i, q], 1
            epochs += 1
    return value, epochs, done


@compiled
def look(jobs, x, now):
    """Return the next event, whether a request is ready, a bound on what is to be added to the value, and returns."""
    event, ready, floor, returns = LIMIT, False, 0, 0
    for i in range(x.shape[1]):
        if x[PHASE, i] == CALLING and x[READY, i] <= now:
            x[PHASE, i] = MAKING
            returns += 1
        if x[PHASE, i] != DONE:
            floor += jobs.rate[i] * (max(now, x[READY, i]) - jobs.arrival[i])
            event = min(event, x[READY, i]) if x[READY, i] > now else event
            ready |= x[READY, i] <= now
    return event, ready, floor, returns


@compiled
def decide(jobs, x, now, event, ready, order, switches):
    """Choose work and moves; return the tokens of work, out, and back."""
    free = jobs.blocks
    for i in range(x.shape[1]):
        x[AT, i] = jobs.orders[order, i]
        x[WORK, i] = x[LOST, i] = x[OUT, i] = x[IN, i] = 0
        free -= up(x[DEVICE, i], jobs.block)
    reserve(jobs, x, now, switches & KEEP)
    free, tokens = choose_work(jobs, x, now, event, switches, free)
    if not tokens and jobs.chunked:
        free, tokens = begin_prefill(jobs, x, now, event, free)
    if tokens:
        copies = hidden(jobs, tokens, duration(jobs, tokens, 0, 0)) - total(x, OUT) - total(x, IN)
    else:
        copies = LIMIT if ready or event == LIMIT else max(jobs.block, hidden(jobs, 0, event - now))
    choose_copies(jobs, x, free, max(0, copies), switches & EARLY)
    return tokens, total(x, OUT), total(x, IN)


@compiled
def simulate(jobs, genes, x, most, steps):
    """Return value and batches, (LIMIT, 0) if it is above `most`; write each batch into `steps`, if it has rows."""
    for i in range(x.shape[1]):
        for row in range(ROWS):
            x[row, i] = 0
        x[READY, i] = jobs.arrival[i]
    now = epoch = since = made = value = done = 0
    last = -1
    while done < x.shape[1]:
        event, ready, floor, returns = look(jobs, x, now)
        if value + floor > most or made == jobs.most:
            return LIMIT, 0
        epoch += returns
        gene = min(epoch, len(genes.cut) - 1)
        last, since = gene, since if gene == last else 0
        gene += len(genes.cut) if since >= genes.cut[gene] else 0
        tokens, out, back = decide(jobs, x, now, event, ready, genes.order[gene], genes.switches[gene])
        if not tokens and not out and not back:
            if event == LIMIT:
                return LIMIT, 0
            now = event
            continue
        if len(steps):
            steps[made, 0, 0] = now
            for i in range(x.shape[1]):
                for k in range(4):
                    steps[made, 1 + k, i] = x[WORK + k, i]
        now += duration(jobs, tokens, out, back)
        added, ended, completed = finish(jobs, x, now)
        value, epoch, done = value + added, epoch + ended, done + completed
        since, made = since + 1, made + 1
    return value, made


@compiled
def copy(genes, other):
    """Copy genes."""
    for e in range(len(genes.order)):
        other.order[e], other.switches[e] = genes.order[e], genes.switches[e]
    for e in range(len(genes.cut)):
        other.cut[e] = genes.cut[e]


@compiled
def mutate(jobs, genes, longest):
    """Change up to three things."""
    n = len(genes.cut)
    for _ in range(np.random.randint(1, 4)):
        e, kind = np.random.randint(n), np.random.randint(8)
        if kind < 2:
            now, how = genes.cut[e], np.random.randint(4)
            if now == LIMIT or how == 0:
                genes.cut[e] = np.random.randint(longest) if np.random.randint(2) else np.random.randint(8)
            elif how == 1:
                genes.cut[e] = LIMIT
            else:
                genes.cut[e] = max(0, now + np.random.randint(-10, 11))
            if np.random.randint(2):
                genes.order[e + n], genes.switches[e + n] = np.random.randint(len(jobs.orders)), np.random.randint(END)
        elif kind < 5:
            genes.switches[e + n * (np.random.randint(3) == 0)] ^= 1 << np.random.randint(7)
        else:
            order, switches = np.random.randint(len(jobs.orders)), np.random.randint(END)
            for f in range(e, min(n, e + 1 + np.random.randint(n if np.random.randint(4) == 0 else 3))):
                genes.order[f] = genes.order[f] if kind == 5 else order
                genes.switches[f] = genes.switches[f] if kind == 6 else switches


@compiled
def anneal(jobs, now, value, tried, best, least, x, steps, moves, hot, cold, longest):
    """Make moves while it cools, as shares of the value; return the value and the least one."""
    for k in range(moves):
        heat = hot + (cold - hot) * k / moves
        copy(now, tried)
        mutate(jobs, tried, longest)
        other, _ = simulate(jobs, tried, x, LIMIT - 1 if value == LIMIT else int(value * (1 + 3 * heat)) + 1, steps)
        if other <= value or (
            other < LIMIT and np.random.random() < np.exp((value - other) / (0.3 * heat * value + 1))
        ):
            copy(tried, now)
            value = other
        if other < least:
            copy(tried, best)
            least = other
    return value, least
