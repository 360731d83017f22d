"""HiGHS, the embedded default solver."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bounds.clock import CLOCK
from kvcore.result import Stop
from solvers.matrix import Array, MatrixModel
from solvers.messages import Done, SolveJob, optimal
from solvers.ways import SOLVERS


def minimise(
    matrix: MatrixModel, job: SolveJob, on_solution: Callable[[Array], None], on_bound: Callable[[float], None]
) -> Done:
    """Run HiGHS; report every improving solution and dual bound."""
    highspy = SOLVERS["highs"].load("highspy")
    highs = SOLVERS["highs"].load("bounds.highs").Silent(
        time_limit=CLOCK * job.time_limit, threads=job.threads, random_seed=job.seed, mip_rel_gap=0.0,
        mip_abs_gap=1e-9,
    )  # fmt: skip
    highs.passModel(_lp(highspy, matrix))
    end = time.process_time() + job.threads * job.time_limit
    start = matrix.start()
    if start is not None:
        highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
    highs.cbMipImprovingSolution += lambda event: on_solution(np.array(event.data_out.mip_solution))
    highs.cbMipInterrupt += _now_and_then(lambda event: on_bound(event.data_out.mip_dual_bound), highs, end)
    highs.run()
    status = highs.getModelStatus()
    info = highs.getInfo()
    statuses = highspy.HighsModelStatus
    if status == statuses.kInfeasible:
        return Done(Stop.PROVED, infeasible=True)
    bound = info.mip_dual_bound if matrix.integer.any() else info.objective_function_value
    on_bound(bound)
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        solution = np.array(highs.getSolution().col_value)
        on_solution(solution)
        if status == statuses.kOptimal:
            return Done(optimal(bound, matrix.value(solution)))
    return Done(Stop.TIME_LIMIT if status in (statuses.kTimeLimit, statuses.kInterrupt) else Stop.SOLVER_FAILURE)


def _now_and_then(report: Callable[[Any], None], highs: Any, end: float) -> Callable[[Any], None]:
    """Report at most five times a second, where HiGHS asks far more often; end it by its processor time."""
    reported = 0.0

    def callback(event: Any) -> None:
        nonlocal reported
        if time.monotonic() > reported + 0.2:
            reported = time.monotonic()
            report(event)
            if time.process_time() > end:
                highs.cancelSolve()

    return callback


def _lp(highspy: Any, matrix: MatrixModel) -> Any:
    lp = highspy.HighsLp()
    rows, columns = matrix.A.shape
    lp.num_col_, lp.num_row_ = columns, rows
    lp.col_cost_, lp.offset_ = matrix.c, matrix.offset
    lp.col_lower_, lp.col_upper_ = matrix.lower, matrix.upper
    lp.row_lower_, lp.row_upper_ = matrix.row_lower, matrix.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = matrix.A.indptr
    lp.a_matrix_.index_ = matrix.A.indices
    lp.a_matrix_.value_ = matrix.A.data
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if integer else kinds.kContinuous for integer in matrix.integer]
    return lp
