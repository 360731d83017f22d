"""Kind `in-order` (docs/bounds.md, Prices in order)."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import inf, lcm

from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import blocks, limits_of
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens, lines_of

Run = tuple[list[int], int]  # what the first k units pay at a price of 1, and the call after all


def in_order(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `in-order`: a request does whole units one after another, each pays the price of its slot."""
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
    total = -1024 * slot * sum(proof.price)
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
        arrival = q * (one.arrival - begin)
        total += least(runs, arrival, proof, a + b, 1024 * proof.scale * rate) - 1024 * proof.scale * rate * arrival
    return Fraction(total, 1024 * proof.scale * q * unit)


def packing(held: int, L: int | None, k: int) -> Fraction:
    """The dual feasible function u of blocks (0 where there is no limit)."""
    x = Fraction(held, L) if L else Fraction(0)
    return x if not k or ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k)


def least(runs: list[Run], arrival: int, proof: Box, d: int, rate: int) -> int:
    """The least that a request pays and its end costs, by its payments up to each slot, run after run."""
    n, S = proof.most, len(proof.price)
    slot, best, begins = n * d, inf, {arrival: 0}  # when a run may begin, and the least paid by then
    for j, (paid, wait) in enumerate(runs):
        end, ready = len(paid) - 1, dict[int, int]()
        rest = sum(d * (len(each) - 1) + call for each, call in runs[j + 1 :]) + wait  # after this run
        for time in [time for time in begins if time >= S * slot]:  # a request that arrives after all slots
            begun = time if j == 0 else S * slot
            best = min(best, begins.pop(time) + rate * (begun + d * end + rest))
        first = min(begins, default=0) // slot
        row: list[float] = [inf] * end  # the least paid with k units done by a slot, not all
        for s in range(first, S if begins else 0):
            spend(2 * (n + 4) * end, "units in order")
            price, ways = proof.price[s], [inf] * (end + 1)  # by units done in the end
            finished = list[tuple[int, float]]()
            for g in range(1, min(n, end) + 1):
                finished.append((g, row[end - g] + price * (paid[end] - paid[end - g])))
            bases = [known - price * each for known, each in zip(row, paid, strict=False)]
            for g in range(min(n, end - 1) + 1):
                ways[g:end] = map(min, ways[g:end], bases)
            row = [way + price * each for way, each in zip(ways[:end], paid, strict=False)]
            for time in [time for time in begins if time // slot == s]:
                spent, room = begins.pop(time), min(n, -(-((s + 1) * slot - time) // d))
                for g in range(min(room, end) + 1):
                    if g < end:
                        row[g] = min(row[g], spent + price * paid[g])
                    else:
                        finished.append((g, spent + price * paid[g]))
            for g, cost in finished:
                over = s * slot + g * d
                if j == len(runs) - 1:
                    best = min(best, cost + rate * over)
                elif cost < inf:
                    ready[over + wait] = min(int(cost), ready.get(over + wait, int(cost)))
        if first < S:
            best = min([best, *(known + rate * (S * slot + d * (end - k) + rest) for k, known in enumerate(row))])
        begins = ready
    return int(best)
