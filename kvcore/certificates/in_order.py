"""Prices in order: the tokens of a request come one after another, each at a speed of its own.

Definition, theorem and proof: `docs/bounds.md`, "Prices in order".
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.proof import Proof
from kvcore.certificates.steps import lines
from kvcore.certificates.tokens import chain_of
from kvcore.compiled import compiled
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value, least_value, scale_of, weight

FINE = 1024
"""A unit pays whole parts of 1/1024 of a tick, times the price."""
MOST = 2**62
"""Sums over one request stay below this."""

Integers = npt.NDArray[np.int64]


class InOrder(Proof):
    """Prices of the time of batches, `price` / `scale` in each slot of time, which has room for `most` units a request.

    `line` is the number of the line (`steps.lines`), `packs` the k of the dual feasible function of blocks (0: linear).
    """

    kind: Literal["in-order"] = "in-order"
    takes: ClassVar = Takes(RULES | SUMS)
    argument: ClassVar = "tokens of a request come one after another and pay for the time of their batches"
    line: Annotated[int, Field(ge=0)] = 0
    packs: Annotated[int, Field(ge=0, le=1000)] = 0
    most: Annotated[int, Field(ge=1, le=2**20)] = 1
    scale: Annotated[int, Field(ge=1, le=2**30)]
    price: Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=2**18)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what all requests least take and pay, less all that batches can be paid."""
        units = Units(instance, objective, self)
        units.spend(budget)
        price = np.array(self.price, dtype=np.int64)
        total = sum(units.least(units.chain(request), price).cost for request in instance.requests)
        return least_value(units.value(total), objective)


class Chain(NamedTuple):
    """The units of a request: those of run j, between two calls, from `begin[j]` up to `begin[j + 1]`.

    The first k pay `paid[k]` at a price of 1; `wait[j]` is the call after run j; a unit of time costs `rate`.
    Of a run a slot has room for `room` units.
    """

    paid: Integers
    begin: Integers
    wait: Integers
    rate: int
    arrival: int
    room: int


class Least(NamedTuple):
    """What a request takes and pays from its arrival on, and the tables of it (`fill`), if it has any."""

    cost: int
    values: Any = None
    starts: Any = None


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

    def count(self, tokens: int) -> int:
        """Return the units of an output token by its fresh tokens."""
        return (self.base + self.token * tokens) // self.each

    def spend(self, budget: Budget) -> None:
        """Count the work before it is done."""
        for request in self.instance.requests:
            budget.spend("output tokens in order", 4000 * (1 if self.objective == "total-ttft" else request.output))
            tokens = chain_of(request, self.objective)
            units, runs = sum(self.count(new) for new, _ in tokens), 1 + sum(wait > 0 for _, wait in tokens)
            room = min(self.proof.most, units)
            cells = (len(self.proof.price) + 1) * (units + 1 + runs * (room + 1))
            budget.spend("prices in order", 4 * room * cells, 8 * cells + 32 * units)

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
        most = max((1, *self.proof.price)) * sum(pay * count for pay, count in zip(pays, counts, strict=True))
        ends = len(self.proof.price) * self.slot + self.each * sum(counts) + sum(wait) + arrival
        if most + rate * ends >= MOST:
            raise InvalidCertificate("numbers are too large to be added up")
        paid = np.concatenate(([0], np.cumsum(np.repeat(np.array(pays, dtype=np.int64), counts))))
        starts = np.array([*begin, sum(counts)])
        room = min(self.proof.most, int(np.diff(starts).max()))
        return Chain(paid, starts, np.array([*wait, 0]), rate, arrival, room)

    def least(self, chain: Chain, price: Integers) -> Least:
        """Return the least that a request takes and pays from its arrival on."""
        slots, count = len(price), len(chain.paid) - 1
        left = self.each * np.arange(count, -1, -1)
        left[:-1] += np.repeat(np.cumsum(chain.wait[::-1])[::-1], np.diff(chain.begin))
        s = chain.arrival // self.slot
        if s >= slots:
            return Least(chain.rate * int(left[0]))
        values = np.zeros((slots + 1, count + 1), dtype=np.int64)
        values[slots] = chain.rate * (slots * self.slot + left)
        starts = np.empty((slots, len(chain.wait), chain.room + 1), dtype=np.int64)
        fill(values, starts, chain, price, self.slot, self.each)
        room = min(chain.room, -(-((s + 1) * self.slot - chain.arrival) // self.each))
        return Least(int(starts[s, 0, room]) - chain.rate * chain.arrival, values, starts)

    def value(self, total: int) -> Fraction:
        """Return the bound where all requests take and pay `total`."""
        supply = self.slot * FINE * sum(self.proof.price)
        return Fraction(total - supply, self.proof.scale * FINE * self.divisor * self.unit)


@compiled
def fill(values, starts, chain, price, slot, each):  # type: ignore[no-untyped-def]
    """Fill in the least cost from slot s on: with k units done, and at the begin of run j with room for g in slot s."""
    for s in range(len(price) - 1, -1, -1):
        j = len(chain.wait) - 1
        for k in range(len(chain.paid) - 2, -1, -1):
            while k < chain.begin[j]:
                j -= 1
            best, end = values[s + 1, k], chain.begin[j + 1]
            for g in range(chain.room + 1):
                at = k + g
                if g > 0 and at <= end:
                    cost = price[s] * (chain.paid[at] - chain.paid[k])
                    best = min(best, cost + after(values, starts, chain, s, j, at, g, slot, each))
                if k == chain.begin[j]:
                    starts[s, j, g] = best
                elif at >= end:
                    break
            values[s, k] = best


@compiled
def after(values, starts, chain, s, j, at, g, slot, each):  # type: ignore[no-untyped-def]
    """Return the least cost after the units before `at`, the last g in slot s."""
    if at < chain.begin[j + 1]:
        return values[s + 1, at]
    over = s * slot + g * each
    if at == len(chain.paid) - 1:
        return chain.rate * over
    ready = over + chain.wait[j]
    t = ready // slot
    if t >= len(values) - 1:
        return values[len(values) - 1, at]
    return starts[t, j + 1, min(chain.room, ((t + 1) * slot - ready + each - 1) // each)]
