"""The search, compiled: destroy and repair under annealing.

`plan[i]` are the pieces of request i, `count[i]` how many there are; `cost[i]` is rate times the slot that counts.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from solvers.neighbourhoods.kernels import BEGIN, END, FREE, insert, use


@njit(cache=True)
def seed_draws(seed):  # type: ignore[no-untyped-def]
    """Seed the random numbers of the compiled code."""
    np.random.seed(seed)


@njit(cache=True)
def build(order, room, gear, arrival, segments, first, plan, count):  # type: ignore[no-untyped-def]
    """Insert all requests in `order` into an empty schedule; return whether all fit."""
    parts, bounds, marks = _scratch(gear, first)
    for i in order:
        mine = segments[first[i] : first[i + 1]]
        count[i] = insert(room, gear, arrival[i], mine, gear[0], True, plan[i], parts, bounds, marks)
        if count[i] == 0:
            return False
        use(room, gear[1], plan[i], count[i], -1)
    return True


@njit(cache=True)
def _scratch(gear, first):  # type: ignore[no-untyped-def]
    most = 1
    for i in range(first.shape[0] - 1):
        most = max(most, first[i + 1] - first[i])
    return np.empty((gear[4], 2), np.int64), np.empty(most, np.int64), np.empty(most + 1, np.int64)


@njit(cache=True)
def price(i, plan, count, segments, first, rate, by_first_token):  # type: ignore[no-untyped-def]
    """Return what request i costs on its plan: rate times the end of what counts."""
    if not by_first_token:
        return rate[i] * plan[i, count[i] - 1, END]
    for p in range(count[i]):
        t, kind = plan[i, p, END], plan[i, p, 0]
        if kind == 0 and plan[i, p, 3] == segments[first[i], 0]:
            return rate[i] * t
        if kind == 1:
            return rate[i] * (plan[i, p, BEGIN] + 1)
    return 0.0


@njit(cache=True)
def draw_group(n, plan, count, area, size, near, group, mark):  # type: ignore[no-untyped-def]
    """Draw up to `size` requests into `group`; return how many.

    The first is any; the second, where one is found, begins earlier although it is larger. The others begin or end
    within `near` slots of one of the two (near < 0: anywhere).
    """
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
        if near < 0 or abs(plan[j, 0, BEGIN] - plan[k, 0, BEGIN]) <= near or abs(
                plan[j, count[j] - 1, END] - plan[k, count[k] - 1, END]) <= near:
            group[found] = j
            mark[j] = True
            found += 1
    for g in range(found):
        mark[group[g]] = False
    return found


@njit(cache=True)
def arrange(group, size, area, keys):  # type: ignore[no-untyped-def]
    """Shuffle the first `size` of the group, or sort them by area with some noise."""
    noise = np.random.random()
    by_area = np.random.random() < 0.5
    for g in range(size):
        keys[g] = area[group[g]] * math.exp(noise * np.random.randn()) if by_area else np.random.random()
    order = np.argsort(keys[:size])
    old = group[:size].copy()
    for g in range(size):
        group[g] = old[order[g]]


@njit(cache=True)
def anneal(rounds, hot, cold, room, gear, arrival, segments, first, rate, by_first_token, area, plan, count, best_plan,
           best_count, best, largest):  # type: ignore[no-untyped-def]  # fmt: skip
    """Make `rounds` moves while the heat falls from `hot` to `cold`; return the best cost, that of `best_plan`, and the moves kept."""
    n = count.shape[0]
    parts, bounds, marks = _scratch(gear, first)
    cost = np.empty(n)
    for i in range(n):
        cost[i] = price(i, plan, count, segments, first, rate, by_first_token)
    total = cost.sum()
    changed = np.empty(n, np.int64)
    is_changed = np.zeros(n, np.bool_)
    changes = 0
    for i in range(n):
        changed[i], is_changed[i] = i, True
    changes = n
    group, mark, keys = np.empty(n, np.int64), np.zeros(n, np.bool_), np.empty(n)
    old_plan = np.empty((largest, plan.shape[1], plan.shape[2]), np.int64)
    old_count = np.empty(largest, np.int64)
    kept = 0
    for r in range(rounds):
        heat = hot * (cold / hot) ** (r / rounds)
        size = 1 if np.random.random() < 0.05 else 2 + int((largest - 1) * np.random.random() ** 2)
        near = -1 if np.random.random() < 0.1 else np.random.randint(1, 30)
        size = draw_group(n, plan, count, area, min(size, n), near, group, mark)
        arrange(group, size, area, keys)
        before = 0.0
        for g in range(size):
            i = group[g]
            before += cost[i]
            use(room, gear[1], plan[i], count[i], 1)
            old_count[g] = count[i]
            old_plan[g, : count[i]] = plan[i, : count[i]]
        allowed = before - heat * math.log(np.random.random() + 1e-12)
        after, done = 0.0, 0
        for g in range(size):
            i = group[g]
            late = np.random.randint(1, 16) if np.random.random() < 0.1 else 0
            most = gear[0] if np.random.random() < 0.5 else int(4 ** (6 * np.random.random())) - 1
            count[i] = insert(room, gear, arrival[i] + late, segments[first[i] : first[i + 1]], most,
                              np.random.random() < 0.7, plan[i], parts, bounds, marks)  # fmt: skip
            if count[i] == 0:
                break
            use(room, gear[1], plan[i], count[i], -1)
            done += 1
            after += price(i, plan, count, segments, first, rate, by_first_token)
            if after > allowed:
                break
        if done < size or after > allowed:
            for g in range(size):
                i = group[g]
                if g < done:
                    use(room, gear[1], plan[i], count[i], 1)
            for g in range(size):
                i = group[g]
                count[i] = old_count[g]
                plan[i, : count[i]] = old_plan[g, : count[i]]
                use(room, gear[1], plan[i], count[i], -1)
            continue
        kept += 1
        total += after - before
        for g in range(size):
            i = group[g]
            cost[i] = price(i, plan, count, segments, first, rate, by_first_token)
            if not is_changed[i]:
                is_changed[i] = True
                changed[changes] = i
                changes += 1
        if total < best - 1e-9:
            best = total
            for c in range(changes):
                i = changed[c]
                best_count[i] = count[i]
                best_plan[i, : count[i]] = plan[i, : count[i]]
                is_changed[i] = False
            changes = 0
    return best, kept
