"""Column generation: prices from the linear program, paths from the prices, until no path is cheaper."""

from collections.abc import Callable
from dataclasses import dataclass

import highspy
import numpy as np

from bounds.clock import PIVOT, by_clock, now, spend
from bounds.highs import Silent
from bounds.lagrangian import Floats, Ints, Oracle, PricePoint, RequestPath
from bounds.tuning import Options, option
from kvcore.certificates.path_kernels import HIGH, LOW

INFINITY, NONE = highspy.kHighsInf, np.zeros(0, np.int32)


@dataclass(frozen=True)
class ColumnOptions(Options):
    """Column generation."""

    rounds: int = option(200, "linear programs, at the most")
    smoothing: float = option(0.6, "how near to the best prices new ones are tried (Wentges)", least=0, most=1)


class Master:
    """The linear program that mixes known paths within the limits; its duals are the next prices.

    Each kind takes as many paths as it has requests; rows are limits ever exceeded. A request without a path begins
    after the last slot and pays for it: the first columns.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        kinds = oracle.pricing.kinds
        self.counts = np.array([kind.count for kind in kinds], float)
        self.late = np.array(
            [kind.route.rate * (max(oracle.slots - kind.route.arrival, 0) + kind.least) for kind in kinds]
        )
        self.paths: list[RequestPath] = []
        self.known: set[tuple[int, bytes]] = set()
        self.row = np.full(oracle.room.size, -1)  # of each limit, if it has one
        self.rows = n = len(kinds)
        self.highs = Silent(threads=1)
        self.highs.addRows(n, self.counts, np.full(n, INFINITY), 0, np.zeros(n, np.int32), NONE, np.zeros(0))
        self._add_columns(self.late, np.arange(n + 1), np.arange(n), np.ones(n))

    def _add_columns(self, costs: Floats, starts: Ints, rows: Ints, amounts: Floats) -> None:
        n, free = len(costs), np.full(len(costs), INFINITY)
        starts, rows = starts[:-1].astype(np.int32), rows.astype(np.int32)
        self.highs.addCols(n, costs, np.zeros(n), free, len(rows), starts, rows, amounts)

    def add(self, paths: list[RequestPath]) -> None:
        """Add paths, one of each kind."""
        together = sum(count * path.use for count, path in zip(self.counts, paths, strict=True))
        self._limit(np.flatnonzero((together > self.oracle.room).ravel() & (self.row < 0)))
        fresh = [path for path in paths if (path.kind, path.use.tobytes()) not in self.known]
        self.known |= {(path.kind, path.use.tobytes()) for path in fresh}
        self.paths += fresh
        taken = [np.flatnonzero((self.row >= 0) & (path.use.ravel() > 0)) for path in fresh]
        rows = [np.append(self.row[each], path.kind) for each, path in zip(taken, fresh, strict=True)]
        amounts = [np.append(path.use.ravel()[each], 1.0) for each, path in zip(taken, fresh, strict=True)]
        if fresh:
            starts = np.cumsum([0, *map(len, rows)])
            costs = np.array([path.cost for path in fresh])
            self._add_columns(costs, starts, np.concatenate(rows), np.concatenate(amounts))

    def _limit(self, places: Ints) -> None:
        if not len(places):
            return
        self.row[places] = self.rows + np.arange(len(places))
        self.rows += len(places)
        uses = np.array([path.use.ravel()[places] for path in self.paths]).reshape(-1, len(places)).T
        row, column = np.nonzero(uses)
        starts = np.searchsorted(row, np.arange(len(places))).astype(np.int32)
        index, lower = (column + len(self.counts)).astype(np.int32), np.full(len(places), -INFINITY)
        room = self.oracle.room.ravel()[places]
        self.highs.addRows(len(places), lower, room, len(row), starts, index, uses[row, column])

    def narrow(self, legs: list[Ints]) -> None:
        """Leave out paths whose ends these legs do not allow."""
        if not self.paths:
            return
        first = np.cumsum([0, *map(len, legs)])
        low, high = np.concatenate(legs)[:, [LOW, HIGH]].T
        leg = np.concatenate([np.arange(first[path.kind], first[path.kind + 1]) for path in self.paths])
        ends, begins = np.concatenate([path.ends for path in self.paths]), [len(path.ends) for path in self.paths]
        fits = np.logical_and.reduceat((low[leg] <= ends) & (ends <= high[leg]), np.cumsum([0, *begins[:-1]]))
        n = len(fits)
        columns = (len(self.counts) + np.arange(n)).astype(np.int32)
        self.highs.changeColsBounds(n, columns, np.zeros(n), np.where(fits, INFINITY, 0.0))
        never = [(each[:, HIGH] < self.oracle.slots).any() for each in legs]
        late = np.where(never, 10 * self.late.max(), self.late)
        self.highs.changeColsCost(len(late), np.arange(len(late), dtype=np.int32), late)

    def solve(self, seconds: float) -> tuple[float, Floats] | None:
        """Return the cost of the best mixture and the prices [rows, pieces], or None without a result in time."""
        self.highs.setOptionValue("time_limit", self.highs.getRunTime() + by_clock(seconds))
        self.highs.run()
        spend(PIVOT * self.highs.getInfo().simplex_iteration_count)
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kUnknown:  # numbers went wrong: from the start
            self.highs.clearSolver()
            self.highs.run()
        if self.highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        duals = np.maximum(0, -np.array(self.highs.getSolution().row_dual))
        prices = np.where(self.row < 0, 0.0, duals[self.row])
        return self.highs.getObjectiveValue(), prices.reshape(self.oracle.room.shape)

    def mixed(self) -> list[tuple[float, RequestPath]]:
        """Return the mixed paths and their shares."""
        shares = np.array(self.highs.getSolution().col_value[len(self.counts) :])
        least = 1e-6  # a path counts as mixed from this share on
        return [(float(shares[i]), self.paths[i]) for i in np.flatnonzero(shares > least)]


def generate(oracle: Oracle, begin: list[PricePoint], deadline: float) -> None:
    """Find the best prices until the deadline, from those of `begin`; the oracle keeps them."""
    master, options = Master(oracle), ColumnOptions.given()
    for point in begin:
        master.add(point.paths)
    best = max(begin, key=lambda point: point.bound)
    close = 1e-4  # the bound meets the program's value where it differs by less than this part of it
    improve(oracle, master, best, deadline, options.rounds, lambda value, bound: value - bound < close * abs(value))


def improve(
    oracle: Oracle,
    master: Master,
    best: PricePoint,
    deadline: float,
    rounds: int,
    enough: Callable[[float, float], bool],
) -> PricePoint:
    """Return better prices than `best`: the master's, until its value and the bound are near `enough`."""
    options = ColumnOptions.given()
    for _ in range(rounds):
        # seconds that a linear program has, at the least
        solved = master.solve(max(0.1, deadline - now()))
        if solved is None:
            break
        value, prices = solved
        if enough(value, best.bound) or now() > deadline:
            break
        stay = options.smoothing
        while True:
            point = oracle.evaluate(stay * best.prices + (1 - stay) * prices)
            master.add(point.paths)
            if point.bound > best.bound or stay == 0 or now() > deadline:
                break
            stay = 0 if stay < 0.3 else stay - 0.3
        best = max(best, point, key=lambda p: p.bound)
    return best
