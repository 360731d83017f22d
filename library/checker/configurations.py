"""Kind `configurations` (docs/configurations.md, The network of configurations)."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import groupby
from math import inf
from operator import add, mul
from typing import Any

from library.checker.files import MOST_TRIED, Amount, Box, Broken, NotChecked, spend
from library.checker.instance import always_one_tick, blocks, output, prefill_budget

Running = tuple[int, ...]
Kind = tuple[Running, int, int]  # what it loads, tick by tick; its release; its prompt
Kinds = dict[Kind, list[Any]]  # the price of a start, and how many there are


def configurations(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `configurations`: prices of starts and of memory, in a network of what can run together at a tick."""
    machine, ones, scale, memory = instance.machine, instance.requests, proof.scale, proof.memory
    start, block = min(one.arrival for one in ones), machine.block
    free = not machine.hybrid or machine.chunked or machine.evict or machine.pause
    if not always_one_tick(instance.cost) or any(len(one.segments) > 1 for one in ones) or free or (
        prefill_budget(machine) and any(one.arrival != start for one in ones)
    ):  # fmt: skip
        raise Broken("its schedules are not start times")
    if len(proof.starts) != len(ones):
        raise Broken("starts: give a price for each request, or null")
    spend(40 * sum(output(one) ** 2 for one in ones), "its loads")
    spend(len(ones) * (len(memory) + 1) * (1 + min(len(memory), max(map(output, ones)))), "its starts")
    kinds: Kinds = {}
    for one, y in zip(ones, proof.starts, strict=True):
        load = tuple(blocks(one.prompt + q, block) for q in range(output(one)))
        kind = (load, one.arrival - start, one.prompt)
        if kinds.setdefault(kind, [y, 0])[0] != y:
            raise Broken("requests that are alike have different prices")
        kinds[kind][1] += 1
    M = machine.memory // block if machine.memory else sum(kind[0][-1] * count for kind, (_, count) in kinds.items())
    total = -M * sum(memory)
    for kind, (y, count) in kinds.items():
        total += count * (cheapest_start(kind, kind[1], scale, memory) if y is None else y)
    inside = {kind: known for kind, known in kinds.items() if known[0] is not None}
    if proof.target is None:
        return Fraction(total + cheapest_path(inside, scale, memory, M)[0], scale)
    search_starts(kinds, inside, scale, memory, M, proof.target)
    return Fraction(proof.target)


def search_starts(kinds: Kinds, inside: Kinds, scale: int, memory: list[int], M: int, target: int) -> None:
    """Broken if all requests can start below the target, each once; `tries` is not believed, so not looked at.

    A state: what is held from now on, and how many of each kind are left, with the least g, and what runs of those
    inside. One is dropped if the bound of docs/configurations.md (The search) is not below the target.
    """
    known = [(kind, y, count) for kind, (y, count) in kinds.items()]
    layers: dict[int, list[int]] = {}
    _, loads, place = cheapest_path(inside, scale, memory, M, layers)
    number, longest = {load: e for e, load in enumerate(loads)}, max(len(kind[0]) for kind in kinds)
    spend(len(memory) ** 2, "its memory")
    supply = [M * sum(memory[t:]) for t in range(len(memory) + 1)]
    goal, tried = (target - 1) * scale, 0

    @cache
    def later(k: int, t: int) -> int:
        kind, y, _ = known[k]
        spend((len(memory) + 1) * (1 + min(len(memory), len(kind[0]))), "its starts")
        least = cheapest_start(kind, max(t, kind[1]), scale, memory) - (y or 0)
        return least if y is None else max(0, least)

    def bound(t: int, g: int, running: Running, left: Running, held: Running) -> int:
        if not any(left):
            return g
        g += sum(n * later(k, t) for k, n in enumerate(left) if n)
        g += sum(map(mul, memory[t:], held)) - supply[min(t, len(memory))]
        return g + (layers[t][place[running]] if t in layers else 0)

    every = sum(y * count for _, y, count in known if y is not None)
    t, layer = 0, {((0,) * longest, tuple(count for _, _, count in known)): (every, Running())}
    while layer:
        following: dict[tuple[Running, Running], tuple[int, Running]] = {}
        for (held, left), (g, running) in layer.items():
            sets = [(held, left, g, running, 0)]
            for holds, rest, cost, now, first in sets:  # in each, one more starts, of the same kind or a later one
                tried += 1
                spend(10 * longest + len(held), "its search")
                if tried > MOST_TRIED:
                    raise NotChecked(f"more than {MOST_TRIED} starts are not tried")
                if bound(t, cost, now, rest, holds) > goal:
                    continue
                if not any(rest):
                    raise Broken(f"all requests can start below {target}")
                after, to_come = (*holds[1:], 0), tuple(number[loads[e][1:]] for e in now if loads[e][1:])
                if bound(t + 1, cost, to_come, rest, after) <= goal:
                    following[after, rest] = min((cost, to_come), following.get((after, rest), (cost, to_come)))
                for k in range(first, len(known)):
                    kind, y, _ = known[k]
                    more = now if y is None else tuple(sorted((*now, number[kind[0]]), reverse=True))
                    taken = tuple(map(add, holds, kind[0] + (0,) * longest))
                    if rest[k] and t >= kind[1] and max(taken) <= M and more in place:
                        less = (*rest[:k], rest[k] - 1, *rest[k + 1 :])
                        paid = scale * (t + len(kind[0]) - kind[1]) - (y or 0)
                        sets.append((taken, less, cost + paid, more, k))
        layer, t = following, t + 1


def start_cost(kind: Kind, t: int, scale: int, memory: list[int]) -> int:
    """What a start at tick t costs, with the memory that it pays for."""
    load, release, _ = kind
    return scale * (t + len(load) - release) + sum(map(mul, memory[t:], load))


def cheapest_start(kind: Kind, first: int, scale: int, memory: list[int]) -> int:
    """What the cheapest start costs from a tick on."""
    return min(start_cost(kind, t, scale, memory) for t in range(first, max(first, len(memory)) + 1))


MOST_CONFIGURATIONS, MOST_STARTS = 3 * 10**6, 10**5  # about two minutes and 2 GB


def cheapest_path(
    kinds: Kinds, scale: int, memory: list[int], M: int, layers: dict[int, list[int]] | None = None
) -> tuple[int, list[Running], dict[Running, int]]:
    """The cheapest path from the empty configuration to itself, less the prices of starts; from the last tick back.

    Also the loads, and the places of configurations; `layers`, if given, gets what paths from them cost, by tick.

    Starts that cost no less than their price lower no path, so of each kind there is a last tick with starts. So that
    no more configurations are looked at than those that starts up to then can make, the last of them come last.
    """
    loads, found = network(kinds, M)
    number, until, costs = {load: e for e, load in enumerate(loads)}, [-1] * len(loads), {}
    for kind, (y, _) in kinds.items():
        load, release, _ = kind
        ticks = range(release, y // scale + release - len(load) + 1)
        if len(ticks) > MOST_STARTS:
            raise NotChecked(f"starts at {len(ticks)} ticks are not looked at")
        spend(len(ticks) * (1 + min(len(load), len(memory))), "its starts")
        costs[kind] = {t: cost for t in ticks if (cost := start_cost(kind, t, scale, memory) - y) < 0}
        for q in range(len(load) if costs[kind] else 0):
            until[number[load[q:]]] = max(until[number[load[q:]]], max(costs[kind]) + q)
    found.sort(key=lambda running: -min((until[e] for e in running), default=inf))  # parts of one stay before it
    ends = [-min((until[e] for e in running), default=inf) for running in found]
    end = max(map(max, filter(None, costs.values())), default=-1) + 1
    place = {running: i for i, running in enumerate(found)}
    later = [place[tuple(number[loads[e][1:]] for e in running if loads[e][1:])] for running in found]
    starts: dict[int, list[tuple[int, int]]] = {number[kind[0]]: [] for kind in kinds}  # places with it, and without
    for i, running in enumerate(found):
        for e in starts.keys() & running:
            k = running.index(e)
            starts[e].append((i, place[running[:k] + running[k + 1 :]]))
    least = [0] * len(found)  # of what follows
    for t in reversed(range(end)):
        size = bisect(ends, -t) if layers is None else len(found)
        spend((1 if layers is None else 10) * size, "its configurations")
        least = list(map(least.__getitem__, later[:size]))
        for kind, (_, count) in kinds.items():
            if cost := costs[kind].get(t):
                pairs = starts[number[kind[0]]]
                for more, fewer in pairs[: bisect(pairs, (size,))] * count:  # in each round one more starts, or none
                    if least[more] + cost < least[fewer]:
                        least[fewer] = least[more] + cost  # `more` is as in the round before: it comes later
        if layers is not None:
            layers[t] = least
    return least[0], loads, place


def network(kinds: Kinds, M: int) -> tuple[list[Running], list[Running]]:
    """Loads to come of an element, and all configurations of their numbers, the last to end first; small ones first."""
    alike, found = Counter[int](), [Running()]
    every = set[Running]()
    for (load, *_), (_, count) in kinds.items():
        alike[load[-1]] += count
        every.update(load[q:] for q in range(len(load)))
    loads = sorted(every, key=lambda load: (len(load), load[::-1]))  # one tick later they are in the same order
    lasting = [list(those) for _, those in groupby(range(len(loads)), lambda e: len(loads[e]))]  # 1, 2, .. ticks
    for running in found:
        if len(found) > MOST_CONFIGURATIONS:
            raise NotChecked(f"more than {MOST_CONFIGURATIONS} configurations are not looked at")
        last = running[-1] if running else len(loads) - 1
        for r in range(len(loads[last]) if loads else 0):  # what ends in r ticks, when it needs the most
            room = M - sum(loads[e][r] for e in running)
            if loads[lasting[r][0]][-1] > room:
                break  # there is less room later
            for e in lasting[r]:
                if e > last or loads[e][-1] > room:
                    break
                if sum(loads[other][-1] == loads[e][-1] for other in running) < alike[loads[e][-1]]:
                    found.append((*running, e))
    return loads, found
