"""The search over numbers of batches: bounds for each, and passes where a bound leaves room for something better."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kvbound.metrics import objective_value
from kvbound.schedule import Schedule
from kvbound.validator import verify_schedule
from solvers.counts.layers import Pass
from solvers.counts.prices import first_prices, improved
from solvers.counts.read import schedule_of
from solvers.counts.togo import NEVER, Togo
from solvers.counts.vectors import Vectors

Stopped = Literal["proved", "time limit", "memory limit", "interrupted"]


ROUNDS = 60
"""Evaluations of the bound in which the prices of one number of batches are improved."""

PASSES = ((100, 1_000), (30, 3_000), (10, 10_000), (3, 30_000), (1, 100_000), (1, 10**12), (0, 10**12))
"""How far a pass may go above the bound, as a part of a batch's cost (0: as far as it takes), and its width."""


class OutOfTimeError(Exception):
    """The time is up, or the memory."""


@dataclass
class Candidate:
    """A number of batches: its bound (batches included), its costs to go, and the passes made."""

    batches: int
    bound: int
    togo: Togo
    improved: bool = False
    passes: int = 0
    settled: bool = False


@dataclass
class Outcome:
    """A schedule, its cost in ticks of batches, and the least that any schedule costs."""

    schedule: Schedule
    cost: int
    bound: int = 0
    expanded: int = 0
    why: Stopped = "proved"


def minimise(
    vectors: Vectors,
    schedule: Schedule,
    *,
    deadline: float | None = None,
    most_bytes: int = 4_000_000_000,
    report: Callable[[Outcome], None] = lambda _: None,
) -> Outcome:
    """Find the least busy time of a model, starting from a valid schedule.

    Args:
        vectors: The fillings of the memory, of `fitting_vectors`.
        schedule: A schedule to improve on.
        deadline: When to stop (`time.monotonic`).
        most_bytes: Memory for states.
        report: Called with what is known, now and then and whenever something better was found.
    """
    return _Run(vectors, schedule, deadline, most_bytes, report).outcome()


class _Run:
    def __init__(
        self,
        vectors: Vectors,
        schedule: Schedule,
        deadline: float | None,
        most_bytes: int,
        report: Callable[[Outcome], None],
    ) -> None:
        self.vectors = vectors
        self.model = vectors.model
        self.deadline = deadline
        self.most_bytes = most_bytes
        self.report = report
        self.held = Outcome(schedule, self.value(schedule))
        self.candidates: dict[int, Candidate] = {}

    def value(self, schedule: Schedule) -> int:
        """Return the busy time of a schedule; the referee computes it."""
        return int(objective_value(verify_schedule(self.model.instance, schedule), "busy-time"))

    def outcome(self) -> Outcome:
        """Search, and say what came of it."""
        try:
            self.raise_bounds(Togo(self.vectors, first_prices(self.model)))
            self.close()
        except OutOfTimeError:
            self.held.why = "time limit"
        except MemoryError:
            self.held.why = "memory limit"
        except KeyboardInterrupt:
            self.held.why = "interrupted"
        self.tell()
        return self.held

    def tell(self) -> None:
        """Report what is known."""
        self.held.bound = max(self.held.bound, self.bound())
        self.report(self.held)

    def check(self, current: Pass | None = None) -> None:
        """Stop at a limit; report."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTimeError
        if current is not None and current.bytes > self.most_bytes:
            raise MemoryError
        self.tell()

    # --- numbers of batches --------------------------------------------------------------------------------------

    @property
    def most_batches(self) -> int:
        """The batches above which every schedule costs at least as much as the one held."""
        return (self.held.cost - 1 - self.model.alone) // self.model.batch

    def bound(self) -> int:
        """Return the least that a schedule costs, of any number of batches."""
        if self.candidates.keys() >= set(range(self.model.least_batches, self.most_batches + 1)):
            return min([self.held.cost, *(c.bound for c in self.candidates.values())])
        return self.model.alone + self.model.batch

    def raise_bounds(self, togo: Togo) -> None:
        """Bound every number of batches with which a better schedule could exist, by the costs to go given."""
        for batches in range(self.model.least_batches, self.most_batches + 1):
            self.check()
            bound = togo.at_start(batches) + batches * self.model.batch
            candidate = self.candidates.get(batches)
            if candidate is None or candidate.bound < bound and not candidate.improved:
                self.candidates[batches] = Candidate(batches, bound, togo)
        self.tell()

    def close(self) -> None:
        """Improve prices and make wider and wider passes, until no bound is below the cost held."""
        while open_ones := [c for c in self.candidates.values() if c.bound < self.held.cost and not c.settled]:
            candidate = min(open_ones, key=lambda c: (c.passes, c.bound))
            if candidate.improved:
                self.make_pass(candidate)
            else:
                self.improve(candidate)

    def _target(self, batches: int) -> int:
        return self.held.cost - batches * self.model.batch

    def improve(self, candidate: Candidate) -> None:
        """Improve the prices of one number of batches, and with them the bounds of the others."""
        n = candidate.batches
        bound, togo = improved(self.vectors, candidate.togo.prices, n, self._target(n), ROUNDS, self.check)
        candidate.improved = True
        if bound + n * self.model.batch > candidate.bound:
            candidate.togo = togo
            candidate.bound = bound + n * self.model.batch
        self.raise_bounds(togo)

    def make_pass(self, candidate: Candidate) -> None:
        """Make the next pass of one number of batches; keep what it finds and proves."""
        fixed = candidate.batches * self.model.batch
        part, width = PASSES[candidate.passes]
        cutoff = self.held.cost - 1
        if part:
            cutoff = min(cutoff, candidate.bound + self.model.batch // part)
        one = Pass(candidate.togo, candidate.batches, cutoff - fixed, width, self.check)
        path = one.run()
        self.held.expanded += one.expanded
        if path is not None and (schedule := schedule_of(one, path)) is not None:
            self.hold(schedule)
        candidate.passes += 1
        candidate.settled = candidate.passes == len(PASSES)
        candidate.bound = max(candidate.bound, one.bound + fixed)
        self.tell()

    def hold(self, schedule: Schedule) -> None:
        """Keep a schedule if it is better than the one held."""
        cost = self.value(schedule)
        if cost < self.held.cost:
            self.held.schedule, self.held.cost = schedule, cost
