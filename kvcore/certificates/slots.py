"""A search over all schedules with batches of one tick, steered by prices of slots, that the checker runs again.

Prices only say what a state is worth, and values are recomputed: wrong ones prove less (`docs/bounds.md`, "A search to
run again").
"""

from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, Bytes, InvalidCertificate, Most, Work
from kvcore.certificates.proof import Proof
from kvcore.certificates.slot_graph import local_graphs
from kvcore.certificates.slot_search import SlotSearch, Vector
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Feature, Takes
from kvcore.instance import LIMIT, Instance, Noun
from kvcore.limits import LIMITS
from kvcore.metrics import Value, scale_of

PriceRow = Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=2**16)]


class SlotPrices(Noun):
    """Prices in units of 1/`scale`, used from slot `since` on (0: the first arrival); none after a row's end."""

    since: Annotated[int, Field(ge=0, le=2**16)] = 0
    device: PriceRow = ()
    host: PriceRow = ()
    tokens: PriceRow = ()
    prefill_tokens: PriceRow = ()
    requests: PriceRow = ()

    def vector(self) -> Vector:
        """Return the prices as an array [limits, slots]."""
        rows = [getattr(self, limit.name) for limit in LIMITS]
        prices = np.zeros((len(rows), max(map(len, rows))), np.int64)
        for row, numbers in zip(prices, rows, strict=True):
            row[: len(numbers)] = numbers
        return Vector(self.since, prices)


class Slots(Proof):
    """No schedule is below `target`, in units of the objective (of 1/lcm of the outputs, for normalized-latency).

    The search takes at most `states` joint states and `tries` options.
    """

    kind: Literal["slots"] = "slots"
    takes: ClassVar = Takes(MACHINES | REQUESTS | CALLS | SUMS | {Feature.MAKESPAN, Feature.BUSY, Feature.LONGEST})
    target: Annotated[int, Field(ge=1, le=LIMIT)]
    scale: Annotated[int, Field(ge=1, le=2**30)]
    strict: bool = False
    """Whether a batch must have work or a transfer; else drops alone make one: faster, no more proved."""
    prices: Annotated[tuple[SlotPrices, ...], Field(min_length=1, max_length=2000)]
    states: Annotated[int, Field(ge=0, le=Most.joint_states)]
    tries: Annotated[int, Field(ge=0, le=Most.tries)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the target, if the search finds nothing below it."""
        if len(instance.requests) > Most.slot_requests:
            raise InvalidCertificate(f"slots take at most {Most.slot_requests} requests")
        if self.prices[0].since:
            raise InvalidCertificate("the first prices must be of use from the first slot on")
        budget.spend("the local graphs of slots", 0, Bytes.local_graphs)
        work = Work.joint_state * self.states + Work.joint_try * self.tries
        budget.spend(f"a search of {self.states} states", work, Bytes.joint_state * self.states)
        search = SlotSearch(local_graphs(instance, objective, self.strict, budget), self.target, self.scale, budget)
        for prices in self.prices:
            search.add(prices.vector())
        limits = f"{self.states} states and {self.tries} tries"
        search.run(self.states, self.tries).check(self.target, "an end", limits)
        return Fraction(self.target, scale_of(instance.requests, objective))

    @property
    def why(self) -> str:
        """The argument."""
        return (
            f"a search over all batches of one tick, with {len(self.prices)} vectors of prices, finds nothing below "
            f"in {self.states} states"
        )
