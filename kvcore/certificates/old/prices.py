"""Prices of what requests share in each slot of time: a Lagrangian bound, stronger than closed forms.

Let u[t, r] be what a schedule takes of resource r in slot t, at most the limit L[r]. For prices p[t, r] >= 0,

    value >= value + sum of p (u - L) = sum over requests of (its cost + its payments) - sum of p L,

and each request pays at least what its cheapest path does (`paths.py`). `docs/bounds.md` has the proofs.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, Work
from kvcore.certificates.old import evictions
from kvcore.certificates.old.paths import Array, Course, Ends, PriceRows, cheapest
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.features import CALLS, FLOWS, MACHINES, REQUESTS, Feature, Takes
from kvcore.instance import Instance, Machine, Request
from kvcore.limits import LIMITS
from kvcore.metrics import Value, weight

ROWS = tuple(limit for limit in LIMITS if limit.name in ("device", "host", "tokens", "requests"))
"""Limits with prices, in the order of `path_kernels.py`."""
MOST_SLOTS = 2**21

Price = Annotated[int, Field(ge=0, le=2**50)]
PriceRow = Annotated[tuple[Price, ...], Field(max_length=MOST_SLOTS)]


class Prices(Proof):
    """Prices in units of 1/`scale` of the objective, for each slot from the first arrival on; none later.

    `device` is for a block of device memory, `host` for a token there, `tokens` and `requests` for those of a batch.
    """

    kind: Literal["prices"] = "prices"
    takes: ClassVar = Takes(
        MACHINES | REQUESTS | CALLS | FLOWS,
        apart=frozenset({(Feature.PARTIAL, Feature.EVICT), (Feature.PARTIAL, Feature.CALLS)}),
    )
    scale: Annotated[int, Field(ge=1, le=2**40)]
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)]
    device: PriceRow = ()
    host: PriceRow = ()
    tokens: PriceRow = ()
    requests: PriceRow = ()
    windows: tuple[()] = ()
    """Always empty: a key of older files."""

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the costs of all cheapest paths, less those of the limits."""
        alike = kinds(instance)
        spend(budget, instance.machine, alike, self.slots)
        cheapest = self.paths(instance, objective)
        return self.bound(instance.machine, sum(count * cheapest(request) for request, count in alike.items()))

    def paths(self, instance: Instance, objective: str) -> Callable[..., int]:
        """Return a function from a request of the instance, with its `Ends`, to the cost of its cheapest path.

        Raises InvalidCertificate if the prices prove nothing.
        """
        self._check(instance)
        for request in kinds(instance):
            self._check_size(instance.machine, request, objective)
        rows = self._rows(instance.machine)
        return partial(self._cheapest, instance.machine, objective, instance.first_arrival, rows)

    def bound(self, machine: Machine, paths: int) -> Fraction:
        """Return the bound if all cheapest paths cost `paths`."""
        return Fraction(paths - self._cost_of_limits(machine), self.scale)

    @cached_property
    def _prices(self) -> dict[str, tuple[int, ...]]:
        return {limit.name: getattr(self, limit.name) for limit in ROWS}

    def _cost_of_limits(self, machine: Machine) -> int:
        return sum((limit.of(machine) or 0) * sum(self._prices[limit.name]) for limit in ROWS)

    def _cheapest(
        self, machine: Machine, objective: str, origin: int, rows: PriceRows, request: Request, ends: Ends = ()
    ) -> int:
        arrival, rate = request.arrival - origin, self._rate(request, objective)
        course = Course(machine, request)
        if machine.evict:
            return evictions.cheapest(course.route(arrival, rate, ends), machine.chunked, rows.arrays.rows)
        return cheapest(course, rows, arrival, rate, ends)

    def _rate(self, request: Request, objective: str) -> int:
        return int(weight(request, objective) * self.scale)

    def _rows(self, machine: Machine) -> PriceRows:
        device, tokens, requests = (self._row(row) for row in (self.device, self.tokens, self.requests))
        if machine.evict and machine.host_memory == 0:
            return PriceRows(device, device, tokens, requests)  # nothing can be there: no cheaper than the device
        return PriceRows(device, None if machine.host_memory is None else self._row(self.host), tokens, requests)

    def _row(self, row: tuple[int, ...]) -> Array:
        return np.array(row + (0,) * (self.slots - len(row)), np.int64)

    def _check(self, instance: Instance) -> None:
        for limit in ROWS:
            if limit.of(instance.machine) is None and self._prices[limit.name] and limit.name != "host":
                raise InvalidCertificate(f"prices of {limit.name}, which have no limit")
        longest = max(map(len, self._prices.values()))
        if longest > self.slots:
            raise InvalidCertificate(f"{longest} prices for {self.slots} slots")

    def _check_size(self, machine: Machine, request: Request, objective: str) -> None:
        course = Course(machine, request)
        longest = self.slots + course.least[0] + request.peak * machine.evict
        most = 4 * len(course.legs) * (request.peak + longest) * self._total
        if most + self._rate(request, objective) * longest >= 1 << 57:
            raise InvalidCertificate(f"its prices are too large for request {request.id}: sums could exceed 64 bits")

    @cached_property
    def _total(self) -> int:
        return sum(map(sum, self._prices.values()))

    @property
    def why(self) -> str:
        """The argument."""
        return f"at these prices of {self.slots} slots, no request finds a cheaper path"


def kinds(instance: Instance) -> Counter[Request]:
    """Return the number of requests of each kind, but for ids."""
    return Counter(request.shape for request in instance.requests)


def spend(budget: Budget, machine: Machine, alike: Iterable[Request], slots: int) -> None:
    """Count the work of cheapest paths (InvalidCertificate: too much)."""
    found = list(alike)
    calls = sum(_calls(machine, request, slots) for request in found)
    arrays = max(60, *(5 * len(request.segments) for request in found))
    budget.spend(f"prices of {slots} slots", calls * (Work.call + 4 * slots), 8 * slots * arrays)


def _calls(machine: Machine, request: Request, slots: int) -> int:
    legs = Course(machine, request).legs
    if machine.evict:
        course = Course(machine, request)
        parts = sum(leg.decode * (60 + 2 * min(course.parts(leg.held), slots)) for leg in legs)
        return parts + 60 * len(legs)
    blocks = sum(leg.decode // machine.block for leg in legs) if machine.block > 1 else 0
    return 5 * blocks + sum(80 + 2 * sum(min(start.slots, slots) for start in leg.starts) for leg in legs)
