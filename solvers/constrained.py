"""Solving `batch-bigm` with rows of the user's own, inside a worker process.

A policy's schedule may break them: its value is a guess. The model with the batches and ticks of all schedules of that
value either has the best that obeys, or says that the best is worse; then it is solved for a larger value.
"""

import traceback
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo

from bounds.clock import now
from formulations.big_m import BigM
from formulations.big_m_values import TOLERANCE
from formulations.horizon import by_busy_time, by_last_completion, sufficient_batches
from formulations.tightening import tighten
from kvcore.errors import BadInput
from kvcore.metrics import Value, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import Horizon, Stop
from solvers.incumbent import Incumbent
from solvers.messages import Bound, Done, Failed, Found, Send, SolveJob
from solvers.milp import minimise
from solvers.packing import Constraint, name_of, unpack


def run(job: SolveJob, send: Send) -> Done | Failed:
    """Solve until the batches are enough for the best schedule found; send results as they come."""
    return _Run(job, send).solve()


class _Run:
    def __init__(self, job: SolveJob, send: Send) -> None:
        self.job, self.send = job, send
        self.functions = unpack(job.constraints)
        self.ends = now() + job.threads * job.time_limit
        self.best = Incumbent(job.instance, job.objective)
        self.refused = ""

    def solve(self) -> Done | Failed:
        assert self.job.upper_bound is not None
        limit = self.job.upper_bound
        for _ in range(5):  # the value is doubled while no schedule obeys the constraints
            horizon = self.enough(limit)
            self.send(horizon)
            done = self.solve_with(horizon, limit)
            value = self.best.value
            if value is None and not done.infeasible:
                return Failed(f"{self.job.label}: {self.refused}") if self.refused else done
            if value is not None and (done.stop != Stop.PROVED or not horizon.sufficient or value <= limit):
                return done
            if value is None and horizon.sufficient:
                self.send(Bound(limit))
            limit = 2 * limit if value is None else value
            if now() > self.ends:
                return Done(Stop.TIME_LIMIT)
        names = ", ".join(map(name_of, self.functions))
        raise BadInput(f"no schedule of {self.job.objective} {limit // 2} or less obeys the constraints: {names}")

    def solve_with(self, horizon: Horizon, limit: Value) -> Done:
        """The model has every schedule of at most `limit`; its bounds hold for all up to there."""
        job = self.job
        model = BigM(job.instance, job.objective, horizon.batches, upper_bound=limit, as_is=True)
        if not job.formulation.endswith(":plain"):
            tighten(model)
        model.write()
        rows = add(model, self.functions)
        if self.best.schedule is not None:
            model.warm_start(verify_schedule(job.instance, self.best.schedule))
        left = replace(job, time_limit=(self.ends - now()) / job.threads)
        return minimise(
            left,
            model,
            lambda: self.take(model, rows),
            lambda bound: self.send(Bound(min(bound, limit))) if horizon.sufficient else None,
            self.send,
        )

    def take(self, model: BigM, rows: list[Any]) -> None:
        try:
            schedule = model.schedule()
        except InvalidSchedule as broken:
            self.refused = str(broken)
            return
        trace = verify_schedule(self.job.instance, schedule)
        model.warm_start(trace)
        if not all(_holds(row) for row in rows):
            value = objective_value(trace, self.job.objective)
            self.refused = f"the schedule found, of {self.job.objective} {value}, does not obey once it is executed"
        elif self.best.hold(trace, self.job.label) is not None:
            self.send(Found(schedule, None))

    def enough(self, value: Value) -> Horizon:
        """Return the most batches of any schedule of at most `value`, if there is an argument."""
        instance, objective = self.job.instance, self.job.objective
        found = by_busy_time(instance, objective, value) or by_last_completion(instance, objective, value)
        if found is None:
            return replace(sufficient_batches(instance, objective, value), sufficient=False)
        names = ", ".join(map(name_of, self.functions))
        return replace(found, why=f"of schedules that obey {names}: {found.why}")


def add(model: BigM, functions: Iterable[Constraint]) -> list[Any]:
    """Let each function add its rows to the model; return all rows. BadInput for a wrong function."""
    pyomo = model.model
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
