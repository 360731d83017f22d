"""Kind `pairs` (the head of kvcore/certificates/pairs.py)."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, groupby
from math import inf

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import always_one_tick, blocks
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens

Ticks = tuple[list[tuple[int, int]], int]  # (blocks, ticks) in order, and the rate


def pairs(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `pairs`: each two requests, tick by tick, in one batch only where their contexts fit together."""
    machine, given, n = instance.machine, instance.requests, len(instance.requests)
    if not always_one_tick(instance.cost):
        raise Broken("batches may last more than a tick")
    if n < 2:
        raise Broken("there are no two requests")
    room = inf if machine.memory is None else machine.memory // machine.block
    budget, begin = machine.batch_tokens if machine.chunked else None, min(one.arrival for one in given)
    chains, alone = [], 1 in (machine.batch_requests, machine.batch_tokens)
    rates, unit = rates_of(instance, objective)
    for one in given:
        held, context = [(0, one.arrival - begin)], 0  # blocks (0: no batch) and how many ticks
        for new, call in fresh_tokens(one, MOST_OF.get(objective)):
            context += new
            before = blocks(new, budget) - 1 if budget else 0
            held += [(1, before), (blocks(context, machine.block), 1), (0, call)]
            spend(10, "chains of ticks")
        runs = groupby((run for run in held if run[1]), lambda run: run[0])
        chains.append([(size, sum(ticks for _, ticks in same)) for size, same in runs])
    total = Fraction(sum(pair(*two, room, alone) for two in combinations(zip(chains, rates, strict=True), 2)), n - 1)
    return (total - sum(rate * (one.arrival - begin) for rate, one in zip(rates, given, strict=True))) / unit


def pair(one: Ticks, other: Ticks, room: float, alone: bool) -> int:
    """The least sum of the ends of two chains, each times its rate.

    T(u, v), the least steps to there, does not fall in u or v, and grows by at most 1 from a place to the next. So
    in a rectangle of places that alike allow a step of both, or do not, the last steps are of both as long as there are
    any, or all of one and then all of the other: its far sides follow from its near ones.
    """
    (mine, p), (its, q) = one, other
    n, m = (sum(ticks for _, ticks in chain) for chain in (mine, its))
    spend(2 * (len(mine) * (m + len(its)) + len(its) * n), "steps of pairs of requests")
    row, u, ends = list(range(m + 1)), 0, [q * m + p * (m + n)]
    for held, a in mine:
        left, far, v = [row[0] + i for i in range(a + 1)], [row[0] + a], 0
        with_it = [(not (held and its_held) or (not alone and held + its_held <= room), b) for its_held, b in its]
        for fits, same in groupby(with_it, lambda run: run[0]):
            b = sum(ticks for _, ticks in same)
            near = row[v : v + b + 1]
            if fits:
                top = [j + left[a - j] for j in range(min(a, b + 1))] + [a + t for t in near[: max(0, b + 1 - a)]]
                left = [i + near[b - i] for i in range(min(b, a + 1))] + [b + t for t in left[: max(0, a + 1 - b)]]
            else:
                top = [min(t + a, left[a] + j) for j, t in enumerate(near)]
                left = [min(near[b] + i, t + b) for i, t in enumerate(left)]
            far += top[1:]
            v += b
        ends += [q * t + p * (t + n - u - i) for i, t in enumerate(left)]
        row, u = far, u + a
    return min(*ends, *(p * t + q * (t + m - v) for v, t in enumerate(row)))
