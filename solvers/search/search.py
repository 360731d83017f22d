"""Exact search over the states at batch boundaries: an optimal schedule, and the proof that there is no better one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from solvers.search.counts import CountSearch, count_model, fitting_vectors
from solvers.search.guides import Guide
from solvers.search.layers import Pass
from solvers.search.path import schedule_of, serial_schedule
from solvers.search.prices import priced
from solvers.search.problem import Problem
from solvers.search.rules import DOMINANCE

Stopped = Literal["proved", "time limit", "memory limit", "interrupted"]
Progress = Callable[[Value, Value], None]

MEMORY_LIMIT_MB = 4000

MOST_VECTORS = 400_000
"""Fillings of the memory beyond which like requests are not counted."""

ROUNDS = 300
"""Rounds in which prices are improved."""

FIRST_WIDTHS = (30, 1_000)
"""Widths of the passes that are made before prices are set."""

WIDTHS = (30, 300, 3_000, 30_000, 10**12)
"""Widths of the passes under prices; the last one cuts nothing."""


@dataclass(frozen=True)
class SearchOutcome:
    """What the search found and proved.

    `bound` is a lower bound on the objective however the search ended; `proved` says that it equals `value`.
    """

    schedule: Schedule | None
    value: Value | None
    bound: Value
    proved: bool
    stopped: Stopped
    generated: int


def search(
    instance: Instance,
    objective: str,
    *,
    upper_bound: Schedule | None = None,
    time_limit: float | None = None,
    memory_limit_mb: int | None = None,
    progress: Progress = lambda value, bound: None,
    found: Callable[[Schedule, Value], None] = lambda schedule, value: None,
    news: Callable[[], Value | None] = lambda: None,
    dominance: tuple[str, ...] = DOMINANCE,
) -> SearchOutcome:
    """Search for an optimal schedule.

    Args:
        instance: The instance.
        objective: One of `kvcore.metrics.OBJECTIVES`.
        upper_bound: A schedule to improve on.
        time_limit: Seconds (None: no limit).
        memory_limit_mb: Memory for the states in MB (None: 4000).
        found: Called with every schedule that is better than those before, and its value.
        news: Asked for the value of a schedule that is known elsewhere; only better ones are then looked for, and
            `value` may be that of no schedule here.
        progress: Called with the best value and the lower bound, about five times a second.
        dominance: The reductions to use, of `DOMINANCE`; all give the same optimum.

    Raises:
        BadInput: the objective is unknown, or numbers exceed 64 bits.
        InvalidSchedule: `upper_bound` breaks a rule.
    """
    deadline = math.inf if time_limit is None else time.monotonic() + time_limit
    most_bytes = (MEMORY_LIMIT_MB if memory_limit_mb is None else memory_limit_mb) * 1_000_000
    return _Passes(Problem(instance, objective, dominance), deadline, most_bytes, progress, found, news).run(
        upper_bound
    )


class _Limit(Exception):
    """A limit was reached."""

    def __init__(self, why: Stopped) -> None:
        self.why = why


@dataclass
class _Passes:
    """One search: passes of growing width under better and better guides, until one cuts nothing."""

    problem: Problem
    deadline: float
    most_bytes: int
    progress: Progress
    found: Callable[[Schedule, Value], None]
    news: Callable[[], Value | None]
    reported: float = 0.0
    best: int = 0
    schedule: Schedule | None = None
    bound: int = 0
    generated: int = 0

    def run(self, upper_bound: Schedule | None) -> SearchOutcome:
        """Search, and say what came of it."""
        stopped: Stopped = "proved"
        self.hold(serial_schedule(self.problem))
        if upper_bound is not None:
            self.hold(upper_bound)
        try:
            if not self.by_counts():
                self.passes()
        except _Limit as limit:
            stopped = limit.why
        except KeyboardInterrupt:
            stopped = "interrupted"
        except MemoryError:
            stopped = "memory limit"
        value, bound = self.problem.value(self.best), self.problem.value(self.bound)
        if stopped == "proved" and value != bound:
            stopped = "memory limit"  # even the last pass cut what it could not hold
        stopped = "proved" if value == bound else stopped
        return SearchOutcome(self.schedule, value, bound, value == bound, stopped, self.generated)

    def hold(self, schedule: Schedule) -> int:
        """Keep a schedule if it is better than the one held; return the cost of the best."""
        value = objective_value(verify_schedule(self.problem.instance, schedule), self.problem.name)
        cost = int(value * self.problem.scale)
        if self.schedule is None or cost < self.best:
            self.schedule, self.best = schedule, cost
            self.found(schedule, value)
        return self.best

    def passes(self) -> None:
        """Make passes until one is exhaustive."""
        problem = self.problem
        guide = Guide(problem.objective, problem.table)
        for width in FIRST_WIDTHS:
            self.make_pass(guide, width)
            if self.bound == self.best:
                return
        assert self.schedule is not None  # the serial schedule at least
        trace = verify_schedule(problem.instance, self.schedule)
        last = trace.batches[-1].end
        better = priced(problem.objective, problem.table, problem.root(), last, self.best, ROUNDS)
        for width in WIDTHS:
            self.make_pass(better or guide, width)
            if self.bound == self.best:
                return

    def by_counts(self) -> bool:
        """Search over counts of like requests instead, where rule `counts` holds; say whether it was done."""
        problem = self.problem
        model = count_model(problem.instance, problem.name) if problem.rules.counts else None
        vectors = None if model is None else fitting_vectors(model, MOST_VECTORS)
        if vectors is None:
            return False
        counts = CountSearch(vectors, self.best, self.hold, self.check)
        try:
            counts.run()
        finally:
            self.bound = max(self.bound, counts.bound())
        return True

    def make_pass(self, guide: Guide, width: int) -> None:
        """Make one pass; keep what it finds and proves, also when it is stopped."""
        one = Pass(self.problem, guide, self.best, width, self.check)
        try:
            one.run()
        finally:
            self.generated += one.generated
            if one.path is not None:
                self.hold(schedule_of(one, one.path))
            self.bound = max(self.bound, one.bound())

    def listen(self, current: Pass | CountSearch) -> None:
        """Look only for schedules that are better than the best known elsewhere."""
        value = self.news()
        if value is not None and value * self.problem.scale < self.best:
            self.best = int(value * self.problem.scale)
        if isinstance(current, Pass) and self.best < current.best:
            current.best, current.path = self.best, None

    def check(self, current: Pass | CountSearch) -> None:
        """Raise if a limit is reached; report progress."""
        now = time.monotonic()
        if now > self.deadline:
            raise _Limit("time limit")
        if current.bytes > self.most_bytes:
            raise _Limit("memory limit")
        self.listen(current)
        if now > self.reported + 0.2:
            self.reported = now
            bound = max(self.bound, current.bound())
            self.progress(self.problem.value(current.best), self.problem.value(bound))
