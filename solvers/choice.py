"""Which formulation and solver run for an instance, and why."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from formulations import FORMULATIONS
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.rigid import why_not_rigid
from solvers.lagrange.scope import late_segments, why_not
from solvers.registry import SOLVERS

BACKENDS = {"cp-sat": ("cp-sat",), "start-time": ("highs",), "arc-flow": ("highs", "gurobi", "lagrange", "repair")}
"""Who solves a formulation, the default first; the others are solved by highs and gurobi."""

SEARCH, LAGRANGE, REPAIR = ("search", "search"), ("arc-flow", "lagrange"), ("arc-flow", "repair")
FEW, MANY = 6, 12
"""Requests that the search takes in its stride, and beyond which it rarely proves anything first (in between, prices
come first where token budgets do not bind)."""

SECOND_AFTER = 1.5
"""Seconds after which a race begins, if the first has not proved its answer by then."""


@dataclass(frozen=True)
class Choice:
    """What will run, and why in words.

    `tasks` are pairs of a formulation and its solver; those after the first start when `SECOND_AFTER` has passed, and
    the `reserve` once all of them have ended without an answer. `named`: the user named it, and hears if it declines.
    """

    tasks: tuple[tuple[str, str], ...]
    why: str
    reserve: tuple[tuple[str, str], ...] = ()
    named: bool = True

    @property
    def delays(self) -> list[tuple[tuple[str, str], float]]:
        """Return what may run, each with the seconds after which it starts although others run."""
        delays = [(task, SECOND_AFTER * (k > 0)) for k, task in enumerate(self.tasks)]
        return delays + [(task, math.inf) for task in self.reserve]


def choose(instance: Instance, objective: str, formulation: str, solver: str) -> Choice:
    """Choose what runs; a formulation or solver that is named is taken at its word."""
    _check_names(formulation, solver)
    if formulation == "auto" and solver == "auto":
        return _race(instance, objective, *_best_way(instance, objective))
    if solver == "search" or formulation == "search":
        if formulation not in ("auto", "search") or solver not in ("auto", "search"):
            raise BadInput(f"the search is its own solver; {solver} solves {', '.join(FORMULATIONS)}")
        return Choice((("search", "search"),), "the exact search was asked for")
    if formulation == "auto":
        formulation = {"cp-sat": "cp-sat", "lagrange": "arc-flow", "repair": "arc-flow"}.get(solver, "batch-bigm")
        return Choice(((formulation, solver),), f"{solver} was asked for, {formulation} is what it solves")
    return _named(instance, objective, formulation, solver)


def _check_names(formulation: str, solver: str) -> None:
    names = ("auto", "search", *FORMULATIONS)
    if formulation not in names:
        raise BadInput(f"no formulation is called {formulation!r}; there are {', '.join(names)}")
    if solver != "auto" and solver not in SOLVERS:
        raise BadInput(f"no solver is called {solver!r}; there are auto, {', '.join(SOLVERS)}")


def _named(instance: Instance, objective: str, formulation: str, solver: str) -> Choice:
    backends = BACKENDS.get(formulation, ("highs", "gurobi"))
    if solver not in ("auto", *backends):
        raise BadInput(f"{solver} does not solve {formulation}; {' and '.join(backends)} can")
    if formulation == "start-time" and (reason := why_not_rigid(instance, objective)) is not None:
        raise BadInput(f"start-time needs requests that run from start to end: {reason}; try --formulation search")
    backend = backends[0] if solver == "auto" else solver
    return Choice(((formulation, backend),), f"{formulation} was asked for, {backend} solves it")


def _best_way(instance: Instance, objective: str) -> tuple[tuple[str, str], str]:
    """Return the way that proves most instances of this kind first, and why."""
    if why_not_rigid(instance, objective) is None:
        return ("start-time", "highs"), "every request runs from start to end, so that its start says all"
    requests = len(instance.requests)
    if why_not(instance, objective) is None and (requests > MANY or (requests > FEW and late_segments(instance))):
        return LAGRANGE, "a schedule is one way for each request, and only what a slot holds couples them"
    return SEARCH, "the exact search takes every machine, cost and objective, and needs no horizon"


def _race(instance: Instance, objective: str, first: tuple[str, str], why: str) -> Choice:
    """Let a second way run beside the first where there is a core for it."""
    has_ways, many = why_not(instance, objective) is None, len(instance.requests) > MANY
    second = LAGRANGE if first == SEARCH else REPAIR if has_ways and many else SEARCH
    reserve = () if SEARCH in (first, second) else (SEARCH,)
    if cores() < 2 or (second == LAGRANGE and not has_ways):
        return Choice((first,), why, () if first == SEARCH else (SEARCH,), named=False)
    rival = {SEARCH: "the search", LAGRANGE: "branch and bound over prices", REPAIR: "destroy and repair"}[second]
    return Choice((first, second), f"{why}; after {SECOND_AFTER} s {rival} runs beside it", reserve, named=False)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
