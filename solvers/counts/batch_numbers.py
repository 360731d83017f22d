"""The search over numbers of batches: bounds for each, and passes where a bound leaves room for something better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvcore.schedule import Schedule
from solvers.counts.cost_to_go import CostToGo
from solvers.counts.layers import CountPass
from solvers.counts.model import CountOptions
from solvers.counts.path_schedule import schedule_of
from solvers.counts.pool_prices import improved, start_prices
from solvers.counts.vectors import Vectors


@dataclass
class CountsCandidate:
    """A number of batches: its bound, its costs to go, and the passes made."""

    batches: int
    bound: int
    to_go: CostToGo
    improved: bool = False
    passes: int = 0


class CountSearch:
    """Finds the least cost of a model, and a lower bound; `best` is the cost of the schedule that is held.

    `hold` takes every schedule found and returns the cost of the best one; `check` is called now and then, with the
    search, and raises to stop it. What has been proved by then stays.
    """

    def __init__(
        self, vectors: Vectors, best: int, hold: Callable[[Schedule], int], check: Callable[[CountSearch], None]
    ) -> None:
        self.vectors = vectors
        self.model = vectors.model
        self.best = best
        self.hold = hold
        self.report, self.options = check, CountOptions.given()
        self.passes = list(zip(self.options.pass_parts, self.options.pass_widths, strict=True))
        self.candidates: dict[int, CountsCandidate] = {}
        self.current: CountPass | None = None

    def run(self) -> None:
        """Search until no number of batches is left that may be better, or can be looked at more closely."""
        self.raise_bounds(CostToGo(self.vectors, start_prices(self.vectors, self.check), self.check))
        while open_ones := [c for c in self.candidates.values() if c.bound < self.best and c.passes < len(self.passes)]:
            candidate = min(open_ones, key=lambda c: (c.passes, c.bound))
            if candidate.improved:
                self.make_pass(candidate)
            else:
                self.improve(candidate)

    def check(self) -> None:
        """Let the caller stop the search."""
        self.report(self)

    @property
    def bytes(self) -> int:
        """Memory that states take."""
        return 0 if self.current is None else self.current.bytes

    def bound(self) -> int:
        """Return the least that a schedule costs, of any number of batches."""
        if self.candidates.keys() >= set(self.numbers):
            return min([self.best, *(c.bound for c in self.candidates.values())])
        return min(self.best, self.fixed(self.model.least_batches) + self.model.alone)

    @property
    def numbers(self) -> range:
        """The numbers of batches with which a better schedule could exist, as far as memory and each alone tell."""
        model = self.model
        most = (self.best - 1 - model.offset - model.alone) // model.batch
        return range(model.least_batches, most + 1)

    def fixed(self, batches: int) -> int:
        """Return what so many batches cost besides their steps."""
        return self.model.offset + batches * self.model.batch

    # --- bounds --------------------------------------------------------------------------------------------------

    def raise_bounds(self, to_go: CostToGo) -> None:
        """Bound every number of batches by the costs to go given."""
        for batches in self.numbers:
            bound = to_go.at_start(batches) + self.fixed(batches)
            candidate = self.candidates.get(batches)
            if candidate is None or (candidate.bound < bound and not candidate.improved):
                self.candidates[batches] = CountsCandidate(batches, bound, to_go)

    def improve(self, candidate: CountsCandidate) -> None:
        """Improve the prices of one number of batches, and with them the bounds of the others."""
        fixed = self.fixed(candidate.batches)
        to_go = improved(candidate.to_go, (candidate.batches,), self.best - self.model.offset, self.rounds)
        candidate.improved = True
        candidate.to_go = to_go
        candidate.bound = max(candidate.bound, to_go.at_start(candidate.batches) + fixed)
        self.raise_bounds(to_go)

    @property
    def rounds(self) -> int:
        """Evaluations of the bound in one improvement, fewer where each takes long."""
        rounds = self.options.rounds
        return rounds if len(self.vectors) <= self.options.many_vectors else rounds // 6

    # --- passes --------------------------------------------------------------------------------------------------

    def make_pass(self, candidate: CountsCandidate) -> None:
        """Make the next pass of one number of batches; keep what it finds and proves."""
        part, width = self.passes[candidate.passes]
        fixed = self.fixed(candidate.batches)
        cutoff = self.best - 1
        if part:
            cutoff = min(cutoff, candidate.bound + self.model.batch // part)
        one = self.current = CountPass(candidate.to_go, candidate.batches, cutoff - fixed, width, self.check)
        path = one.run()
        schedule = None if path is None else schedule_of(one, path)
        if schedule is not None:
            self.best = min(self.best, self.hold(schedule))
        self.current = None
        candidate.passes += 1
        candidate.bound = max(candidate.bound, one.bound + fixed)
