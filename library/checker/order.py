"""Kind `in-order` (docs/bounds.md, Prices in order)."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import inf, lcm
from typing import Any

from library.checker.dual import cases_of
from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import blocks, limits_of
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens, lines_of

Run = tuple[list[int], int]  # what the first k units pay at a price of 1, and the call after all


def in_order(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `in-order`: a request does whole units one after another, each pays the price of its slot.

    Of several cases, each with prices, the least counts; in one, requests have done no more units, or no fewer.
    """
    lines = list(lines_of(instance.cost))
    if proof.line >= len(lines):
        raise Broken("there is no such line")
    a, b = lines[proof.line]["base"], lines[proof.line]["tokens"]
    q = lcm(a.denominator, b.denominator)  # times are in parts of a tick, of which there are so many
    a, b = int(q * a), int(q * b)
    if not a + b:
        raise Broken("the line gives batches no time")
    L, begin = limits_of(instance.machine)["device"], min(one.arrival for one in instance.requests)
    slot, (rates, unit) = proof.most * (a + b), rates_of(instance, objective)
    prices = proof.price
    cases = [*cases_of(prices if prices and not isinstance(prices[0], int) else [prices])]
    if {split.request for _, known in cases for split, _ in known} - {one.id for one in instance.requests}:
        raise Broken("a split is of no request")
    totals: list[Any] = [-1024 * slot * sum(price) for price, _ in cases]
    for rate, one in zip(rates, instance.requests, strict=True):
        runs, sums, context = list[Run](), [0], 0
        for new, call in fresh_tokens(one, MOST_OF.get(objective)):
            context += new
            m, u = (a + b * new) // (a + b), packing(blocks(context, instance.machine.block), L, proof.packs)
            spend(20 + m, "units in order")
            sums += [1024 * (a * u + b * new) // m] * m
            if call:
                runs, sums = [*runs, (list(accumulate(sums)), q * call)], [0]
        runs.append((list(accumulate(sums)), 0))
        arrival, rate = q * (one.arrival - begin), 1024 * proof.scale * rate
        for c, (price, known) in enumerate(cases):
            limits = between([each for each in known if each[0].request == one.id], len(price), runs)
            totals[c] += least(runs, arrival, price, proof.most, limits, a + b, rate) - rate * arrival
    return Fraction(min(totals), 1024 * proof.scale * q * unit)


def between(known: list[Any], slots: int, runs: list[Run]) -> tuple[list[int], list[int]]:
    """The fewest and the most units that a request has done before each slot, and after the last."""
    units = sum(len(paid) - 1 for paid, _ in runs)
    low, high = [0] * (slots + 1), [units] * (slots + 1)
    for split, at_most in known:
        spend(2 * slots, "its cases")
        for s in range(slots + 1):
            if at_most and s <= split.slot + 1:
                high[s] = min(high[s], split.units)
            elif not at_most and s > split.slot:
                low[s] = max(low[s], min(units, split.units))
    return low, high


def packing(held: int, L: int | None, k: int) -> Fraction:
    """The dual feasible function u of blocks (0 where there is no limit)."""
    x = Fraction(held, L) if L else Fraction(0)
    return x if not k or ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k)


def least(
    runs: list[Run], arrival: int, price: list[int], n: int, limits: tuple[list[int], list[int]], d: int, rate: int
) -> Any:
    """The least that a request pays and its end costs, by its payments up to each slot, run after run.

    Infinity: the limits on the units done before each slot leave nothing.
    """
    S, (low, high), before = len(price), limits, 0  # units of the runs before
    slot, best, begins = n * d, inf, {arrival: 0}  # when a run may begin, and the least paid by then
    for j, (paid, wait) in enumerate(runs):
        end, ready = len(paid) - 1, dict[int, int]()
        rest = sum(d * (len(each) - 1) + call for each, call in runs[j + 1 :]) + wait  # after this run
        begins = {time: cost for time, cost in begins.items() if low[min(time // slot, S)] <= before}
        for time in [time for time in begins if time >= S * slot]:  # a request that arrives after all slots
            begun = time if j == 0 else S * slot
            best = min(best, begins.pop(time) + rate * (begun + d * end + rest))
        first = min(begins, default=0) // slot
        row: list[float] = [inf] * end  # the least paid with k units done by a slot, not all
        for s in range(first, S if begins else 0):
            spend((4 + n.bit_length()) * end + 5 * n, "units in order")
            finished = list[tuple[int, float]]()
            for g in range(1, min(n, end) + 1):
                finished.append((g, row[end - g] + price[s] * (paid[end] - paid[end - g])))
            ways, width = [known - price[s] * each for known, each in zip(row, paid, strict=False)], 1
            while width <= n:  # each is the least of so many up to it
                step = min(width, n + 1 - width)
                ways, width = [*ways[:step], *map(min, ways[step:], ways)], width + step
            row = [way + price[s] * each for way, each in zip(ways, paid, strict=False)]
            for time in [time for time in begins if time // slot == s]:
                spent, room = begins.pop(time), min(n, -(-((s + 1) * slot - time) // d))
                for g in range(min(room, end) + 1):
                    if g < end:
                        row[g] = min(row[g], spent + price[s] * paid[g])
                    else:
                        finished.append((g, spent + price[s] * paid[g]))
            for k in (*range(min(end, low[s + 1] - before)), *range(max(0, high[s + 1] - before + 1), end)):
                row[k] = inf
            for g, cost in finished if before + end <= high[s + 1] else ():
                over = s * slot + g * d
                if j == len(runs) - 1:
                    best = min(best, cost + rate * over)
                elif cost < inf:
                    ready[over + wait] = min(int(cost), ready.get(over + wait, int(cost)))
        if first < S:
            best = min([best, *(known + rate * (S * slot + d * (end - k) + rest) for k, known in enumerate(row))])
        begins, before = ready, before + end
    return best
