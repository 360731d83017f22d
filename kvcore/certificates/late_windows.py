"""Overlapping windows of time, each with more work than time: who in them must be late.

`docs/bounds.md` has the proof ("Too much for a window"). Integers: work is rounded down, time up.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.shares import Division, PricedSteps, Tick
from kvcore.certificates.steps import Integers
from kvcore.features import RULES, Feature, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value

ONE = 2**20
"""Unit of weights and excess."""
NEVER = 2**62
"""Due time of work that has none."""

Weight = Annotated[int, Field(ge=0, le=2**40)]


class LateWindows(Division):
    """Windows in which too many requests are due: `rows` are start, end, and two weights in 2^-20.

    They weigh the inequalities by work and by the number of requests.
    """

    kind: Literal["late-windows"] = "late-windows"
    takes: ClassVar = Takes(RULES | {Feature.LATE, Feature.SHARED})
    rows: Annotated[tuple[tuple[Tick, Tick, Weight, Weight], ...], Field(max_length=1_000_000)] = ()

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return how many are late alone, plus those by the windows together, rounded up."""
        if sum(by_work + by_count for *_, by_work, by_count in self.rows) >= Most.window_weight:
            raise InvalidCertificate("the weights of windows are above 2^21 together")
        if any(start > end for start, end, *_ in self.rows):
            raise InvalidCertificate("a window must not end before it begins")
        self.spend(instance, budget)
        budget.spend("rows of windows", len(self.rows) * (20 * Work.call + Work.window * len(instance.requests)))
        return self.late(due_work(PricedSteps(instance, self)))

    def late(self, work: DueWork) -> int:
        """Return the same, given the work."""
        gained, weights = 0, np.zeros(len(work.arrival), dtype=np.int64)
        for start, end, by_work, by_count in self.rows:
            inside = work.inside(start, end)
            too_much = int(inside.sum()) - work.units(end - start)
            if too_much > 0:
                parts = -(-np.minimum(inside, too_much) * ONE // too_much)
                weights += by_work * parts + by_count * ONE * (inside > 0)
                gained += ONE * (by_work + by_count * (least_number(inside, too_much) if by_count else 0))
        spared: int = sum(np.maximum(0, weights - ONE * ONE).tolist())
        return work.late + max(0, -(-(gained - spared) // ONE**2))

    @property
    def why(self) -> str:
        """The argument."""
        return f"requests that are due in {len(self.rows)} windows of time share more work than fits"


class DueWork(NamedTuple):
    """How many requests are late even alone, and arrival, work and due time of the others.

    `first` work is due at `first_due`, `whole`, the first included, at `due`: units of 2^-bits ticks.
    """

    late: int
    arrival: Integers
    first_due: Integers
    due: Integers
    first: Integers
    whole: Integers
    bits: int

    def inside(self, start: int, end: int) -> Integers:
        """Return each request's work that lies between two ticks unless late."""
        chosen = np.where(self.due <= end, self.whole, np.where(self.first_due <= end, self.first, 0))
        return np.where(self.arrival >= start, chosen, 0)

    def units(self, ticks: int) -> int:
        """Return ticks in units of work, rounded up."""
        return ticks << self.bits if self.bits >= 0 else -(-ticks >> -self.bits)


def due_work(steps: PricedSteps) -> DueWork:
    """Return the due work under a division."""
    shares, bits = steps.shares()
    sums, rows, late = steps.steps.sums(shares), [], 0
    spare = max(0, sum(sums).bit_length() - 40)  # all work together is below 2^40 units
    for request, start, stop, whole in zip(
        steps.instance.requests, steps.steps.first[:-1].tolist(), steps.steps.first[1:].tolist(), sums, strict=True
    ):
        first, last = int(steps.done[start]), int(steps.done[stop - 1])
        if request.is_late(first, last):
            late += 1
            continue
        due, first_due = (NEVER if tick is None else min(tick, NEVER) for tick in deadlines(request))
        if due < NEVER:
            first_due = min(first_due, due - (last - first))
        rows.append((request.arrival, first_due, due, int(shares[start]) >> spare, whole >> spare))
    arrival, soon, late_due, begun, all_work = np.array(rows, dtype=np.int64).reshape(-1, 5).T.copy()
    return DueWork(late, arrival, soon, late_due, begun, all_work, bits - spare)


def deadlines(request: Request) -> tuple[int | None, int | None]:
    """Return the last tick in time for the end, and for the first token (None: any)."""
    first, last, between = request.slo_ticks
    paced = first + (between or 0) if first is not None and request.slo and request.slo.tpot else None
    done = min((ticks for ticks in (last, paced) if ticks is not None), default=None)
    return (None if done is None else request.arrival + done, None if first is None else request.arrival + first)


def least_number(inside: Integers, too_much: int) -> int:
    """Return how many of the largest amounts make `too_much`."""
    return int(np.searchsorted(np.cumsum(np.sort(inside)[::-1]), too_much)) + 1
