"""Which formulation and solver run for an instance, and why."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from kvcore.errors import BadInput
from kvcore.instance import Instance
from solvers.lagrange.scope import late_segments
from solvers.ways import EVENTS, LAGRANGE, REPAIR, SEARCH, SLOTS, SOLVERS, START_TIME, WAYS, Way

FEW, MANY = 6, 12
"""Requests that the search takes in its stride, and beyond which it rarely proves anything first (in between, prices
come first where token budgets do not bind)."""

SECOND_AFTER = 1.5
"""Seconds after which a race begins, if the first has not proved its answer by then."""


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
    if formulation not in ("auto", *formulations):
        raise BadInput(f"no formulation is called {formulation!r}; there are auto, {', '.join(formulations)}")
    if solver not in ("auto", *SOLVERS):
        raise BadInput(f"no solver is called {solver!r}; there are auto, {', '.join(SOLVERS)}")
    if formulation == solver == "auto":
        return _race(instance, objective, *_best_way(instance, objective))
    gone = ""
    if formulation == "arc-flow" and solver in ("highs", "gurobi"):
        gone = f"; it is no model for {solver} any more, but lagrange (or --solver cp-sat) solves the same network"
        solver = "lagrange"
    fitting = [way for way in WAYS.values() if formulation in ("auto", way.formulation)]
    if way := next((way for way in fitting if solver in ("auto", way.solver.name)), None):
        if reason := way.declines(instance, objective):
            raise BadInput(reason)
        if formulation == "auto":
            return Choice((way,), f"{solver} was asked for, {way.formulation} is what it solves")
        return Choice((way,), f"{formulation} was asked for, {way.solver.name} solves it{gone}")
    others = " and ".join(way.solver.name for way in fitting)
    raise BadInput(f"{solver} does not solve {formulation}; {others} can")


def _best_way(instance: Instance, objective: str) -> tuple[Way, str]:
    """Return the way that proves most instances of this kind first, and why."""
    if START_TIME.declines(instance, objective) is None:
        return START_TIME, "every request runs from start to end, so that its start says all"
    requests = len(instance.requests)
    many = requests > MANY or (requests > FEW and late_segments(instance))
    if SLOTS.declines(instance, objective) is None:
        return SLOTS, "batches last one tick, and few requests have few joint states; what it proves is certified"
    if many and LAGRANGE.declines(instance, objective) is None:
        return LAGRANGE, "a schedule is one way for each request, and only what a slot holds couples them"
    return SEARCH, "the exact search takes every machine, cost and objective, and needs no horizon"


def _race(instance: Instance, objective: str, first: Way, why: str) -> Choice:
    """Let a second way run beside the first where there is a core for it."""
    has_ways, many = LAGRANGE.declines(instance, objective) is None, len(instance.requests) > MANY
    beside = REPAIR if has_ways and many else SEARCH
    second = (LAGRANGE if has_ways else EVENTS) if first is SEARCH else beside
    reserve = () if SEARCH in (first, second) else (SEARCH,)
    if cores() < 2 or second.declines(instance, objective) is not None:
        return Choice((first,), why, () if first is SEARCH else (SEARCH,), named=False)
    return Choice((first, second), f"{why}; after {SECOND_AFTER} s {second.what} runs beside it", reserve, named=False)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
