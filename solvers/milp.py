"""Solving a Pyomo formulation with a MILP solver, inside a worker process."""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module

import formulations
from kvcore.referee import verify_schedule
from solvers.matrix import Array, MatrixModel
from solvers.task import Bound, Done, Found, Send, Size, Task


def run(task: Task, send: Send) -> Done:
    """Build the model of `task`, start it from its schedule, solve it; schedules and bounds are sent as they come."""
    assert task.batches is not None
    started = time.monotonic()
    formulation = formulations.make(
        task.formulation, task.instance, task.objective, task.batches, upper_bound=task.upper_bound
    )
    if task.start is not None:
        formulation.warm_start(verify_schedule(task.instance, task.start))
    matrix = MatrixModel(formulation.model)
    send(Size(*matrix.size))

    def on_solution(x: Array) -> None:
        matrix.load(x)
        send(Found(formulation.schedule(), None))

    def on_bound(bound: float) -> None:
        if abs(bound) < 1e20:  # solvers say "none yet" by an infinity of their own
            send(Bound(formulation.objective_bound(bound)))

    shortened = replace(task, time_limit=max(0.5, task.time_limit - (time.monotonic() - started)))
    return import_module(f"solvers.{task.solver}").minimise(matrix, shortened, on_solution, on_bound)  # type: ignore[no-any-return]
