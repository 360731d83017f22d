"""The way to an optimum of a rigid instance by its linear program: lists, cliques, branch and bound."""

from __future__ import annotations

import sys
import time

import numpy as np

from kvcore.result import BoundKind
from solvers.start_time.lists import by_area
from solvers.start_time.prices import SCALE, StartColumns
from solvers.start_time.problem import Jobs, RigidProblem
from solvers.start_time.program import Relaxation, close, relax
from solvers.task import NEWS, Bound, Done, Found, Send, Stop, Task

MOST_COLUMNS = 1_000_000
"""Starts, over all kinds, that a linear program is built for."""

COMPILING = 20.0
"""Seconds that the compiled search for schedules may take to load where it was never used before."""
SHARE = {"lists": 0.04, "program": 0.12}
"""Of the time limit, what each step may take at most."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; schedules and bounds are sent as they come."""
    return Done(StartTimeSolver(task, send).run())


class StartTimeSolver:
    """One solve: the best schedule as `jobs`, its `value`, a lower `bound`, and whether that is HiGHS's word."""

    def __init__(self, task: Task, send: Send) -> None:
        self.task, self.send = task, send
        self.problem = RigidProblem(task.instance, task.objective)
        self.deadline = time.process_time() + task.time_limit
        self.least = sum(kind.count * kind.rate * kind.span for kind in self.problem.kinds)
        self.value, self.bound, self.by_solver = sys.maxsize, self.least, False
        self.jobs: Jobs = []

    def run(self) -> Stop:
        """Solve, and say why it stopped."""
        self.send(Bound(self.bound, "search"))
        self.hold(by_area(self.problem))
        self.improve(min(2.0, SHARE["lists"] * self.task.time_limit))
        stopped = self._prove()
        return "proved" if self.bound >= self.value else stopped

    def hold(self, jobs: Jobs) -> None:
        """Keep these starts if they are the best so far."""
        value = self.problem.value(jobs)
        if value < self.value:
            self.value, self.jobs = value, jobs
            self.send(Found(self.problem.schedule(jobs), value))

    def improve(self, seconds: float) -> None:
        """Search around the best schedule for so long, unless little time was given: compiling may take longer."""
        if self.task.time_limit < COMPILING:
            return
        from solvers.neighbourhoods import improve  # only now: compiled code takes a second to load

        instance, start = self.task.instance, self.problem.schedule(self.jobs)
        found = improve(instance, self.task.objective, start, seconds=seconds, seed=self.task.seed)
        ticks: dict[str, int] = {}
        for batch in found.batches:
            for id in batch.work:
                ticks.setdefault(id, batch.start - instance.first_arrival)
        self.hold([(k, ticks[id]) for k, kind in enumerate(self.problem.kinds) for id in kind.ids])

    def raise_bound(self, scaled: int) -> None:
        """Take in a bound, scaled."""
        self.tighten(-(-scaled // SCALE), "search")

    def tighten(self, bound: int, kind: BoundKind) -> None:
        """Take in a bound on what is better than the best schedule, here or elsewhere: above it nothing is learnt."""
        if NEWS.value is not None:
            self.value = min(self.value, int(NEWS.value))
        bound = min(self.value, bound)
        if bound > self.bound:
            self.bound, self.by_solver = bound, kind == "solver"
            self.send(Bound(bound, kind))

    def until(self, step: str) -> float:
        """Return when this step has to end."""
        return min(self.deadline, time.process_time() + SHARE[step] * self.task.time_limit)

    def _prove(self) -> Stop:
        columns = StartColumns(self.problem, self.horizon())
        if len(columns) > MOST_COLUMNS:
            return "memory limit"
        relaxation = relax(columns, self.value - 1, self.until("program"), self.raise_bound)
        if relaxation is None or self.bound >= self.value:
            return "time limit"
        self.improve(min(60.0, SHARE["lists"] * 2 * self.task.time_limit))
        return self._close(relaxation, columns)

    def horizon(self) -> int:
        """Return a tick by which some optimal schedule ends, if there is one better than the best known.

        After the last release no tick before its end is idle, and each start leaves room in the value for the least
        that all others cost.
        """
        kinds = self.problem.kinds
        spare = max(kind.release + (self.value - self.least) // kind.rate + kind.length for kind in kinds)
        return min(spare, max(kind.release for kind in kinds) + sum(kind.count * kind.length for kind in kinds))

    def _close(self, relaxation: Relaxation, columns: StartColumns) -> Stop:
        def learn(bound: float) -> None:
            if abs(bound) < 1e20:
                self.tighten(int(np.ceil(bound - 1e-6)), "solver")

        if close(relaxation, columns, self.value - 1, self.deadline, self.hold, learn):
            learn(float(self.value))
            return "proved"
        return "time limit"
