"""Simulation, values and search of `slots`, compiled where numba is installed.

All numbers are whole; `Slots.prove` keeps all sums here below 2^61.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates.labels import mixed
from kvcore.compiled import allocating, compiled
from kvcore.limits import DEVICE, HOST, SHARED

NEVER = 2**60
"""The request cannot be over in time. Never summed."""
FULL, ZERO = -1, np.int64(0)


@compiled
def no_more(graphs, a, b):
    """Whether option a takes no more than b of what is limited, shows no other phase, and acts if it must."""
    if graphs.strict and graphs.acts[b] and not graphs.acts[a]:
        return False
    if not graphs.hybrid and (
        (graphs.decodes[a] and not graphs.decodes[b]) or (graphs.prefills[a] and not graphs.prefills[b])
    ):
        return False
    more = False
    for r in range(SHARED):
        more = more or (graphs.limits[r] >= 0 and graphs.use[a, r] > graphs.use[b, r])
    return not more


@compiled
def answers(graphs, as_good, start, a, b, compared):
    """Whether state a can answer all that b may do, under `as_good`; `compared` [1] counts pairs of options."""
    if not as_good[graphs.idle[a] - start, graphs.idle[b] - start]:
        return False
    rests = False
    for o in range(graphs.first[b], graphs.first[b + 1]):
        if (
            not graphs.acts[o]
            and graphs.next[o] == graphs.idle[b]
            and graphs.use[o, DEVICE] == graphs.blocks[b]
            and graphs.use[o, HOST] == graphs.host[b]
        ):
            rests = True
        found, count = False, graphs.first[a + 1] - graphs.first[a]
        for k in range(count):  # rest first, then what drops most: these often will do
            c = graphs.first[a] + (count - k) % count
            compared[0] += 1
            if as_good[graphs.next[c] - start, graphs.next[o] - start] and no_more(graphs, c, o):
                found = True
                break
        if not found:
            return False
    return rests or not (
        (graphs.limits[DEVICE] >= 0 and graphs.blocks[a] > graphs.blocks[b])
        or (graphs.limits[HOST] >= 0 and graphs.host[a] > graphs.host[b])
    )


@allocating
def simulation(graphs, start, stop, most, compared):
    """Return the greatest relation [state, state] of a kind that `answers` allows: the first is as good as the other.

    A request that is over is as good as one that is not. None is compared where that takes more than `most` pairs of
    options; `compared` counts these (a look at four states as one).
    """
    size, over = stop - start, graphs.over[start:stop]
    as_good = over.reshape(-1, 1) | ~over
    changed = True
    while changed:
        changed = False
        for b in range(size - 1, -1, -1):
            for a in range(size):
                if a != b and as_good[a, b] and not answers(graphs, as_good, start, start + a, start + b, compared):
                    as_good[a, b] = False
                    changed = True
            compared[0] += size // 4
            if compared[0] > most:
                return np.eye(size) > 0
    return as_good


@allocating
def kept_options(graphs, start, stop, as_good):
    """Return the options of a kind to which no other of their state is as good."""
    begin = graphs.first[start]
    kept = np.ones(graphs.first[stop] - begin, np.bool_)
    for i in range(start, stop):
        for o in range(graphs.first[i], graphs.first[i + 1]):
            for c in range(graphs.first[i], graphs.first[i + 1]):
                if c == o or not (as_good[graphs.next[c] - start, graphs.next[o] - start] and no_more(graphs, c, o)):
                    continue
                back = as_good[graphs.next[o] - start, graphs.next[c] - start] and no_more(graphs, o, c)
                if not back or c < o:
                    kept[o - begin] = False
                    break
    return kept


@allocating
def values(graphs, prices, since, scale, last):
    """Return the least cost with payments of each state from each slot on: [slots + 1 - since, states].

    `prices` [resources, slots]; `last` are the values after them. A value is the least over the options and idling, by
    recursion.
    """
    slots, states = prices.shape[1], len(graphs.idle)
    cheapest = np.full((slots + 1 - since, states), NEVER, np.int64)
    cheapest[slots - since] = last
    for t in range(slots - 1, since - 1, -1):
        now, after = cheapest[t - since], cheapest[t + 1 - since]
        for i in range(states):
            if graphs.done[i]:
                now[i] = after[i]
                continue
            if t >= graphs.deadline[i] and not graphs.over[i]:
                continue
            least = after[graphs.idle[i]]
            if least < NEVER:
                least += prices[DEVICE, t] * graphs.blocks[i] + prices[HOST, t] * graphs.host[i]
            for o in range(graphs.first[i], graphs.first[i + 1]):
                cost = after[graphs.next[o]]
                if cost >= NEVER:
                    continue
                for r in range(SHARED):
                    cost += prices[r, t] * graphs.use[o, r]
                if graphs.ends[o]:
                    cost += graphs.rate[i] * scale * (t + 1)
                if cost < least:
                    least = cost
            now[i] = least
    return cheapest


class Layer(NamedTuple):
    """Joint states at a tick: `keys` [entries, requests], costs so far, and the most these may be (`room`).

    `table` finds entries by hash. `parent` and `choice` [entries, requests] say how one was reached (-1: idle);
    `choice` has columns only for schedules.
    """

    keys: Any
    cost: Any
    room: Any
    parent: Any
    choice: Any
    table: Any
    size: int


class Slot(NamedTuple):
    """What the expansion of a tick reads.

    Values of each vector now and after it [vectors, states], its prices [vectors, resources], costs of the limits there
    and from the next tick on [vectors], the tick, the unit of prices, and the most that an end may cost.
    """

    now: Any
    after: Any
    prices: Any
    supply: Any
    later: Any
    tick: int
    scale: int
    goal: int


@compiled
def find(keys, table, key):
    """Return the place of `key` in the table, or of its gap (-1)."""
    at, mask = ZERO, len(table) - 1
    for state in key:
        at = mixed(at, state)
    at &= mask
    while table[at] >= 0:
        equal = True
        for j in range(len(key)):
            if keys[table[at], j] != key[j]:
                equal = False
                break
        if equal:
            break
        at = (at + 1) & mask
    return at


@compiled
def arrange(kind, key, chosen):
    """Put the states of requests of one kind in order, with what was chosen."""
    for j in range(1, len(key)):
        state, option, k = key[j], chosen[j], j
        while k > 0 and kind[k - 1] == kind[j] and key[k - 1] > state:
            key[k], chosen[k] = key[k - 1], chosen[k - 1]
            k -= 1
        key[k], chosen[k] = state, option


@compiled
def room_of(values_of, later, key, scale, goal):
    """Return the most spent before `key` for an end below the target (-1: nothing may).

    `values_of` [vectors, states] and `later` [vectors] are those of its tick.
    """
    room = goal
    for p in range(len(values_of)):
        least = -later[p]
        for j in range(len(key)):
            value = values_of[p, key[j]]
            if value >= NEVER:
                return -1
            least += value
        allowed = goal * scale - least
        if allowed < 0:
            return -1
        room = min(room, allowed // scale)
    return room


@compiled
def lower_rooms(layer, values_of, later, scale, goal):
    """Lower the rooms of all entries to what these vectors allow."""
    for i in range(layer.size):
        layer.room[i] = min(layer.room[i], room_of(values_of, later, layer.keys[i], scale, goal))


@allocating
def dominated(layer, kind, reduced, graphs, tick):
    """Return which entries are cut: too costly, or no better than one with a better state."""
    requests, cut = layer.keys.shape[1], np.zeros(layer.size, np.bool_)
    key, none = np.empty((2, requests), np.int32)
    there = np.zeros(len(graphs.idle), np.bool_)
    there[layer.keys[: layer.size].flatten()] = True
    for i in range(layer.size):
        if layer.cost[i] > layer.room[i]:
            cut[i] = True
            continue
        for j in range(requests):
            old = layer.keys[i, j]
            for d in range(reduced.better_first[old], reduced.better_first[old + 1]):
                new = reduced.better[d]
                if not there[new]:
                    continue
                key[:] = layer.keys[i]
                key[j] = new
                arrange(kind, key, none)
                other = layer.table[find(layer.keys, layer.table, key)]
                if other < 0:
                    continue
                saved = graphs.rate[old] * (tick + 1) if graphs.over[new] and not graphs.over[old] else 0
                if layer.cost[other] <= layer.cost[i] + saved:
                    cut[i] = True
                    break
            if cut[i]:
                break
    return cut


@allocating
def empty_layer(requests, traced, entries=256):
    """Return an empty layer; a `traced` one keeps how entries are reached."""
    return Layer(
        np.empty((entries, requests), np.int32),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int32),
        np.empty((entries, requests if traced else 0), np.int32),
        np.full(4 * entries, -1, np.int32),
        0,
    )


@allocating
def grown(layer):
    """Return a full layer with twice the room."""
    size, requests = layer.keys.shape
    larger = empty_layer(requests, layer.choice.shape[1] > 0, 2 * size)
    larger.keys[:size], larger.choice[:size] = layer.keys, layer.choice
    larger.cost[:size], larger.room[:size], larger.parent[:size] = layer.cost, layer.room, layer.parent
    for i in range(size):
        larger.table[find(larger.keys, larger.table, larger.keys[i])] = i
    return larger


@compiled
def reach(layer, size, kind, slot, key, cost, parent, chosen):
    """Add the joint state `key`, and put it in order; return the layer's size."""
    arrange(kind, key, chosen)
    at = find(layer.keys, layer.table, key)
    entry = layer.table[at]
    if entry < 0:
        entry, size = size, size + 1
        layer.table[at] = entry
        for j in range(len(key)):
            layer.keys[entry, j] = key[j]
        layer.room[entry] = room_of(slot.after, slot.later, key, slot.scale, slot.goal)
    elif cost >= layer.cost[entry]:
        return size
    layer.cost[entry] = cost
    layer.parent[entry] = parent
    for j in range(layer.choice.shape[1]):
        layer.choice[entry, j] = chosen[j]
    return size


@compiled
def priced_options(graphs, slot, p, i, lists, length):
    """List the options of state i by reduced cost under vector p; return how many end in time.

    `lists` [vectors, options]: reduced costs, those less what the option pays, and options.
    """
    reduced, net, option = lists
    begin, count = graphs.first[i], 0
    for o in range(begin, graphs.first[i + 1]):
        after = slot.after[p, graphs.next[o]]
        if after >= NEVER:
            continue
        paid = np.int64(0)
        for r in range(SHARED):
            paid += slot.prices[p, r] * graphs.use[o, r]
        rest = after - slot.now[p, i]
        if graphs.ends[o]:
            rest += graphs.rate[i] * slot.scale * (slot.tick + 1)
        k = begin + count
        while k > begin and reduced[p, k - 1] > rest + paid:
            reduced[p, k], net[p, k], option[p, k] = reduced[p, k - 1], net[p, k - 1], option[p, k - 1]
            k -= 1
        reduced[p, k], net[p, k], option[p, k] = rest + paid, rest, o
        count += 1
    length[p, i] = count
    return count


@allocating
def expand(layer, cut, kind, graphs, slot, tries):
    """Return the next layer, and the `tries` left (below 0: too few).

    From each entry not `cut`: idling, and every batch under the limits whose reduced costs and unused supply leave an
    end below the target possible, under the entry's best vector.
    """
    requests, vectors = layer.keys.shape[1], len(slot.supply)
    following, size = empty_layer(requests, layer.choice.shape[1] > 0), 0
    lists, length = np.empty((3, vectors, len(graphs.next)), np.int64), np.full((vectors, len(graphs.idle)), -1)
    states, places = np.empty((4, requests), np.int32), np.zeros((3, requests), np.int64)
    sums, use = np.zeros((5, requests + 1), np.int64), np.zeros((requests + 1, SHARED), np.int64)
    made = states, places, sums, use, np.zeros((3, requests + 1), np.bool_)
    for i in range(layer.size):
        if cut[i]:
            continue
        found, spent = FULL, tries
        while found == FULL:
            found, spent = follow(layer, i, kind, graphs, slot, lists, length, tries, following, size, made)
            if found == FULL:  # again, with what was found
                size, following = len(following.cost), grown(following)
        size, tries = found, spent
        if tries < 0:
            break
    return Layer(following.keys, following.cost, following.room, following.parent, following.choice, following.table,
                 size), tries  # fmt: skip


@compiled
def follow(layer, i, kind, graphs, slot, lists, length, tries, following, size, made):
    """Add what entry i leads to; return the layer's size (`FULL`: no room), and the tries left."""
    reduced, net, option = lists
    requests, limits = layer.keys.shape[1], graphs.limits
    (key, chosen, sorted_key, sorted_chosen), (place, begin, stop), sums, use, (acts, decodes, prefills) = made
    slack, left, cost, least, rest = sums
    p, most = 0, -NEVER
    for q in range(len(slot.supply)):
        bound = -(slot.later[q] + slot.supply[q])
        for j in range(requests):
            bound += slot.now[q, layer.keys[i, j]]
        if bound > most:
            p, most = q, bound
    slack[0] = (slot.goal - layer.cost[i]) * slot.scale - most
    left[0], cost[0] = slack[0] - slot.supply[p], layer.cost[i]
    for j in range(requests):
        sorted_key[j], sorted_chosen[j] = graphs.idle[layer.keys[i, j]], -1
    if size == len(following.cost):
        return FULL, tries
    size = reach(following, size, kind, slot, sorted_key, layer.cost[i], i, sorted_chosen)
    possible = True
    for j in range(requests - 1, -1, -1):
        state = layer.keys[i, j]
        count = length[p, state]
        if count < 0:
            count = priced_options(graphs, slot, p, state, lists, length)
        begin[j], smallest = graphs.first[state], NEVER
        stop[j] = begin[j]
        while stop[j] < begin[j] + count and reduced[p, stop[j]] <= slack[0]:
            smallest = min(smallest, net[p, stop[j]])
            stop[j] += 1
        if smallest >= NEVER:
            possible = False
            break
        least[j] = least[j + 1] + smallest
        rest[j] = rest[j + 1] + reduced[p, begin[j]]
    if not possible:
        return size, tries
    j = 0
    place[0] = begin[0]
    while j >= 0:
        if place[j] == stop[j] or reduced[p, place[j]] + rest[j + 1] > slack[j]:
            j -= 1
            continue
        at = place[j]
        place[j] += 1
        tries -= 1
        o = option[p, at]
        if net[p, at] + least[j + 1] > left[j]:
            continue
        to = graphs.next[o]
        if j and kind[j] == kind[j - 1] and layer.keys[i, j] == layer.keys[i, j - 1] and to < key[j - 1]:
            continue
        decodes[j + 1], prefills[j + 1] = decodes[j] or graphs.decodes[o], prefills[j] or graphs.prefills[o]
        if not graphs.hybrid and decodes[j + 1] and prefills[j + 1]:
            continue
        fits = True
        for r in range(SHARED):
            use[j + 1, r] = use[j, r] + graphs.use[o, r]
            fits = fits and (limits[r] < 0 or use[j + 1, r] <= limits[r])
        if not fits:
            continue
        key[j], chosen[j] = to, o
        acts[j + 1] = acts[j] or graphs.acts[o]
        slack[j + 1], left[j + 1] = slack[j] - reduced[p, at], left[j] - net[p, at]
        cost[j + 1] = cost[j]
        if graphs.ends[o]:
            cost[j + 1] += graphs.rate[layer.keys[i, j]] * (slot.tick + 1)
        if j + 1 < requests:
            j += 1
            place[j] = begin[j]
        elif acts[j + 1] or not graphs.strict:
            for k in range(requests):
                sorted_key[k], sorted_chosen[k] = key[k], chosen[k]
            if size == len(following.cost):
                return FULL, tries
            size = reach(following, size, kind, slot, sorted_key, cost[requests], i, sorted_chosen)
    return size, tries
