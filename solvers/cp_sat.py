"""OR-Tools CP-SAT for the constraint program, in a worker process."""

import math
from typing import Any

from bounds.clock import CLOCK
from kvcore.referee import verify_schedule
from kvcore.result import Size, Stop
from solvers.messages import Bound, Done, Found, Send, SolveJob, optimal


def run(job: SolveJob, send: Send) -> Done:
    """Build and solve the constraint program of `job`; send results as they come."""
    from ortools.sat.python import cp_model

    from formulations.cp_sat import CpSat

    assert job.batches is not None
    program = CpSat(job.instance, job.objective, job.batches, upper_bound=job.upper_bound)
    if job.start is not None:
        program.hint(verify_schedule(job.instance, job.start))
    proto = program.model.Proto()
    send(Size(len(proto.constraints), len(proto.variables), 0))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1 if job.counted else job.threads
    solver.parameters.random_seed = job.seed
    if job.counted:
        solver.parameters.max_deterministic_time = job.time_limit
    else:
        solver.parameters.max_time_in_seconds = CLOCK * job.time_limit

    class Reporter(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            claimed = program.objective_value(round(self.ObjectiveValue()))
            send(Found(program.schedule(self.Value), claimed))

    def on_bound(bound: float) -> None:
        if math.isfinite(bound):
            send(Bound(program.objective_value(math.ceil(bound - 1e-6))))

    solver.best_bound_callback = on_bound
    status: Any = solver.solve(program.model, Reporter())
    if status == cp_model.INFEASIBLE:
        return Done(Stop.PROVED, infeasible=True)
    if status == cp_model.OPTIMAL:
        on_bound(solver.best_objective_bound)
        return Done(optimal(solver.best_objective_bound, solver.objective_value))
    return Done(Stop.TIME_LIMIT)
