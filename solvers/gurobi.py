"""Gurobi, when installed; the wheel's licence is limited in size."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bounds.clock import CLOCK
from kvcore.errors import MissingTool
from kvcore.result import Stop
from solvers.matrix import Array, MatrixModel
from solvers.messages import Done, SolveJob, optimal
from solvers.ways import SOLVERS

SIZE_LIMIT = 2000
"""The most variables, and likewise constraints, under the wheel's licence."""
_MODEL_TOO_LARGE = 10010


def licence() -> str:
    """Say what the licence found here allows (MissingTool: there is no valid one)."""
    gurobipy = SOLVERS["gurobi"].load("gurobipy")
    model = gurobipy.Model(env=_environment(gurobipy))
    model.addMVar(SIZE_LIMIT + 1)
    try:
        model.optimize()
    except gurobipy.GurobiError as error:
        if error.errno == _MODEL_TOO_LARGE:
            return f"size-limited: {SIZE_LIMIT} variables, {SIZE_LIMIT} constraints"
        raise
    return "full"


def minimise(
    matrix: MatrixModel, job: SolveJob, on_solution: Callable[[Array], None], on_bound: Callable[[float], None]
) -> Done:
    """Run Gurobi; report every improving solution and dual bound."""
    gurobipy = SOLVERS["gurobi"].load("gurobipy")
    GRB = gurobipy.GRB
    environment = _environment(gurobipy)
    model = gurobipy.Model(env=environment)
    model.Params.TimeLimit = math.inf if job.counted else CLOCK * job.time_limit
    model.Params.WorkLimit = job.time_limit if job.counted else math.inf
    model.Params.Threads = 1 if job.counted else job.threads
    model.Params.Seed = job.seed
    model.Params.MIPGap = 0
    kinds = np.where(matrix.integer, GRB.INTEGER, GRB.CONTINUOUS)
    x = model.addMVar(len(matrix.c), lb=matrix.lower, ub=matrix.upper, obj=matrix.c, vtype=kinds)
    model.ObjCon = matrix.offset
    upper, lower = np.isfinite(matrix.row_upper), np.isfinite(matrix.row_lower)
    equal = upper & lower & (matrix.row_upper == matrix.row_lower)
    model.addMConstr(matrix.A[equal], x, "=", matrix.row_upper[equal])
    model.addMConstr(matrix.A[upper & ~equal], x, "<", matrix.row_upper[upper & ~equal])
    model.addMConstr(matrix.A[lower & ~equal], x, ">", matrix.row_lower[lower & ~equal])
    start = matrix.start()
    if start is not None:
        x.Start = start

    end = math.inf if job.counted else time.process_time() + job.threads * job.time_limit

    def callback(running: Any, where: int) -> None:
        if time.process_time() > end:
            running.terminate()
        if where == GRB.Callback.MIPSOL:
            on_solution(np.array(running.cbGetSolution(x)))
        elif where == GRB.Callback.MIP:
            on_bound(running.cbGet(GRB.Callback.MIP_OBJBND))

    try:
        model.optimize(callback)
    except gurobipy.GurobiError as error:
        if error.errno == _MODEL_TOO_LARGE:
            raise MissingTool(
                f"Gurobi's licence here is limited to {SIZE_LIMIT} variables and {SIZE_LIMIT} constraints, this model "
                f"has {matrix.A.shape[1]} and {matrix.A.shape[0]}; use --solver highs, or install your own licence"
            ) from None
        raise
    if model.Status in (GRB.INFEASIBLE, GRB.INF_OR_UNBD):
        return Done(Stop.PROVED, infeasible=True)
    on_bound(model.ObjBound)
    if model.SolCount:
        on_solution(np.array(x.X))
        if model.Status == GRB.OPTIMAL:
            return Done(optimal(model.ObjBound, matrix.value(x.X)))
    over = model.Status in (GRB.TIME_LIMIT, GRB.WORK_LIMIT, GRB.INTERRUPTED)
    return Done(Stop.TIME_LIMIT if over else Stop.SOLVER_FAILURE)


def _environment(gurobipy: Any) -> Any:
    environment = gurobipy.Env(empty=True)
    environment.setParam("OutputFlag", 0)
    try:
        environment.start()
    except gurobipy.GurobiError as error:
        raise MissingTool(f"Gurobi has no valid licence here ({error}); use --solver highs") from None
    return environment
