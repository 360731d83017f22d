"""Kind `late-windows` (docs/bounds.md, Too much for a window)."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import accumulate
from math import ceil, inf
from operator import add

from library.checker.files import ONE, Amount, Box, Broken, spend
from library.checker.instance import output
from library.checker.objectives import is_late
from library.checker.shares import Division
from library.checker.work import Work, ticks_of


def late_windows(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `late-windows`: of those whose work is due in a window, more than fits into it, some are late."""
    if any(s > t for s, t, *_ in proof.rows):
        raise Broken("a window ends before it begins")
    division, ticks, late, due = Division(instance, proof), ticks_of(instance), 0, []
    tariff = division.tariff(division.line).least
    for one in instance.requests:
        work, slo, o = Work(one, instance.machine, ticks, tariff), one.slo or {}, output(one)
        if is_late(one, work.d[0], work.chain):
            late += 1
            continue
        limit = {name: inf if slo.get(name) is None else slo[name] for name in ("ttft", "latency")}
        spans = [limit["latency"]]
        if slo.get("tpot") is not None:
            spans.append(limit["ttft"] + slo["tpot"] * (o - 1) // 1)
        if slo.get("normalized_latency") is not None:
            spans.append(slo["normalized_latency"] * o // 1)
        d = one.arrival + min(spans)
        e = min(one.arrival + limit["ttft"], d - (work.chain - work.d[0]))
        due.append((one.arrival, e, d, Fraction(work.share[0]), Fraction(sum(work.share))))
    gained, g = 0, [0] * len(due)
    for s, t, y, z in proof.rows:
        spend(20 * len(due), "its windows")
        w = [(W if d <= t else F if e <= t else 0) if r >= s else 0 for r, e, d, F, W in due]
        if (X := sum(w) - (t - s)) > 0:
            k = bisect_left(list(accumulate(sorted(w, reverse=True))), X) + 1
            gained += ONE * (y + z * k)
            paid = (y * ceil(ONE * min(amount, X) / X) + z * ONE * (amount > 0) for amount in w)
            g = list(map(add, g, paid))
    spared = sum(max(0, each - ONE * 2**20) for each in g)
    return late + Fraction(max(0, gained - spared), ONE * 2**20)
