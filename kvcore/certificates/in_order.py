"""Prices in order: the tokens of a request come one after another, each at a speed of its own.

Definition, theorem and proof: `docs/bounds.md`, "Prices in order".
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, inf
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most
from kvcore.certificates.proof import Known, Proof, cases_of
from kvcore.certificates.steps import lines
from kvcore.certificates.tokens import chain_of
from kvcore.compiled import compiled
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Name, Noun, Request
from kvcore.metrics import Value, least_value, scale_of, weight

FINE = 1024
"""A unit pays whole parts of 1/1024 of a tick, times the price."""
MOST = 2**62
"""Sums over one request stay below this."""

Integers = npt.NDArray[np.int64]
Prices = Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=2**18)]


class Split(Noun):
    """Two cases: by the end of `slot`, `request` has done at most `units` units, or at least as many."""

    request: Name
    slot: Annotated[int, Field(ge=0, le=2**18)]
    units: Annotated[int, Field(ge=0, le=2**50)]


class InOrder(Proof):
    """Prices of the time of batches, `price` / `scale` in each slot of time, which has room for `most` units a request.

    Or prices of cases: a split precedes all of its first case (at most `units`), then all of the other.
    `line` is the number of the line (`steps.lines`), `packs` the k of the dual feasible function of blocks (0: linear).
    """

    kind: Literal["in-order"] = "in-order"
    takes: ClassVar = Takes(RULES | SUMS)
    argument: ClassVar = "tokens of a request come one after another and pay for the time of their batches"
    line: Annotated[int, Field(ge=0)] = 0
    packs: Annotated[int, Field(ge=0, le=1000)] = 0
    most: Annotated[int, Field(ge=1, le=2**20)] = 1
    scale: Annotated[int, Field(ge=1, le=2**30)]
    price: Prices | Annotated[tuple[Split | Prices, ...], Field(max_length=Most.nodes)]

    @property
    def nodes(self) -> Sequence[Any]:
        """Its prices, or those of its cases after their splits."""
        return self.price if isinstance(next(iter(self.price), 0), tuple | Split) else (self.price,)

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what all requests least take and pay, less all that batches can be paid, in the worst case."""
        cases = [*cases_of(self.nodes, Split, budget)]
        if any(isinstance(each, Split) and each.request not in instance.index for each in self.nodes):
            raise InvalidCertificate("a split is of no request")
        units, totals = Units(instance, objective, self), [0] * len(cases)
        for price, known in cases:
            units.spend(len(price), budget)
            budget.spend("its cases", 100 * len(known) * len(instance.requests))
        for request in instance.requests:
            chain = units.chain(request)
            for c, (price, known) in enumerate(cases):
                those = [each for each in known if each.branch.request == request.id]
                totals[c] += units.least(chain, limited(chain, price, those))[0]
        found = [units.value(total, price) for total, (price, _) in zip(totals, cases, strict=True) if total < inf]
        return least_value(min(found), objective)


class Chain(NamedTuple):
    """The units of a request: those of run j, between two calls, from `begin[j]` up to `begin[j + 1]`.

    The first k pay `paid[k]` at a price of 1; `wait[j]` is the call after run j; a unit of time costs `rate`.
    """

    paid: Integers
    begin: Integers
    wait: Integers
    rate: int
    arrival: int


class Limited(NamedTuple):
    """The prices of a case, and the `low`est and `high`est number of units that a request has done before each slot."""

    price: Integers
    low: Integers
    high: Integers


def limited(chain: Chain, price: Sequence[int] | Integers, known: Sequence[Known] = ()) -> Limited:
    """Return the prices of a case with the limits of a request: first cases of splits give the most units."""
    most, ends = len(chain.paid) - 1, len(price) + 1
    low, high = np.zeros(ends, dtype=np.int64), np.full(ends, most)
    for split, is_most in known:
        if is_most:
            high[: split.slot + 2] = np.minimum(high[: split.slot + 2], split.units)
        else:
            low[split.slot + 1 :] = np.maximum(low[split.slot + 1 :], min(most, split.units))
    return Limited(np.array(price, dtype=np.int64), low, high)


class Units:
    """The units of all requests, each no shorter than `each`, in slots of `slot`; time is in 1/divisor ticks."""

    def __init__(self, instance: Instance, objective: str, proof: InOrder) -> None:
        """Raise InvalidCertificate where there is no such line, or it is 0."""
        found, machine = lines(instance.cost), instance.machine
        if proof.line >= len(found):
            raise InvalidCertificate(f"there is no line {proof.line}: the cost has {len(found)}")
        line = found[proof.line]
        given = line.base, line.prices.tokens, line.divisor
        self.base, self.token, self.divisor = (each // gcd(*given) for each in given)
        self.each = self.base + self.token
        if self.each == 0:
            raise InvalidCertificate(f"line {proof.line} gives batches no time")
        self.instance, self.objective, self.proof, self.slot = instance, objective, proof, proof.most * self.each
        self.blocks, self.parts = machine.block_limit, max(1, proof.packs) * (machine.block_limit or 1)
        self.unit = scale_of(instance.requests, objective)
        prices = [each for each in proof.nodes if isinstance(each, tuple)]
        self.slots, self.dearest = max(map(len, prices)), max(max(price, default=1) for price in prices)

    def count(self, tokens: int) -> int:
        """Return the units of an output token by its fresh tokens."""
        return (self.base + self.token * tokens) // self.each

    def spend(self, slots: int, budget: Budget) -> None:
        """Count the work before it is done."""
        for request in self.instance.requests:
            budget.spend("output tokens in order", 4000 * (1 if self.objective == "total-ttft" else request.output))
            tokens = chain_of(request, self.objective)
            units, runs = sum(self.count(new) for new, _ in tokens), 1 + sum(wait > 0 for _, wait in tokens)
            cells = (slots + 1) * (units + 1 + runs * (self.proof.most + 1))
            budget.spend("prices in order", 4 * self.proof.most * cells, 8 * cells + 32 * units)

    def packed(self, context: int) -> int:
        """Return the dual feasible function of a context's blocks, times `parts`."""
        k, most = self.proof.packs, self.blocks
        if most is None:
            return 0
        held = self.instance.machine.blocks(context)
        return max(1, k) * held if k == 0 or (k + 1) * held % most == 0 else (k + 1) * held // most * most

    def chain(self, request: Request) -> Chain:
        """Return the units of a request."""
        context, pays, counts, begin, wait = 0, list[int](), list[int](), [0], list[int]()
        for new, call in chain_of(request, self.objective):
            context += new
            count = self.count(new)
            work = self.base * self.packed(context) + self.token * new * self.parts
            pays.append(FINE * work // (self.parts * count))
            counts.append(count)
            if call:
                begin.append(sum(counts))
                wait.append(call * self.divisor)
        rate = int(self.unit * weight(request, self.objective)) * self.proof.scale * FINE
        arrival = (request.arrival - self.instance.first_arrival) * self.divisor
        most = max(1, self.dearest) * sum(pay * count for pay, count in zip(pays, counts, strict=True))
        ends = self.slots * self.slot + self.each * sum(counts) + sum(wait) + arrival
        if most + rate * ends >= MOST:
            raise InvalidCertificate("numbers are too large to be added up")
        paid = np.concatenate(([0], np.cumsum(np.repeat(np.array(pays, dtype=np.int64), counts))))
        return Chain(paid, np.array([*begin, sum(counts)]), np.array([*wait, 0]), rate, arrival)

    def least(self, chain: Chain, case: Limited) -> tuple[Any, Any, Any]:
        """Return the least that a request takes and pays from its arrival on, and the tables of it (`fill`).

        Infinity: no plan is as the case says.
        """
        slots, count, most = len(case.price), len(chain.paid) - 1, self.proof.most
        left = self.each * np.arange(count, -1, -1)
        left[:-1] += np.repeat(np.cumsum(chain.wait[::-1])[::-1], np.diff(chain.begin))
        s = chain.arrival // self.slot
        if case.low[min(s, slots)] > 0:
            return inf, None, None
        if s >= slots:
            return chain.rate * int(left[0]), None, None
        values = np.empty((slots + 1, count + 1), dtype=np.int64)
        values[slots] = chain.rate * (slots * self.slot + left)
        values[slots, : case.low[slots]] = values[slots, case.high[slots] + 1 :] = MOST
        starts = np.empty((slots, len(chain.wait), most + 1), dtype=np.int64)
        fill(values, starts, chain, case, most, self.each)
        room = min(most, -(-((s + 1) * self.slot - chain.arrival) // self.each))
        found = int(starts[s, 0, room])
        return found - chain.rate * chain.arrival if found < MOST else inf, values, starts

    def value(self, total: int, price: Sequence[int]) -> Fraction:
        """Return the bound where all requests take and pay `total`."""
        supply = self.slot * FINE * sum(price)
        return Fraction(total - supply, self.proof.scale * FINE * self.divisor * self.unit)


@compiled
def fill(values, starts, chain, case, most, each):  # type: ignore[no-untyped-def]
    """Fill in the least cost from slot s on: with k units done, and at the begin of run j with room for g in slot s."""
    units, slot, price = len(chain.paid) - 1, most * each, case.price
    for s in range(len(price) - 1, -1, -1):
        j = len(chain.wait) - 1
        for k in range(units - 1, -1, -1):
            while k < chain.begin[j]:
                j -= 1
            best, end, inside = values[s + 1, k], chain.begin[j + 1], case.low[s] <= k <= case.high[s]
            for g in range(most + 1 if inside or k == chain.begin[j] else 0):
                at = k + g
                if g > 0 and at <= end:
                    cost = price[s] * (chain.paid[at] - chain.paid[k])
                    cost += after(values, starts, chain, case, s, j, at, s * slot + g * each, each, slot, most)
                    best = min(best, cost)
                if k == chain.begin[j]:
                    starts[s, j, g] = best
                elif at >= end:
                    break
            values[s, k] = best if inside else MOST


@compiled
def after(values, starts, chain, case, s, j, at, over, each, slot, most):  # type: ignore[no-untyped-def]
    """Return the least cost after the units before `at`, the last in slot s, over at a time if it ends run j."""
    if at < chain.begin[j + 1]:
        return values[s + 1, at]
    if at > case.high[s + 1]:
        return MOST
    if at == len(chain.paid) - 1:
        return chain.rate * over
    ready = over + chain.wait[j]
    t = ready // slot
    if t >= len(values) - 1:
        return values[len(values) - 1, at]
    if at < case.low[t]:
        return MOST
    return starts[t, j + 1, min(most, ((t + 1) * slot - ready + each - 1) // each)]
