"""Shares of machine time: what runs together in a batch shares its time, and time runs once (docs/bounds.md)."""

from __future__ import annotations

from copy import copy
from fractions import Fraction
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most
from kvcore.certificates.least import least_work
from kvcore.certificates.one_machine import WorkPiece, largest, moments
from kvcore.certificates.proof import Proof
from kvcore.certificates.steps import Integers, StepPrices, Steps, check_size, lines
from kvcore.cost import Cost
from kvcore.features import OBJECTIVES, RULES, Feature, Takes
from kvcore.instance import LIMIT, Instance, Request
from kvcore.metrics import Value, weight

UNIT = 1024
"""Parts are in 1024ths."""

RESOURCES = ("memory", "packing", "tokens", "prefill_tokens", "requests")
"""What can share the fixed part of a batch."""

Proportion = Annotated[int, Field(ge=0, le=UNIT)]
Tick = Annotated[int, Field(ge=0, le=LIMIT)]


class Division(Proof):
    """How the time of a batch is divided among what is in it: no batch is shorter than all shares in it.

    `functions` weighs the lines below the duration, in their order (`steps.lines`), in 1024ths of at most 1 altogether.
    The fixed part is shared by the blocks of `memory`, the `tokens`, the `prefill_tokens`, the `requests`, and by their
    `packing`, in 1024ths: the memory of a request under the dual feasible function of number `packs`.
    """

    functions: Annotated[tuple[Proportion, ...], Field(min_length=1, max_length=1000)]
    memory: Proportion = 0
    tokens: Proportion = 0
    prefill_tokens: Proportion = 0
    requests: Proportion = 0
    packing: Proportion = 0
    packs: Annotated[int, Field(ge=1, le=1000)] = 1

    def spend(self, instance: Instance, budget: Budget) -> None:
        """Count the work; refuse parts above one whole, and lines that are not the cost's."""
        if len(self.functions) != len(lines(instance.cost)):
            raise InvalidCertificate(f"there are {len(lines(instance.cost))} lines, not {len(self.functions)}")
        if sum(self.functions) > UNIT or self.shared > UNIT:
            raise InvalidCertificate(f"parts of one thing add up to more than {UNIT} 1024ths")
        requests, count = len(instance.requests), len(self.functions)
        steps = min(Most.steps, sum(request.output for request in instance.requests))
        pieces = Most.pieces + sum(len(request.segments) for request in instance.requests)
        work = (1500 + 300 * count) * steps + 10_000 * pieces + 30_000 * requests
        memory = 200 * steps + 500 * pieces + 1000 * requests
        budget.spend(f"shares of {steps} steps in {count} lines", work, memory)

    @property
    def shared(self) -> int:
        """The 1024ths of the fixed part that are shared."""
        return sum(getattr(self, name) for name in RESOURCES)

    def share(self, instance: Instance, base: Fraction) -> dict[str, Fraction]:
        """Return prices, named as in `StepPrices`, at which what fits into a batch pays at most `base`."""
        machine = instance.machine
        blocks = machine.block_limit
        given = {
            "blocks": (self.memory, blocks),
            "packed": (self.packing, None if blocks is None else blocks * self.packs),
            "tokens": (self.tokens, machine.batch_tokens),
            "prefill_tokens": (self.prefill_tokens, most_prefill(instance)),
            "requests": (self.requests, machine.batch_requests),
        }
        for name, (part, limit) in given.items():
            if part and limit is None:
                raise InvalidCertificate(f"a batch without a limit on {name} cannot be shared by {name}")
        prices = {name: base * part / (UNIT * (limit or 1)) for name, (part, limit) in given.items()}
        each = prices.pop("requests")
        return prices | {"decode_requests": each, "prefill_requests": each}


class Shares(Division):
    """Every output token has a share of machine time: no batch is shorter than the shares of what is in it."""

    kind: Literal["shares"] = "shares"
    takes: ClassVar = Takes(RULES | OBJECTIVES | {Feature.SHARED, Feature.LAYOUT})
    alone: tuple[()] = ()
    windows: tuple[()] = ()
    """Always empty, as `alone`: keys of older files."""

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the best value of one interruptible machine that serves requests their shares."""
        self.spend(instance, budget)
        priced = PricedSteps(instance, self)
        if objective == "busy-time":
            return priced.busy_time()
        if objective == "makespan":
            first = instance.first_arrival
            return max(first + priced.busy_time(), priced.last(by_flow=False))
        if objective == "max-flow-time":
            return priced.last(by_flow=True)
        if objective == "late-requests":
            return priced.late()
        return priced.total(objective)

    @property
    def why(self) -> str:
        """The argument."""
        parts = {name: getattr(self, name) for name in RESOURCES}
        shared = ", ".join(f"{part / UNIT:.0%} by {name}" for name, part in parts.items() if part) or "by nothing"
        return f"requests share the time of batches, their fixed part {shared}, and time runs once"


def most_prefill(instance: Instance) -> int:
    """Return the most tokens prefilled in one batch: the budget, what the memory holds, or all there is.

    A request in work has m + c tokens after, at most its peak. With contents several may process what is held once, and
    a window holds less than was processed.
    """
    machine = instance.machine
    less = machine.block_limit is None or instance.contents or machine.layout
    held = None if less or machine.block_limit is None else machine.block_limit * machine.block
    peaks = sum(request.peak for request in instance.requests)
    return min(limit for limit in (machine.prefill_limit, held, peaks) if limit is not None)


class PricedSteps:
    """The steps of an instance, with shares of time in units of 2^-`bits` ticks."""

    def __init__(self, instance: Instance, proof: Division) -> None:
        self.instance, self.proof = instance, proof
        self.steps = Steps(instance, proof.packs)
        self.mixed = _mixture(instance.cost, proof.functions)
        self.arrivals = [request.arrival for request in instance.requests]
        self.ticks = self.steps.ticks(instance)
        others = sum(r.call_time + r.arrival for r in instance.requests) + least_work(instance)
        check_size(sum(self.steps.sums(self.ticks)) + others)
        self.done = self._since_arrival(self.ticks + self.steps.waits)
        """Least ticks from the arrival to the end of each step's batch."""

    def divided(self, proof: Division) -> PricedSteps:
        """Return the same steps with another division, but for `packs`."""
        other = copy(self)
        other.proof, other.mixed = proof, _mixture(self.instance.cost, proof.functions)
        return other

    def _since_arrival(self, values: Integers) -> Integers:
        running = np.cumsum(values)
        before = running[self.steps.first[:-1]] - values[self.steps.first[:-1]]
        return running - np.repeat(before, np.diff(self.steps.first))

    def work(self, base: Fraction, *others: dict[str, Fraction], last: bool = False) -> tuple[Integers, int]:
        """Return the share of each step in units of 2^-bits, and bits: `base` is shared, `others` are more prices.

        `last`: only that in the last batch of a step, but for first tokens.
        """
        added = (self.proof.share(self.instance, base), *others)
        exact = {
            name: sum((prices.get(name, Fraction(0)) for prices in added), Fraction(0)) for name in StepPrices._fields
        }
        most = self.steps.most(StepPrices(**{name: ceil(price) for name, price in exact.items()}))
        check_size(most)
        bits = min(30, 62 - most.bit_length())
        scaled = StepPrices(**{name: int(price * 2**bits) for name, price in exact.items()})
        work = self.steps.last(scaled) if last else self.steps.least(scaled)
        check_size((largest := self.steps.largest(work)) >> bits)
        spare = max(0, largest.bit_length() - 62)
        return work >> spare, bits - spare

    def busy_time(self) -> Fraction:
        """Return the prices of all work, plus the fixed parts of the fewest batches."""
        base, prefill, prices = self.mixed
        work, bits = self.work(Fraction(0), prices)
        shared = Fraction(sum(self.steps.sums(work)), 2**bits) + base * self.batches() + prefill * self.prefills()
        return max(shared, Fraction(max(self.steps.sums(self.ticks))))

    def prefills(self) -> int:
        """Return the fewest batches with a prefill."""
        return -(-self.steps.prefilled() // most_prefill(self.instance))

    def shares(self, *, last: bool = False) -> tuple[Integers, int]:
        """Return the share of each step in units of 2^-bits ticks, and bits; `last` as for `work`.

        Prefill tokens share what a batch with prefills takes more.
        """
        base, prefill, prices = self.mixed
        return self.work(base, prices, {"prefill_tokens": prefill / most_prefill(self.instance)}, last=last)

    def batches(self) -> int:
        """Return the fewest batches with work: around a step they are its request's own."""
        work, bits = self.work(Fraction(1))
        done = self._since_arrival(self.steps.batches)
        pieces = self._pieces(work, bits, done - self.steps.batches, self._after(done), [0] * len(self.arrivals))
        return max(-(-largest(pieces) // (1 << bits)), int(done.max()))

    def last(self, *, by_flow: bool) -> Fraction:
        """Return the least largest completion (`by_flow`: flow time), by tails (Jackson)."""
        work, bits = self.shares()
        after = self._after(self.done)
        if by_flow:
            after = after - np.repeat(np.array(self.arrivals, dtype=np.int64), np.diff(self.steps.first))
        pieces = self._pieces(work, bits, self.done - self.ticks, after, self.arrivals)
        starts = [0] * len(self.arrivals) if by_flow else self.arrivals
        longest = max(start + int(self.done[end - 1]) for start, end in zip(starts, self.steps.first[1:], strict=True))
        return max(Fraction(largest(pieces), 2**bits), Fraction(longest))

    def _after(self, done: Integers) -> Integers:
        return np.repeat(done[self.steps.first[1:] - 1], np.diff(self.steps.first)) - done

    def _pieces(
        self, work: Integers, bits: int, before: Integers, after: Integers, arrivals: list[int]
    ) -> list[WorkPiece]:
        first = self.steps.first
        place = np.arange(len(work)) - np.repeat(first[:-1], np.diff(first))
        starts = np.flatnonzero((place % (1 + len(work) // Most.pieces) == 0) | (self.steps.waits > 0))
        owners = np.searchsorted(first, starts, side="right") - 1
        tails = after[np.append(starts[1:], len(work)) - 1]
        columns = (before[starts], tails, np.add.reduceat(work, starts), owners)
        return [
            WorkPiece((arrivals[owner] + release) << bits, -(tail << bits), amount, owner)
            for release, tail, amount, owner in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def total(self, objective: str) -> Fraction:
        """Return the least sum of weighted flow times (total-ttft: to first tokens), by mean busy times.

        A request without shares counts alone.
        """
        weights = [weight(request, objective) for request in self.instance.requests]
        goal = (self.steps.first[:-1] if objective == "total-ttft" else self.steps.first[1:] - 1).tolist()
        work, bits = self.shares()
        if objective == "total-ttft":
            work = np.where(np.isin(np.arange(len(work)), goal), work, 0)
        sums, alone = self.steps.sums(work), [int(self.done[end]) << bits for end in goal]
        order = [w / (amount or 1) for w, amount in zip(weights, sums, strict=True)]
        rank = {value: place for place, value in enumerate(sorted(set(order), reverse=True))}
        pieces = [
            piece._replace(rank=rank[order[piece.owner]])
            for piece in self._pieces(work, bits, self.done - self.ticks, self.done, self.arrivals)
            if piece.work
        ]
        total, twice = 0, zip(moments(pieces, len(sums)), self._tails(work, goal), strict=True)
        for (moment, tail), amount, arrival, own, w in zip(twice, sums, self.arrivals, alone, weights, strict=True):
            mean = (moment + (tail << bits)) // (2 * amount) - (arrival << bits) if amount else own
            total += UNIT * mean * w.numerator // w.denominator
        return Fraction(total, UNIT << bits)

    def _tails(self, work: Integers, goal: list[int]) -> list[int]:
        """For each request the sum of work times (twice) what is left after the middle of its batch."""
        least = least_work(self.instance)
        totals = []
        for start, stop, end in zip(self.steps.first[:-1].tolist(), self.steps.first[1:].tolist(), goal, strict=True):
            twice = 2 * (self.done[end] - self.done[start:stop]) + least
            totals.append(int(np.dot(work[start:stop].astype(object), twice.astype(object))))
        return totals

    def late(self) -> int:
        """Return how many are late even alone."""
        firsts, lasts = self.done[self.steps.first[:-1]].tolist(), self.done[self.steps.first[1:] - 1].tolist()
        return sum(map(Request.is_late, self.instance.requests, firsts, lasts))


def _mixture(cost: Cost, functions: tuple[int, ...]) -> tuple[Fraction, Fraction, dict[str, Fraction]]:
    base = prefill = Fraction(0)
    prices = dict.fromkeys(StepPrices._fields, Fraction(0))
    for part, line in zip(functions, lines(cost), strict=True):
        scale = Fraction(part, UNIT * line.divisor)
        base, prefill = base + scale * line.base, prefill + scale * line.prefill
        for name, price in line.prices._asdict().items():
            prices[name] += scale * price
    return base, prefill, prices
