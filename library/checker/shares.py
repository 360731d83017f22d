"""Kind `shares` (docs/bounds.md, Shares of time)."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from operator import mul, neg

from library.checker.files import Amount, Box, Broken
from library.checker.instance import WORK, limits_of, peak, prefill_budget
from library.checker.objectives import MOST_OF, RATES
from library.checker.work import Job, Line, Tariff, Work, least_step, lines_of, served, ticks_of

PARTS = ("memory", "tokens", "prefill_tokens", "requests", "packing")


class Division:
    """How the time of a batch is divided: a weighted mean of lines, and the parts of its base that are shared."""

    def __init__(self, instance: Box, proof: Box) -> None:
        machine, lines = instance.machine, list(lines_of(instance.cost))
        if len(proof.functions) != len(lines) or sum(proof.functions) > 1024:
            raise Broken(f"functions: give {len(lines)} numbers, of 1024 at most together")
        self.machine, self.packs = machine, proof.packs
        weights = [Fraction(weight, 1024) for weight in proof.functions]
        self.line = {name: sum(map(mul, weights, (line[name] for line in lines))) for name in lines[0]}
        peaks = sum(peak(one) for one in instance.requests)
        L = limits_of(machine)["device"]
        some = instance.contents or machine.layout  # several may process what is held once, or windows hold less
        held = L * machine.block if L and not some else peaks
        self.P = min(peaks, prefill_budget(machine) or peaks, held)
        self.limits = limits_of(machine) | {"prefill_tokens": self.P, "memory": L, "packing": L}
        self.part = {name: Fraction(proof[name], 1024) for name in PARTS}
        if sum(self.part.values()) > 1 or any(part and not self.limits[name] for name, part in self.part.items()):
            raise Broken("the parts are above 1024 together, or of what has no limit")

    def tariff(self, line: Line) -> Tariff:
        """Of a line, the share of a token: what work costs, and the parts of `base` and of `prefill` that it takes."""
        each = {name: line["base"] * part / self.limits[name] if part else 0 for name, part in self.part.items()}
        p = {name: line.get(name, 0) for name in (*WORK, "prefill")}
        for name, part in (("tokens", "tokens"), ("decode_requests", "requests"), ("prefill_requests", "requests")):
            p[name] += each[part]
        p["prefill_token"] = each["prefill_tokens"] + Fraction(p["prefill"]) / self.P
        p |= {"prefill": 0, "block": each["memory"], "packed": line["base"] * self.part["packing"]}
        return Tariff(self.machine, p, self.packs)


def shares(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `shares`: what runs together in a batch shares its time, and time runs once."""
    division, ticks = Division(instance, proof), ticks_of(instance)
    tariff = division.tariff(division.line).least
    works = [Work(one, instance.machine, ticks, tariff, most=MOST_OF.get(objective)) for one in instance.requests]
    if objective == "busy-time":
        return max(shared_batches(instance, division), *(sum(work.d) for work in works))
    half, total, jobs = Fraction(least_step(instance), 2), Fraction(0), list[Job]()
    density: dict[int, Fraction] = {}
    for i, work in enumerate(works):
        rate = RATES[objective](work.one)
        if not any(work.share):
            total += rate * work.chain
            continue
        density[i] = rate / Fraction(sum(work.share))
        total += rate * (half - work.one.arrival)
        total += density[i] * sum(map(mul, work.share, work.tail))
        each = zip(work.release, work.share, strict=True)
        jobs += [(work.one.arrival + release, share, -density[i], i) for release, share in each if share]
    for _, i, begin, end, unit in served(jobs):  # the integral of t over the time at which its work is done
        total += density[i] * Fraction(end**2 - begin**2, 2 * unit**2)
    return total


def shared_batches(instance: Box, division: Division) -> int:
    """Busy time: the prices of all work, base for each batch, and prefill for each that the prefill tokens need."""
    machine, line, parts = instance.machine, division.line, division.tariff({"base": 1}).least
    prices, prefill, batch = (
        Tariff(machine, each).least for each in (line | {"prefill": 0}, {"prefill_token": 1}, {"batch": 1})
    )
    works = [Work(one, machine, batch, parts, calls=False) for one in instance.requests]
    jobs = [(*job, 0) for work in works for job in zip(work.release, work.share, map(neg, work.tail), strict=True)]
    ends = (Fraction(end, unit) - rank for rank, _, _, end, unit in served(jobs))  # with the largest tail first
    batches = max(ceil(max(ends)), *(work.chain for work in works))
    tokens = [token for work in works for token in work.tokens]
    filled = ceil(sum(map(prefill, tokens)) / division.P)
    return ceil(sum(map(prices, tokens)) + line["base"] * batches + line["prefill"] * filled)
