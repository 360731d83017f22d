"""Kind `slot-dual` (docs/bounds.md, Prices of slots)."""

from __future__ import annotations

from fractions import Fraction
from math import inf, lcm
from operator import mul
from typing import Any

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import RESOURCES, always_one_tick, but_id, limits_of
from library.checker.objectives import RATES
from library.checker.slots import Alone


def slot_dual(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `slot-dual`: each request pays for its use of each slot, and takes its cheapest way."""
    prices, scale, limits = proof.prices, proof.scale, limits_of(instance.machine)
    if not always_one_tick(instance.cost):
        raise Broken("prices of slots are for batches of one tick")
    if prices.since or any(most is None and any(prices[name]) for name, most in limits.items()):
        raise Broken("there are prices of what has no limit, or none from slot 0 on")
    slots, start = max(len(prices[name]) for name in RESOURCES), min(one.arrival for one in instance.requests)
    rows = [*zip(*(prices[name] + [0] * (slots - len(prices[name])) for name in RESOURCES), strict=True)]
    unit = lcm(*(Fraction(RATES[objective](one)).denominator for one in instance.requests))
    total, kinds = -sum((most or 0) * sum(prices[name]) for name, most in limits.items()), dict[Any, Any]()
    for one in instance.requests:
        there = Box(one, arrival=start)
        kinds.setdefault(but_id(there), (there, []))[1].append(one.arrival - start)
    for one, arrivals in kinds.values():
        path = Alone(one, instance, objective, start, unit, False, list(limits.values()))
        path.index()
        left, before = [0.0 if over else inf for over in path.over], list[float]()
        while left != before:  # least ticks until it is over
            spend(5 * path.size, "the ticks of a request alone")
            before = left
            left = [min(n, 1 + min([before[to] for _, to in leads])) for n, leads in zip(left, path.leads, strict=True)]
        spend(5 * path.size * (slots + 1), "the values of its states")
        rate = scale * path.w
        values: list[Any] = [0 if not n else inf if n == inf else rate * (slots + int(n)) for n in left]
        total += sum(rate * int(left[0]) for t in arrivals if t >= slots)
        for t in reversed(range(slots)):
            costs = [sum(map(mul, rows[t], use)) + (rate * (t + 1) if over else 0) for use, over in path.uses]
            values = [min([costs[use] + values[to] for use, to in leads]) for leads in path.leads]
            total += (values[0] - rate * t) * arrivals.count(t)
    return Fraction(total, scale * unit)
