"""Prices of slots: what each request pays at least if nobody else is there, a Lagrangian bound for any number of them.

Let u[t, r] be what a schedule with batches of one tick takes of limit r in slot t, at most L[r]. For prices p >= 0,

    value >= value + sum of p (u - L) = sum over requests of (its cost + its payments) - sum of p L,

and each request costs and pays at least the value of its first state (`docs/bounds.md`, "Prices of slots").
"""

from collections import Counter
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, Bytes, Most, Work
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.certificates.slot_kernels import NEVER, values
from kvcore.certificates.slots import SlotPrices
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Takes
from kvcore.instance import Instance
from kvcore.metrics import Value, scale_of


class SlotDual(Proof):
    """Prices in units of 1/`scale` of the objective (of 1/lcm of the outputs, for normalized-latency)."""

    kind: Literal["slot-dual"] = "slot-dual"
    takes: ClassVar = Takes(MACHINES | REQUESTS | CALLS | SUMS)
    argument: ClassVar = "at these prices of slots, no request finds a cheaper way"
    scale: Annotated[int, Field(ge=1, le=2**40)]
    prices: SlotPrices

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what all requests cost and pay, less the payments for the limits."""
        if self.prices.since:
            raise InvalidCertificate("the prices must be of use from the first slot on")
        budget.spend("the local graphs of slots", 0, Bytes.local_graphs)
        prices = self.prices.vector().prices
        return PricedRequests(instance, objective, budget, prices.any(axis=1)).bound(prices, self.scale, budget)


class PricedRequests:
    """The local graphs of all requests, without their arrivals; those that differ in these alone share one.

    Limits that cannot bind count where they are `priced`.
    """

    def __init__(self, instance: Instance, objective: str, budget: Budget | None = None, priced: Any = False) -> None:
        self.instance, self.objective, origin = instance, objective, instance.first_arrival
        at_once = instance.replace(requests=tuple(one.replace(arrival=0) for one in instance.requests))
        self.local = LocalGraphs(at_once, objective, budget=budget)
        limits = np.where(priced, self.local.limits, self.local.graphs.limits)
        self.local.graphs = self.local.graphs._replace(limits=limits)
        reduced = self.local.reduced
        self.graphs = reduced.graphs._replace(deadline=np.full_like(reduced.graphs.deadline, NEVER))
        self.left = np.minimum(self.local.ticks[reduced.state], Most.slots)
        starts = np.repeat(reduced.start, self.local.counts).tolist()
        arrivals = [instance.requests[i].arrival - origin for i in self.local.members]
        self.counts = Counter(zip(starts, arrivals, strict=True))
        """By first state and arrival, counted from the first one."""

    def bound(self, prices: Any, scale: int, budget: Budget) -> Fraction:
        """Return the bound by whole prices [limits, slots]; InvalidCertificate: they prove nothing."""
        rate, slots = self.graphs.rate, prices.shape[1]
        if any(row.any() and limit < 0 for row, limit in zip(prices, self.graphs.limits, strict=True)):
            raise InvalidCertificate("there are prices of what has no limit")
        if 2 * (int(rate.max()) * scale * (slots + int(self.left.max())) + self._supply(prices)) >= NEVER:
            raise InvalidCertificate("its prices are too large: sums could exceed 64 bits")
        budget.spend(f"prices of {slots} slots", Work.value * slots * (len(rate) + len(self.graphs.next)), Bytes.rows)
        total, rows, step = -self._supply(prices), self.after(slots, scale)[None], max(1, Bytes.rows // 8 // len(rate))
        for (start, arrival), count in self.counts.items():
            total -= count * scale * int(rate[start]) * arrival
            if arrival >= slots:
                total += count * scale * int(rate[start]) * (arrival + int(self.left[start]))
        for stop in range(slots, 0, -step):
            since = max(0, stop - step)
            rows = values(self.graphs, prices[:, :stop], since, scale, rows[0])
            for (start, arrival), count in self.counts.items():
                if since <= arrival < stop:
                    total += count * int(rows[arrival - since, start])
        return Fraction(total, scale * scale_of(self.instance.requests, self.objective))

    def after(self, slots: int, scale: int) -> Any:
        """Return the values of states after the last priced slot, where time alone costs."""
        return np.where(self.graphs.over, 0, self.graphs.rate * scale * (slots + self.left))

    def _supply(self, prices: Any) -> int:
        limits = self.graphs.limits.tolist()
        return sum(max(0, limit) * sum(row.tolist()) for limit, row in zip(limits, prices, strict=True))
