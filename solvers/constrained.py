"""Solving `batch-bigm` with rows of the user's own, inside a worker process.

What is proved is of the schedules that the model describes and that obey the rows. A policy's schedule may break them:
it is not started from, its value bounds nothing, and the number of batches that it suggests is a guess. The best
schedule that obeys then says how many batches are enough, and where they were fewer, the model is solved once more.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo

from formulations.batch_bigm import BatchBigM
from formulations.batch_start import TOLERANCE
from formulations.horizon import by_busy_time, by_last_completion, sufficient_batches
from kvcore.errors import BadInput
from kvcore.metrics import Value, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import Horizon
from kvcore.schedule import Schedule
from solvers.milp import minimise
from solvers.packing import Constraint, name_of, unpack
from solvers.task import Bound, Done, Failed, Found, Send, Task


def run(task: Task, send: Send) -> Done | Failed:
    """Solve until the batches are enough for the best schedule found; schedules and bounds are sent as they come."""
    return _Run(task, send).solve()


class _Run:
    """The best schedule that obeys, and the bound of the model that is being solved."""

    def __init__(self, task: Task, send: Send) -> None:
        self.task, self.send = task, send
        self.functions = unpack(task.constraints)
        self.ends = time.monotonic() + task.time_limit
        self.schedule: Schedule | None = None
        self.value: Value | None = None
        self.bound: Value | None = None
        self.refused = ""

    def solve(self) -> Done | Failed:
        """Solve with the batches that a policy needs, and then with those that the best schedule does."""
        assert self.task.upper_bound is not None
        guess = self.enough(self.task.upper_bound)
        self.send(replace(guess, sufficient=False, why="a guess: what a policy's schedule needs, which may not obey"))
        done = self.solve_with(guess.batches, None)
        if done.infeasible:
            names = ", ".join(map(name_of, self.functions))
            raise BadInput(f"no schedule of at most {guess.batches} batches obeys the constraints: {names}")
        if self.value is None:
            return Failed(f"{self.task.label}: {self.refused}") if self.refused else done
        horizon = self.enough(self.value)
        if done.stop != "proved" or not horizon.sufficient:
            return done
        if horizon.batches > guess.batches:
            self.send(horizon)
            return self.solve_with(horizon.batches, self.value)
        self.send(replace(horizon, batches=guess.batches))
        self.prove(self.value)
        return done

    def solve_with(self, batches: int, upper_bound: Value | None) -> Done:
        """Solve the model of so many batches, enough for `upper_bound` if that is given: then its bounds are sent."""
        task = self.task
        model = BatchBigM(
            task.instance,
            task.objective,
            batches,
            upper_bound=upper_bound,
            plain=task.formulation.endswith(":plain"),
            as_is=True,
        )
        rows = add(model, self.functions)
        if self.schedule is not None:
            model.warm_start(verify_schedule(task.instance, self.schedule))

        def proved(bound: Value) -> None:
            self.bound = bound
            if upper_bound is not None:
                self.prove(upper_bound)

        left = replace(task, time_limit=self.ends - time.monotonic())
        return minimise(left, model, lambda: self.take(model, rows), proved, self.send)

    def prove(self, upper_bound: Value) -> None:
        """Send the bound of a model that has every schedule of at most `upper_bound`."""
        if self.bound is not None:
            self.send(Bound(min(self.bound, upper_bound)))

    def take(self, model: BatchBigM, rows: list[Any]) -> None:
        """Keep the schedule that the variables describe if it obeys, as it is executed, and is the best."""
        try:
            schedule = model.schedule()
        except InvalidSchedule as broken:
            self.refused = str(broken)
            return
        trace = verify_schedule(self.task.instance, schedule)
        model.warm_start(trace)
        value = objective_value(trace, self.task.objective)
        if not all(_holds(row) for row in rows):
            self.refused = f"the schedule found, of {self.task.objective} {value}, does not obey once it is executed"
        elif self.value is None or value < self.value:
            self.schedule, self.value = schedule, value
            self.send(Found(schedule, None))

    def enough(self, value: Value) -> Horizon:
        """Return batches of which every schedule of at most `value` has fewer, if there is an argument."""
        instance, objective = self.task.instance, self.task.objective
        found = by_busy_time(instance, objective, value) or by_last_completion(instance, objective, value)
        if found is None:
            return replace(sufficient_batches(instance, objective, value), sufficient=False)
        names = ", ".join(map(name_of, self.functions))
        return replace(found, batches=found.batches + 1, why=f"of schedules that obey {names}: {found.why}")


def add(model: BatchBigM, functions: Iterable[Constraint]) -> list[Any]:
    """Let each function add its rows to the model; return them all. BadInput says what is wrong with a function."""
    pyomo = model.model
    model.name_as_the_paper()
    before, objective = {id(row) for row in _rows(pyomo)}, pyomo.objective.expr
    for k, function in enumerate(functions):
        name = f"constraint {name_of(function)}"
        try:
            given = function(pyomo)
            if given is not None:
                rows = pyo.ConstraintList()
                pyomo.add_component(f"own_{k}", rows)
                for row in [given] if isinstance(given, bool) or hasattr(given, "is_relational") else given:
                    rows.add(row)
        except Exception as error:
            file = getattr(getattr(function, "__code__", None), "co_filename", "")
            frames = traceback.extract_tb(error.__traceback__)
            at = [f" ({file}, line {frame.lineno})" for frame in frames if frame.filename == file]
            why = str(error).partition("\n")[0]
            raise BadInput(f"{name}: {type(error).__name__}: {why}{''.join(at[-1:])}") from None
        if any(row.body.polynomial_degree() not in (0, 1) for row in _rows(pyomo) if id(row) not in before):
            raise BadInput(f"{name} is not linear")
    if [*pyomo.component_data_objects(pyo.Objective, active=True)] != [pyomo.objective] or (
        pyomo.objective.expr is not objective
    ):
        raise BadInput("constraints add rows: the objective stays as it is")
    return [row for row in _rows(pyomo) if id(row) not in before]


def _rows(model: Any) -> list[Any]:
    return [*model.component_data_objects(pyo.Constraint, active=True)]


def _holds(row: Any) -> bool:
    body = pyo.value(row.body)
    return (row.lb is None or body >= row.lb - TOLERANCE) and (row.ub is None or body <= row.ub + TOLERANCE)
