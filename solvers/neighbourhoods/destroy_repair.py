"""Destroy and repair under annealing, compiled. `cost[i]` is request i's rate times the slot that counts."""

import math
from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import allocating, compiled
from solvers.neighbourhoods.insertion import (
    BEGIN,
    DECODE,
    END,
    KIND,
    ONE,
    PREFILL,
    RESIDENT,
    Scratch,
    copy_pieces,
    insert,
    use,
)


class Requests(NamedTuple):
    """The requests as arrays: those of `InstanceArrays`."""

    arrival: Any
    segments: Any
    first: Any
    rate: Any
    by_first_token: bool
    area: Any


class PieceLists(NamedTuple):
    """The work of each request: `count[i]` pieces, the first rows of `pieces[i]`."""

    pieces: Any
    count: Any


@compiled
def seed_draws(seed):
    """Seed the random numbers of the compiled code."""
    np.random.seed(seed)


@allocating
def _scratch(grid, first, width):
    most = 1
    for i in range(first.shape[0] - 1):
        most = max(most, first[i + 1] - first[i])
    parts, spare = np.empty((grid.most_parts, 2), np.int64), np.empty((width, 5), np.int64)
    first_slot, end_slot, first_piece = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most + 1, np.int64)
    return Scratch(parts, first_slot, end_slot, first_piece, spare)


@compiled
def price(i, lists, requests):
    """Return the cost of request i as laid out: rate times the end that counts."""
    pieces, rate = lists.pieces[i], requests.rate[i]
    if not requests.by_first_token:
        return rate * pieces[lists.count[i] - 1, END]
    for p in range(lists.count[i]):
        t, kind = pieces[p, END], pieces[p, KIND]
        if kind == PREFILL and pieces[p, RESIDENT] == requests.segments[requests.first[i], 0]:
            return rate * t
        if kind == DECODE:
            return rate * (pieces[p, BEGIN] + 1)
    return 0.0


@compiled
def draw_group(lists, area, size, near, group, mark):
    """Draw up to `size` requests into `group`; return their number.

    The first is any; the second, if one is found, begins earlier although larger. The others begin or end within `near`
    slots of one of the two (near < 0: anywhere).
    """
    plan, count = lists
    n = count.shape[0]
    i = np.random.randint(n)
    group[0], found, tries = i, 1, 0
    mark[i] = True
    other = i
    if near >= 0 and size > 1 and np.random.random() < 0.7:
        for _ in range(30):
            j = np.random.randint(n)
            if area[j] > area[i] and plan[j, 0, BEGIN] < plan[i, 0, BEGIN]:
                group[1], other, found = j, j, 2
                mark[j] = True
                break
    while found < size and tries < 8 * size + 20:
        tries += 1
        j = np.random.randint(n)
        if mark[j]:
            continue
        k = other if tries % 2 else i
        if (
            near < 0
            or abs(plan[j, 0, BEGIN] - plan[k, 0, BEGIN]) <= near
            or abs(plan[j, count[j] - 1, END] - plan[k, count[k] - 1, END]) <= near
        ):
            group[found] = j
            mark[j] = True
            found += 1
    for g in range(found):
        mark[group[g]] = False
    return found


@compiled
def arrange(group, size, area, keys):
    """Shuffle the first `size` of the group, or sort them by area with some noise."""
    noise = np.random.random()
    by_area = np.random.random() < 0.5
    for g in range(size):
        keys[g] = area[group[g]] * math.exp(noise * np.random.randn()) if by_area else np.random.random()
    for end in range(1, size):
        g = end
        while g > 0 and keys[g - 1] > keys[g]:
            keys[g - 1], keys[g] = keys[g], keys[g - 1]
            group[g - 1], group[g] = group[g], group[g - 1]
            g -= 1


@compiled
def take_out(group, size, room, block, lists, old):
    """Give back the room of the group, and keep a copy of its pieces."""
    plan, count = lists
    for g in range(size):
        i = group[g]
        use(room, block, plan[i], count[i], ONE)
        old.count[g] = count[i]
        copy_pieces(plan[i], count[i], old.pieces[g])


@compiled
def put_back(group, size, done, room, block, lists, old):
    """Undo: the first `done` of the group were inserted anew; all get their old pieces."""
    plan, count = lists
    for g in range(done):
        use(room, block, plan[group[g]], count[group[g]], ONE)
    for g in range(size):
        i = group[g]
        count[i] = old.count[g]
        copy_pieces(old.pieces[g], count[i], plan[i])
        use(room, block, plan[i], count[i], -ONE)


@allocating
def anneal(rounds, hot, cold, room, grid, requests, lists, best_lists, best, moves):
    """Make `rounds` moves while the heat falls from `hot` to `cold`; return the cost of the best lists."""
    plan, count = lists
    n, block, first, area = count.shape[0], grid.block, requests.first, requests.area
    scratch = _scratch(grid, first, plan.shape[1])
    cost = np.empty(n)
    for i in range(n):
        cost[i] = price(i, lists, requests)
    total = cost.sum()
    changed, is_changed, changes = np.arange(n), np.ones(n, np.bool_), n  # since the best lists was copied
    reach = max(30, grid.slots // moves.reach)
    group, mark, keys = np.empty(n, np.int64), np.zeros(n, np.bool_), np.empty(n)
    old = PieceLists(np.empty((moves.size, plan.shape[1], plan.shape[2]), np.int64), np.empty(moves.size, np.int64))
    for r in range(rounds + 1):
        if total < best - 1e-9:
            best = total
            for c in range(changes):
                i = changed[c]
                best_lists.count[i] = count[i]
                copy_pieces(plan[i], count[i], best_lists.pieces[i])
                is_changed[i] = False
            changes = 0
        if r == rounds:
            break
        heat = hot * (cold / hot) ** (r / rounds)
        size = 1 if np.random.random() < moves.single else 2 + int((moves.size - 1) * np.random.random() ** 2)
        near = -1 if np.random.random() < moves.anywhere else np.random.randint(1, reach)
        size = draw_group(lists, area, min(size, n), near, group, mark)
        arrange(group, size, area, keys)
        before = 0.0
        for g in range(size):
            before += cost[group[g]]
        take_out(group, size, room, block, lists, old)
        allowed = before - heat * math.log(np.random.random() + 1e-12)
        after, done = 0.0, 0
        while done < size and after <= allowed:
            i = group[done]
            late = np.random.randint(1, moves.latest + 1) if np.random.random() < moves.late else 0
            most = grid.slots if np.random.random() < moves.unlimited else int(4 ** (6 * np.random.random())) - 1
            mine, host_first = requests.segments[first[i] : first[i + 1]], np.random.random() < moves.host_first
            run = int(2 ** (5 * np.random.random())) if grid.evict and np.random.random() < moves.evicting else 0
            count[i] = insert(room, grid, requests.arrival[i] + late, mine, most, host_first, run, plan[i], scratch)
            if count[i] == 0:
                break
            use(room, block, plan[i], count[i], -ONE)
            done += 1
            after += price(i, lists, requests)
        if done < size or after > allowed:
            put_back(group, size, done, room, block, lists, old)
            continue
        total += after - before
        for g in range(size):
            i = group[g]
            cost[i] = price(i, lists, requests)
            if not is_changed[i]:
                is_changed[i] = True
                changed[changes] = i
                changes += 1
    return best
