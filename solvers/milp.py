"""A Pyomo formulation solved by a MILP solver, in a worker process."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from bounds.clock import now
from formulations import make
from formulations.big_m import BigM
from kvcore.metrics import Value
from kvcore.referee import verify_schedule
from kvcore.result import Size
from solvers.matrix import Array, MatrixModel
from solvers.messages import Bound, Done, Found, Send, SolveJob


def run(job: SolveJob, send: Send) -> Done:
    """Build the model of `job`, start it from its schedule, and solve it; send results as they come."""
    assert job.batches is not None
    started = now()
    formulation = make(job.formulation, job.instance, job.objective, job.batches, upper_bound=job.upper_bound)
    if job.start is not None:
        formulation.warm_start(verify_schedule(job.instance, job.start))
    return minimise(
        replace(job, time_limit=job.time_limit - (now() - started) / job.threads),
        formulation,
        lambda: send(Found(formulation.schedule(), None)),
        lambda bound: send(Bound(bound)),
        send,
    )


def minimise(
    job: SolveJob, formulation: BigM, found: Callable[[], None], proved: Callable[[Value], None], send: Send
) -> Done:
    """Solve a formulation: `found` is called when its variables hold a solution, `proved` with every bound."""
    matrix = MatrixModel(formulation.model)
    send(Size(*matrix.size))

    def on_solution(x: Array) -> None:
        matrix.load(x)
        found()

    def on_bound(bound: float) -> None:
        if abs(bound) < 1e20:  # solvers say "none yet" by an infinity of their own
            proved(formulation.objective_bound(bound))

    solver = import_module(f"solvers.{job.solver}")
    done: Done = solver.minimise(matrix, replace(job, time_limit=max(0.5, job.time_limit)), on_solution, on_bound)
    return done
