"""Prices of what requests share in each slot of time: a Lagrangian bound, stronger than closed forms.

Let u[t, r] be what a schedule takes of resource r in slot t, at most the limit L[r]. For prices p[t, r] >= 0,

    value >= value + sum of p (u - L) = sum over requests of (its cost + its payments) - sum of p L,

and each request pays at least what its cheapest path does (`paths.py`). `docs/bounds.md` has the proofs.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property, partial
from typing import Annotated

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, Most, Work
from kvcore.certificates.old.paths import Array, Course, Ends, PriceRows, cheapest
from kvcore.certificates.proof import InvalidCertificate
from kvcore.instance import Instance, Machine, Noun, Request
from kvcore.limits import LIMITS
from kvcore.metrics import weight

ROWS = tuple(limit for limit in LIMITS if limit.name in ("device", "host", "tokens"))
"""Limits with prices, in the order of `path_kernels.py`."""

Price = Annotated[int, Field(ge=0, le=2**50)]
PriceRow = Annotated[tuple[Price, ...], Field(max_length=Most.tree_slots)]


class Prices(Noun):
    """Prices in units of 1/`scale` of the objective, for each slot from the first arrival on; none later.

    `device` and `host` are for a token of memory there, `tokens` for one of a batch.
    """

    kind: Annotated[str, Field(pattern="^prices$")] = "prices"
    scale: Annotated[int, Field(ge=1, le=2**40)]
    slots: Annotated[int, Field(ge=1, le=Most.tree_slots)]
    device: PriceRow = ()
    host: PriceRow = ()
    tokens: PriceRow = ()
    requests: tuple[()] = ()
    windows: tuple[()] = ()
    """Always empty, as `requests`: keys of older files."""

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
        return cheapest(Course(machine, request), rows, arrival, rate, ends)

    def _rate(self, request: Request, objective: str) -> int:
        return int(weight(request, objective) * self.scale)

    def _rows(self, machine: Machine) -> PriceRows:
        host = None if machine.host_memory is None else self._row(self.host)
        return PriceRows(self._row(self.device), host, self._row(self.tokens))

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
        longest = self.slots + course.least[0]
        most = 4 * len(course.legs) * (request.peak + longest) * self._total
        if most + self._rate(request, objective) * longest >= 1 << 57:
            raise InvalidCertificate(f"its prices are too large for request {request.id}: sums could exceed 64 bits")

    @cached_property
    def _total(self) -> int:
        return sum(map(sum, self._prices.values()))


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
    return sum(80 + 2 * sum(min(start.slots, slots) for start in leg.starts) for leg in legs)
