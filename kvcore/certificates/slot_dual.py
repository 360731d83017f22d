"""Prices of slots: what each request pays at least if nobody else is there, a Lagrangian bound for any number of them.

Let u[t, r] be what a schedule with batches of one tick takes of limit r in slot t, at most L[r]. For prices p >= 0,

    value >= value + sum of p (u - L) = sum over requests of (its cost + its payments) - sum of p L,

and each request costs and pays at least the value of its first state (`docs/bounds.md`, "Prices of slots").

In every schedule a request has ended a segment by a slot, or not: of two cases the least counts, each with prices of
its own. A state at the end of the slot that is not of the case has no value.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, Bytes, InvalidCertificate, Most, Work
from kvcore.certificates.proof import Known, Proof, cases_of
from kvcore.certificates.slot_graph import Graphs, LocalGraphs, of_kind
from kvcore.certificates.slot_kernels import NEVER, values
from kvcore.certificates.slots import SlotPrices
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Takes
from kvcore.instance import Instance, Name, Noun
from kvcore.limits import LIMITS
from kvcore.metrics import Value, scale_of


class Branch(Noun):
    """Two cases: `request` has ended its segment (from 0) by `slot`, counted from the first arrival, or has not."""

    request: Name
    segment: Annotated[int, Field(ge=0)]
    slot: Annotated[int, Field(ge=0, le=2**16)]


class SlotDual(Proof):
    """Prices in units of 1/`scale` of the objective (of 1/lcm of the outputs, for normalized-latency).

    Or prices of cases: a branch precedes all of the case where the segment has ended, then all of the other.
    """

    kind: Literal["slot-dual"] = "slot-dual"
    takes: ClassVar = Takes(MACHINES | REQUESTS | CALLS | SUMS)
    argument: ClassVar = "at these prices of slots, no request finds a cheaper way"
    scale: Annotated[int, Field(ge=1, le=2**40)]
    prices: SlotPrices | Annotated[tuple[Branch | SlotPrices, ...], Field(max_length=Most.nodes)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what all requests cost and pay, less the payments for the limits, in the case where it is least."""
        nodes = (self.prices,) if isinstance(self.prices, SlotPrices) else self.prices
        cases = [*cases_of(nodes, Branch, budget)]
        if any(prices.since for prices, _ in cases):
            raise InvalidCertificate("the prices must be of use from the first slot on")
        budget.spend("the local graphs of slots", 0, Bytes.local_graphs)
        priced = [any(any(getattr(prices, limit.name)) for prices, _ in cases) for limit in LIMITS]
        requests = PricedRequests(instance, objective, budget, priced)
        bounds = [requests.bound(prices.vector().prices, self.scale, budget, known) for prices, known in cases]
        return min(bound for bound in bounds if bound is not None)


class PricedRequests:
    """The local graphs of all requests, without their arrivals; those that differ in these alone share one.

    Limits that cannot bind count where they are `priced`.
    """

    def __init__(self, instance: Instance, objective: str, budget: Budget | None = None, priced: Any = False) -> None:
        self.instance, self.objective, origin = instance, objective, instance.first_arrival
        at_once = instance.replace(requests=tuple(one.replace(arrival=0) for one in instance.requests))
        self.local = LocalGraphs(at_once, objective, budget=budget)
        limits = np.where(priced, self.local.limits, self.local.graphs.limits)
        never = np.full(len(self.local.states), NEVER)
        self.local.graphs = self.local.graphs._replace(limits=limits, deadline=never)
        reduced = self.local.reduced
        self.graphs = reduced.graphs
        self.left = np.minimum(self.local.ticks[reduced.state], Most.slots)
        kinds = np.repeat(np.arange(len(self.local.spans)), self.local.counts).tolist()
        self.kind = dict(zip(self.local.members, kinds, strict=True))
        self.begins = {i: (int(reduced.start[k]), instance.requests[i].arrival - origin) for i, k in self.kind.items()}
        """First state and arrival, counted from the first one, of each request."""
        self.counts = Counter(self.begins.values())

    def bound(self, prices: Any, scale: int, budget: Budget, known: Sequence[Known] = ()) -> Fraction | None:
        """Return the bound by whole prices [limits, slots]; none if no schedule is as `known`.

        InvalidCertificate: they prove nothing.
        """
        slots = max(prices.shape[1], *(each.branch.slot + 1 for each in known), 0)
        prices = np.pad(prices, ((0, 0), (0, slots - prices.shape[1])))
        rate, apart = self.graphs.rate, defaultdict[int, list[Known]](list)
        if any(row.any() and limit < 0 for row, limit in zip(prices, self.graphs.limits, strict=True)):
            raise InvalidCertificate("there are prices of what has no limit")
        if 2 * (int(rate.max()) * scale * (slots + int(self.left.max())) + self._supply(prices)) >= NEVER:
            raise InvalidCertificate("its prices are too large: sums could exceed 64 bits")
        for each in known:
            if each.branch.request not in self.instance.index:
                raise InvalidCertificate(f"there is no request {each.branch.request}")
            apart[self.instance.index[each.branch.request]].append(each)
        counts = self.counts - Counter(self.begins[i] for i in apart)
        costs = [self._cost(self.graphs, self.left, counts, prices, scale, budget)]
        for i, those in apart.items():
            start, stop = self.local.spans[self.kind[i]]
            graphs, left = of_kind(self.local.graphs, start, stop), np.minimum(self.local.ticks[start:stop], Most.slots)
            segment = np.array([state.segment for state in self.local.states[start:stop]])
            allowed = [(each.branch.slot + 1, (segment > each.branch.segment) == each.first) for each in those]
            alone = Counter([(0, self.begins[i][1])])
            costs.append(self._cost(graphs, left, alone, prices, scale, budget, allowed))
        if inf in costs:
            return None
        unit = scale * scale_of(self.instance.requests, self.objective)
        return Fraction(sum(costs) - self._supply(prices), unit)

    def _cost(
        self, graphs: Graphs, left: Any, counts: Counter[tuple[int, int]], prices: Any, scale: int, budget: Budget,
        allowed: Sequence[tuple[int, Any]] = (),
    ) -> Any:  # fmt: skip
        """Return what requests of these first states and arrivals cost and pay, through states `allowed` at ticks."""
        rate, slots = graphs.rate, prices.shape[1]
        budget.spend(f"prices of {slots} slots", Work.value * slots * (len(rate) + len(graphs.next)), Bytes.rows)
        total: Any = 0
        for (start, arrival), count in counts.items():
            total -= count * scale * int(rate[start]) * arrival
            if arrival >= slots:
                total += count * scale * int(rate[start]) * (arrival + int(left[start]))
        pieces = range(slots, 0, -max(1, Bytes.rows // 8 // len(rate)))
        stops = sorted({0, *pieces, *(tick for tick, _ in allowed)}, reverse=True)
        rows = after(graphs, left, slots, scale)[None]
        for stop, since in pairwise(stops):
            last = rows[0]
            for states in (states for tick, states in allowed if tick == stop):
                last = np.where(states, last, NEVER)
            rows = values(graphs, prices[:, :stop], since, scale, last)
            for (start, arrival), count in counts.items():
                if since <= arrival < stop:
                    value = int(rows[arrival - since, start])
                    total += count * value if value < NEVER else inf
        return total

    def _supply(self, prices: Any) -> int:
        limits = self.graphs.limits.tolist()
        return sum(max(0, limit) * sum(row.tolist()) for limit, row in zip(limits, prices, strict=True))


def after(graphs: Graphs, left: Any, slots: int, scale: int) -> Any:
    """Return the values of states after the last priced slot, where time alone costs for the ticks `left`."""
    return np.where(graphs.over, 0, graphs.rate * scale * (slots + left))
