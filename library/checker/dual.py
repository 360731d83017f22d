"""Kind `slot-dual` (docs/bounds.md, Prices of slots)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, lcm
from operator import mul
from typing import Any

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import RESOURCES, always_one_tick, but_id, limits_of
from library.checker.objectives import RATES
from library.checker.slots import Alone


def slot_dual(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `slot-dual`: each request pays for its use of each slot, and takes its cheapest way.

    Of several cases, each with prices, the least counts; in one, segments have ended by the end of slots, or have not.
    """
    limits = limits_of(instance.machine)
    if not always_one_tick(instance.cost):
        raise Broken("prices of slots are for batches of one tick")
    start = min(one.arrival for one in instance.requests)
    unit = lcm(*(Fraction(RATES[objective](one)).denominator for one in instance.requests))
    paths, least = dict[str, Alone](), list[Any]()
    for one in instance.requests:
        there = Box(one, arrival=start)
        if but_id(there) not in paths:
            path = Alone(there, instance, objective, start, unit, False, list(limits.values()))
            path.index()
            paths[but_id(there)] = path
    left = {kind: ticks_left(path) for kind, path in paths.items()}
    ones = {one.id: one for one in instance.requests}
    for prices, cases in cases_of([proof.prices] if isinstance(proof.prices, dict) else proof.prices):
        points = [point(branch, ended, ones) for branch, ended in cases]
        if prices.since or any(most is None and any(prices[name]) for name, most in limits.items()):
            raise Broken("there are prices of what has no limit, or none from slot 0 on")
        slots = max(*(len(prices[name]) for name in RESOURCES), *(tick for _, tick, _, _ in points))
        rows = [*zip(*(prices[name] + [0] * (slots - len(prices[name])) for name in RESOURCES), strict=True)]
        total: Any = -sum((most or 0) * sum(prices[name]) for name, most in limits.items())
        alike = dict[Any, list[int]]()
        for one in instance.requests:
            known = tuple(each for each in points if each[0] == one.id)
            alike.setdefault((but_id(Box(one, arrival=start)), known), []).append(one.arrival - start)
        for (kind, known), arrivals in alike.items():
            total += paid_by(paths[kind], left[kind], rows, proof.scale, arrivals, known)
        least.append(total)
    return Fraction(min(least), proof.scale * unit)


Point = tuple[str, int, int, bool]  # request, tick, tokens, whether it has these tokens then


def cases_of(nodes: list[Any]) -> Iterator[tuple[Any, tuple[tuple[Box, bool], ...]]]:
    """The prices of each case, and whether it is the first of branches: one precedes its first, then the other."""
    later: list[tuple[tuple[Box, bool], ...]] = [()]
    for each in nodes:
        if not later:
            raise Broken("there are prices of no case")
        known = later.pop()
        spend(200 * (1 + len(known)), "its cases")
        if "request" in each:
            later += [(*known, (each, first)) for first in (False, True)]
        else:
            yield each, known
    if later:
        raise Broken("a case has no prices")


def point(branch: Box, has: bool, ones: dict[str, Box]) -> Point:
    """What a case of a branch says."""
    if branch.request not in ones:
        raise Broken(f"there is no request {branch.request}")
    segments = ones[branch.request].segments
    tokens = sum(segment.decode for segment in segments[: branch.segment + 1]) + (branch.segment >= len(segments))
    return branch.request, branch.slot + 1, tokens, has


def ticks_left(path: Alone) -> list[float]:
    """The least ticks of each state until the request is over."""
    left, before = [0.0 if over else inf for over in path.over], list[float]()
    while left != before:
        spend(5 * path.size, "the ticks of a request alone")
        before = left
        left = [min(n, 1 + min([before[to] for _, to in leads])) for n, leads in zip(left, path.leads, strict=True)]
    return left


def paid_by(
    path: Alone, left: list[float], rows: list[Any], scale: int, arrivals: list[int], known: tuple[Point, ...]
) -> Any:
    """The least that requests of these arrivals cost and pay, if each is as the points say."""
    slots, rate = len(rows), scale * path.w
    spend(5 * path.size * (slots + 1), "the values of its states")
    values: list[Any] = [0 if not n else inf if n == inf else rate * (slots + int(n)) for n in left]
    total: Any = sum(rate * int(left[0]) for t in arrivals if t >= slots)
    for t in reversed(range(slots)):
        for _, tick, tokens, has in known:
            if tick == t + 1:
                values = [v if (n >= tokens) == has else inf for v, (n, _) in zip(values, path.alike, strict=True)]
        costs = [sum(map(mul, rows[t], use)) + (rate * (t + 1) if over else 0) for use, over in path.uses]
        values = [min([costs[use] + values[to] for use, to in leads]) for leads in path.leads]
        if count := arrivals.count(t):
            total += (values[0] - rate * t) * count
    return total
