"""The sweep of `fresh.py` over arrays, compiled by numba where it is installed."""

from typing import Any, NamedTuple

from kvcore.certificates import labels
from kvcore.certificates.frontier import ZERO, turns
from kvcore.certificates.labels import EMPTY, FREE, NO, TIRED, is_tired, mixed, numbers
from kvcore.compiled import compiled, inlined

PART, HERE, AWAY = range(3)
"""The KV that the last token left: not all there; on the device; on the host."""


class Chains(NamedTuple):
    """Requests as chains of tokens; times are in ticks times the divisor of the cost function."""

    length: Any  # [requests]: tokens to generate
    context: Any  # [requests, tokens]: tokens that are processed when a token is generated
    lost: Any  # [requests, tokens]: whether a token leaves no KV, as its call discards it
    call: Any  # [requests, tokens]: the call after a token
    rest: Any  # [requests, tokens]: what follows the end of a token at the least
    busy: int
    each: int  # what a fresh token takes
    token: int  # what a token takes that is generated
    chunked: bool
    block: int
    blocks: int  # of the device
    host: int  # tokens of the host
    swap_out_ticks: int  # what a token takes that is swapped out
    swap_in_ticks: int  # ... that is swapped in
    rate: Any  # [requests]: above `low`
    low: int
    target: int


class Orders(NamedTuple):
    """What was reached, as labels, and work space."""

    labels: labels.Labels
    token: Any  # [labels, requests]: the next token
    time: Any
    ends: Any  # sum of the ends of completed requests, each times its rate
    ready: Any  # [labels, requests]: when the next token may be worked on
    open: Any  # [labels, requests]: when the work on it that is done by now may have begun
    batch: Any  # the requests that the batch before generates tokens of, as bits
    where: Any  # [labels, requests]: where the KV is that the last token left
    kept: Any  # [labels, requests]: of how many tokens there is KV, but what was processed since `open`
    device: Any  # [labels, requests]: if `PART`, how many of them were on the device at the most
    waits: Any
    works: Any
    pick: Any  # of what is tried: the choices, and what follows from them
    next_where: Any
    next_kept: Any
    opened: Any
    early: Any
    later: Any
    spare: Any  # tokens that fit beside the batch


@compiled
def expand(p, f, at):
    """Add the labels after batches that generate tokens, with each place of the others' KV."""
    left = ZERO
    for i in range(len(p.length)):
        if f.token[at, i] < p.length[i]:
            left |= 1 << i
    batch = left
    while batch:
        ways = 1
        for i in range(len(p.length)):
            if left >> i & 1:
                ways *= picks(p, f, at, batch, i)
        if not has_room(p, f, at, batch):
            ways = 0
        for way in range(ways):
            if is_tired(f.labels):
                return TIRED
            for i in range(len(p.length)):
                if left >> i & 1:
                    number = picks(p, f, at, batch, i)
                    f.pick[i], way = way % number, way // number
            code = step(p, f, at, batch, left)
            if code != EMPTY:
                return code
        batch = (batch - 1) & left
    return EMPTY


@inlined
def has_room(p, f, at, batch):
    """Whether a batch's contexts fit on the device."""
    blocks = 0
    for i in range(len(p.length)):
        if batch >> i & 1:
            blocks += -(-p.context[i, f.token[at, i]] // p.block)
    return blocks <= p.blocks


@inlined
def picks(p, f, at, batch, i):
    """Return how many places a request's KV may have during a batch."""
    where = f.where[at, i]
    if batch >> i & 1:
        return 2 if where == AWAY else 1
    return 1 if where == PART else 3


@compiled
def put(p, f, at, batch, left):
    """Write places of KV and what is left to process; return the ticks of moves (`NO`: no room)."""
    room, host, moves, lacks = p.blocks, p.host, 0, 0
    for i in range(len(p.length)):
        if not left >> i & 1:
            continue
        pick, where, kept, need = f.pick[i], f.where[at, i], f.kept[at, i], p.context[i, f.token[at, i]]
        goes, again = where, False
        if batch >> i & 1:
            again = pick == 1
            room -= -(-need // p.block)
            if where == PART:
                lacks += max(0, need - f.device[at, i])
            elif where == AWAY and not again:
                moves += kept * p.swap_in_ticks
        elif pick == 1:
            goes = AWAY if where == HERE else HERE
            moves += kept * (p.swap_out_ticks if where == HERE else p.swap_in_ticks)
        elif pick == 2:
            goes, again = PART, True
        if not batch >> i & 1 and goes == HERE:
            room -= -(-kept // p.block)
        elif not batch >> i & 1 and goes == AWAY:
            host -= kept
        f.next_where[i] = goes
        f.next_kept[i], f.opened[i] = (0, max(f.time[at], f.ready[at, i])) if again else (kept, f.open[at, i])
        f.early[i] = need - f.next_kept[i] - 1 if p.chunked else 0
    f.spare[0] = room * p.block
    return NO if room < 0 or host < 0 else restored(p, lacks, moves)


@inlined
def restored(p, lacks, moves):
    """Return the least ticks to process or swap in tokens, and to swap others."""
    if lacks == 0 or p.swap_in_ticks == 0:
        return moves
    return max(moves, (p.swap_in_ticks * (p.busy + p.each * lacks) + p.each * moves) // (p.each + p.swap_in_ticks))


@compiled
def step(p, f, at, batch, left):
    """Add the label after one batch, if new and below the target."""
    new, n = f.labels.count[FREE], len(p.length)
    start, ends, tokens, key = f.time[at], f.ends[at], f.labels.left[at], 0
    work = 0
    for i in range(n):
        if batch >> i & 1:
            start = max(start, f.ready[at, i])
    moves = put(p, f, at, batch, left)
    if moves == NO:
        return EMPTY
    for i in range(n):
        if batch >> i & 1:
            k = f.token[at, i]
            work += p.token + p.each * (p.context[i, k] - f.next_kept[i])
    time = max(start + p.busy + work - used(p, f, batch, start, start), f.time[at] + moves)
    for i in range(n):
        if left >> i & 1 and not batch >> i & 1:
            f.later[i] = start + p.busy + work - used(p, f, batch, start, f.opened[i])
    for i in range(n):
        k = f.token[at, i]
        f.token[new, i] = k
        if batch >> i & 1:
            tokens -= 1
            f.token[new, i] = k + 1
            f.ready[new, i] = f.open[new, i] = time + p.call[i, k]
            f.where[new, i], f.kept[new, i] = (PART, 0) if p.lost[i, k] else (HERE, p.context[i, k])
            f.device[new, i] = 0
            if k + 1 == p.length[i]:
                ends += (p.low + p.rate[i]) * time
        elif left >> i & 1:
            f.ready[new, i] = f.ready[at, i]
            latest = max(time, f.ready[at, i])
            f.where[new, i], f.device[new, i] = f.next_where[i], min(p.context[i, k] - 1, f.spare[0])
            f.open[new, i], f.kept[new, i] = min(latest, f.later[i]), f.next_kept[i]
            if f.next_where[i] == PART and p.host == 0:
                most = f.device[new, i]  # all KV that fits, where there was time for more
                more = p.each * (most - f.kept[new, i])
                if most < p.context[i, k] - 1 and latest - f.open[new, i] > more:
                    f.open[new, i], f.kept[new, i] = latest, most
        key = mixed(key, f.token[new, i])
    f.time[new], f.ends[new], f.batch[new] = time, ends, batch
    f.labels.left[new], f.labels.key[new] = tokens, key
    return add(p, f, at)


@inlined
def early(p, f, batch, start, longest):
    """Return tokens of a batch that may be early, of requests open longer than `longest`."""
    found = 0
    for i in range(len(p.length)):
        if batch >> i & 1 and start - f.opened[i] > longest:
            found += f.early[i]
    return found


@inlined
def used(p, f, batch, start, since):
    """Return how much work of a batch, and of a request open `since` (`start`: of none), may be early."""
    found = start - since + p.each * early(p, f, batch, start, NO)
    for i in range(len(p.length)):
        if batch >> i & 1:
            longest = start - f.opened[i]
            others = early(p, f, batch, start, longest)
            found = min(found, max(longest, start - since) + p.each * others)
    return found


@compiled
def covers(p, f, one, other):
    """Whether one label covers all that another covers."""
    if f.time[one] > f.time[other] or f.ends[one] > f.ends[other]:
        return False
    for i in range(len(p.length)):
        k = f.token[one, i]
        if k != f.token[other, i]:
            return False
        if k < p.length[i]:
            latest = max(f.time[one], f.ready[one, i])
            if latest > max(f.time[other], f.ready[other, i]):
                return False
            where, its = f.where[one, i], f.where[other, i]
            is_empty = its == PART and f.kept[other, i] == 0 and f.open[other, i] >= latest
            if is_empty and where != PART:
                continue
            if f.open[one, i] > f.open[other, i] or f.kept[one, i] < f.kept[other, i]:
                return False
            if where != its and (where != PART or its != HERE):
                return False
            if where == PART and f.device[one, i] < (f.device[other, i] if its == PART else p.context[i, k] - 1):
                return False
    return True


@compiled
def least(p, f, at):
    """Return a lower bound through a label: next tokens take turns, then each goes alone."""
    alone, total, tails, m, now = f.ends[at], f.ends[at], 0, ZERO, f.time[at]
    for i in range(len(p.length)):
        k = f.token[at, i]
        if k == p.length[i]:
            continue
        start = max(now, f.ready[at, i])
        credit, need = start - f.open[at, i], p.context[i, k] - f.kept[at, i]
        work = p.token + p.each * need - min(p.each * (need - 1 if p.chunked else 0), credit)
        own = start + p.busy + work
        if f.where[at, i] == AWAY:
            again = start + p.busy + p.token + p.each * p.context[i, k]
            own = min(max(own, now + p.swap_in_ticks * f.kept[at, i]), again)
        elif f.where[at, i] == PART:
            own = max(own, now + restored(p, max(0, p.context[i, k] - f.device[at, i]), 0))
        own += p.rest[i, k]
        alone += (p.low + p.rate[i]) * own
        total += p.rate[i] * own
        tails += now + p.rest[i, k]
        f.waits[m], f.works[m] = start + p.busy - now, work
        m += 1
    return max(alone, total + p.low * (tails + turns(f.waits, f.works, m)))


add = labels.adding(covers, least)
search = labels.searching(expand)


def room(requests: int, most: int) -> Orders:
    """Return arrays for these labels."""
    return Orders(
        labels=labels.room(most),
        **{name: numbers(most + 1, requests) for name in
           ("token", "ready", "open", "where", "kept", "device")},
        **{name: numbers(most + 1) for name in ("time", "ends", "batch")},
        **{name: numbers(requests) for name in
           ("waits", "works", "pick", "next_where", "next_kept", "opened", "early", "later")},
        spare=numbers(1),
    )  # fmt: skip
