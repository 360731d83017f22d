"""Which formulation and solver run for an instance, and why."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from kvcore.errors import BadInput
from kvcore.instance import Instance
from solvers.lagrange.scope import late_segments
from solvers.ways import COUNTS, EVENTS, IMPROVE, LADDER, REPAIR, SLOTS, SOLVERS, START_TIME, WAYS, Way

FEW, MANY = 6, 12
"""Requests that a search takes in its stride, and beyond which it rarely proves anything soon, so that schedules are
looked for beside it (in between only where token budgets do not bind)."""

SECOND_AFTER = 1.5
"""Seconds after which a race begins, if the first has not proved its answer by then."""


WHY = {
    START_TIME: "every request runs from start to end, so that its start says all",
    SLOTS: "batches last one tick, and few requests have few joint states; what it proves is certified",
    COUNTS: "requests are alike, and their counts say all",
    EVENTS: "few requests have few joint states at batch boundaries; what it proves is certified",
    LADDER: "no exact search takes it, but lower bounds scale",
}
"""What may run first, in this order where it applies, and why."""

GONE = {("arc-flow", "highs"), ("arc-flow", "gurobi"), ("arc-flow", "lagrange"), ("auto", "lagrange")}
"""Formulations and solvers that once were ways, and now stand for `arc-flow` on `cp-sat`."""


@dataclass(frozen=True)
class Choice:
    """What will run, and why in words.

    Those of `ways` after the first start when `SECOND_AFTER` has passed, and the `reserve` once all of them have ended
    without an answer. `named`: the user named it, and hears if it declines.
    """

    ways: tuple[Way, ...]
    why: str
    reserve: tuple[Way, ...] = ()
    named: bool = True

    @property
    def delays(self) -> list[tuple[Way, float]]:
        """Return what may run, each with the seconds after which it starts although others run."""
        delays = [(way, SECOND_AFTER * (k > 0)) for k, way in enumerate(self.ways)]
        return delays + [(way, math.inf) for way in self.reserve]


def choose(instance: Instance, objective: str, formulation: str, solver: str) -> Choice:
    """Choose what runs; a formulation or solver that is named is taken at its word."""
    formulations = list(dict.fromkeys(of for of, _ in WAYS))
    if formulation not in ("auto", "search", *formulations):
        raise BadInput(f"no formulation is called {formulation!r}; there are auto, {', '.join(formulations)}")
    if solver not in ("auto", "search", "lagrange", *SOLVERS):
        raise BadInput(f"no solver is called {solver!r}; there are auto, {', '.join(SOLVERS)}")
    if formulation == solver == "auto":
        return _race(instance, objective)
    gone = ""
    if (formulation, solver) in GONE:
        gone = f"; {solver} does not solve it any more, cp-sat does"
        formulation, solver = "arc-flow", "cp-sat"
    if "search" in (formulation, solver) and {formulation, solver} <= {"search", "auto"}:
        exact = [way for way in (SLOTS, EVENTS) if way.declines(instance, objective) is None]
        if not exact:
            raise BadInput(f"search: {SLOTS.declines(instance, objective)}; {EVENTS.declines(instance, objective)}")
        return Choice((exact[0],), "search was asked for: the exact searches over slots and events", tuple(exact[1:]))
    fitting = [way for way in WAYS.values() if formulation in ("auto", way.formulation)]
    if way := next((way for way in fitting if solver in ("auto", way.solver.name)), None):
        if reason := way.declines(instance, objective):
            raise BadInput(reason)
        if formulation == "auto":
            return Choice((way,), f"{solver} was asked for, {way.formulation} is what it solves")
        return Choice((way,), f"{formulation} was asked for, {way.solver.name} solves it{gone}")
    others = " and ".join(way.solver.name for way in fitting or (SLOTS, EVENTS))
    raise BadInput(f"{solver} does not solve {formulation}; {others} can")


def _race(instance: Instance, objective: str) -> Choice:
    """Choose what proves most instances of this kind first, and what runs beside it where there is a core for it."""
    requests = len(instance.requests)
    many = requests > MANY or (requests > FEW and late_segments(instance))
    first, *rest = [way for way in WHY if way.declines(instance, objective) is None]
    finders = [REPAIR] if many and REPAIR.declines(instance, objective) is None else []
    beside = [*finders, *(way for way in rest if way is EVENTS and not many), IMPROVE]
    reserve = [*rest, IMPROVE]
    if cores() < 2:
        return Choice((first,), WHY[first], tuple(reserve), named=False)
    second = beside[0]
    why = f"{WHY[first]}; after {SECOND_AFTER} s {second.what} runs beside it"
    return Choice((first, second), why, tuple(way for way in reserve if way is not second), named=False)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
