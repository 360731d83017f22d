"""The time-indexed program: a column for each start, rows for the limits of each tick, and clique rows; by HiGHS.

The linear program only proposes prices; `prices.py` proves what follows from them. The integer program is HiGHS's
word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from bounds.highs import Silent
from solvers.start_time.cliques import violated_cliques
from solvers.start_time.prices import SCALE, Mask, RowPrices, StartColumns
from solvers.start_time.problem import Array, Jobs

INFINITY = highspy.kHighsInf
ROUNDS = 60
"""Rounds of cutting planes, at most."""
STALLED_ROUNDS, WORTH = 5, 0.04
"""They stop when so many rounds have closed less than this fraction of the gap."""


@dataclass(frozen=True)
class Relaxation:
    """What the linear program proves: a bound (scaled), the columns left, and its prices; and all its cliques."""

    bound: int
    alive: Mask
    prices: RowPrices
    cliques: list[Array]


class Program:
    """The rows over some columns, in HiGHS."""

    def __init__(self, columns: StartColumns, alive: Mask, cliques: list[Array]) -> None:
        self.columns, self.alive = columns, alive
        self.cliques: list[Array] = []
        self.highs = Silent(threads=1)
        self.highs.passModel(self._lp())
        self.cut(cliques)

    def cut(self, cliques: list[Array]) -> None:
        """Add rows: at most one of each set of columns."""
        for members in cliques:
            self.highs.addRow(-INFINITY, 1.0, len(members), members.astype(np.int32), np.ones(len(members)))
        self.cliques = self.cliques + cliques

    def drop(self, columns: Array) -> None:
        """Fix these columns at zero."""
        zero = np.zeros(len(columns))
        self.highs.changeColsBounds(len(columns), columns.astype(np.int32), zero, zero)

    def solve(self, deadline: float) -> tuple[Array, RowPrices] | None:
        """Return the optimal x and its prices, rounded; None if time is over."""
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + max(0.1, deadline - time.process_time()))
        self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self.highs.getSolution()
        prices = RowPrices.rounded(self.columns, np.array(solution.row_dual), self.cliques)
        return np.array(solution.col_value), prices

    def _lp(self) -> Any:
        columns, problem = self.columns, self.columns.problem
        kinds, ticks = len(problem.kinds), columns.ticks
        index, value, lengths = [], [], []
        for k, start in zip(columns.kind.tolist(), columns.start.tolist(), strict=True):
            index.append(np.array([k]))
            value.append(np.array([1.0]))
            for r, (_, uses) in enumerate(problem.limits):
                index.append(kinds + r * ticks + start + np.arange(len(uses[k])))
                value.append(uses[k].astype(float))
            lengths.append(1 + len(problem.limits) * problem.kinds[k].length)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(columns), kinds + len(problem.limits) * ticks
        lp.col_cost_ = columns.cost.astype(float)
        lp.col_lower_ = np.zeros(len(columns))
        lp.col_upper_ = np.where(self.alive, problem.counts[columns.kind], 0).astype(float)
        limits = np.repeat([float(limit) for limit, _ in problem.limits], ticks)
        lp.row_lower_ = np.concatenate([problem.counts.astype(float), np.full(len(limits), -INFINITY)])
        lp.row_upper_ = np.concatenate([problem.counts.astype(float), limits])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.cumsum([0, *lengths])
        lp.a_matrix_.index_ = np.concatenate(index)
        lp.a_matrix_.value_ = np.concatenate(value)
        return lp


def relax(columns: StartColumns, cutoff: int, deadline: float, on_bound: Callable[[int], None]) -> Relaxation | None:
    """Solve the linear program with cliques, as far as the time allows (None: not even once).

    Columns that no schedule of cost at most `cutoff` takes are dropped.
    Bounds, scaled and on such schedules only, are reported as they rise.
    """
    alive = columns.possible
    program = Program(columns, alive, [])
    best: Relaxation | None = None
    history: list[int] = []
    for _ in range(ROUNDS):
        solved = program.solve(deadline)
        if solved is None:
            break
        x, prices = solved
        bound, extra = prices.bound(columns, alive)
        if best is None or bound > best.bound:
            kept = alive & (bound + extra <= cutoff * SCALE)
            program.drop(np.flatnonzero(alive & ~kept))
            alive = kept
            best = Relaxation(bound, alive, prices, program.cliques)
            on_bound(bound)
        history.append(best.bound)
        gained = best.bound - history[max(0, len(history) - 1 - STALLED_ROUNDS)]
        stalled = len(history) > STALLED_ROUNDS and gained < WORTH * (cutoff * SCALE - best.bound)
        if bound > cutoff * SCALE or stalled or time.process_time() > deadline:
            break
        cliques = violated_cliques(columns, x, extra, alive)
        if not cliques:
            break
        program.cut(cliques)
    return best


def close(
    relaxation: Relaxation,
    columns: StartColumns,
    cutoff: int,
    deadline: float,
    on_jobs: Callable[[Jobs], None],
    on_bound: Callable[[float], None],
) -> bool:
    """Look for a schedule of cost at most `cutoff` by branch and bound; returns whether the search ended by itself.

    The number of starts and of ends up to each tick are integer columns of their own: branching on them splits the
    sum of the completions evenly.
    """
    program = Program(columns, relaxation.alive, [members for members, _ in relaxation.prices.cliques])
    highs = program.highs
    for j in range(len(columns)):
        highs.changeColIntegrality(j, highspy.HighsVarType.kInteger)
    _count(program, columns.start)
    _count(program, columns.end)
    for option, value in {
        "time_limit": highs.getRunTime() + max(0.1, deadline - time.process_time()),
        "objective_bound": cutoff + 0.5,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.4,
    }.items():
        highs.setOptionValue(option, value)
    highs.cbMipImprovingSolution += lambda event: on_jobs(_jobs(columns, event.data_out.mip_solution))
    highs.cbMipInterrupt += lambda event: on_bound(event.data_out.mip_dual_bound)
    highs.run()
    if highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        on_jobs(_jobs(columns, highs.getSolution().col_value))  # the last one need not have been an event
    statuses = highspy.HighsModelStatus
    return highs.getModelStatus() in (statuses.kOptimal, statuses.kInfeasible, statuses.kObjectiveBound)


def _count(program: Program, tick: Array) -> None:
    """Add an integer column for each tick: how many columns have their one up to it."""
    highs, columns = program.highs, program.columns
    before = -1
    for t in range(int(tick.max()) + 1):
        now = np.flatnonzero((tick == t) & program.alive)
        highs.addCol(0.0, 0.0, float(columns.problem.counts.sum()), 0, np.array([], np.int32), np.array([]))
        this = highs.getNumCol() - 1
        highs.changeColIntegrality(this, highspy.HighsVarType.kInteger)
        index = [*now.tolist(), this] + ([before] if before >= 0 else [])
        value = [-1.0] * len(now) + [1.0] + ([-1.0] if before >= 0 else [])
        highs.addRow(0.0, 0.0, len(index), np.array(index, np.int32), np.array(value))
        before = this


def _jobs(columns: StartColumns, x: Any) -> Jobs:
    taken = np.rint(np.array(x)[: len(columns)]).astype(int)
    kinds, starts = (np.repeat(array, taken).tolist() for array in (columns.kind, columns.start))
    return list(zip(kinds, starts, strict=True))
