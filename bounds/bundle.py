"""Maximise a concave sum of pieces: cutting planes in a box around the best point.

An evaluation gives a linear function above each piece, its cut. A linear program finds the best point for all cuts in a
box around the best known (boxstep: Marsten, Hogan and Blankenship, 1975), which grows where the cuts predict well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bounds.clock import by_clock, now, spend_pivots

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """A point, its value, and a cut of each piece: the values and slopes, [pieces, n]."""

    x: Vector
    value: float
    values: Vector
    slopes: Vector


@dataclass
class Bundle:
    """Cuts of the pieces, as slope and value at zero; valid for any function whose pieces are no greater."""

    cuts: list[dict[bytes, tuple[Vector, float]]] = field(default_factory=list)

    def learn(self, point: Evaluation) -> None:
        """Add the cuts at a point."""
        self.cuts = self.cuts or [{} for _ in point.values]
        for cuts, value, slope in zip(self.cuts, point.values, point.slopes, strict=True):
            cuts[slope.tobytes()] = (slope, float(value - slope @ point.x))
            if len(cuts) > 200:  # the newest are kept
                del cuts[next(iter(cuts))]

    def best(self, linear: Vector, low: Vector, high: Vector, seconds: float) -> tuple[Vector, float] | None:
        """Return the best point of the box for these cuts, and its promise; None if the solver fails or is too slow."""
        from scipy.optimize import linprog  # loading it takes a while
        from scipy.sparse import csr_matrix

        n, pieces = len(low), len(self.cuts)
        rows = [(i, slope, level) for i, cuts in enumerate(self.cuts) for slope, level in cuts.values()]
        piece = np.zeros((len(rows), pieces))
        piece[np.arange(len(rows)), [i for i, _, _ in rows]] = 1.0
        table = np.hstack([-np.array([slope for _, slope, _ in rows]), piece])
        bounds = [*zip(low, high, strict=True), *[(None, None)] * pieces]
        cost = -np.concatenate([linear, np.ones(pieces)])
        levels = [level for _, _, level in rows]
        given = {"method": "highs", "options": {"time_limit": by_clock(seconds), "maxiter": 1_000_000}}
        found = linprog(cost, csr_matrix(table), levels, bounds=bounds, **given)
        spend_pivots(found.nit)
        if found.status != 0:
            return None
        return found.x[:n], float(-found.fun)


def maximise(
    evaluate: Callable[[Vector], Evaluation],
    start: Vector,
    bundle: Bundle,
    *,
    linear: Vector,
    low: Vector,
    high: Vector,
    scale: Vector,
    size: float,
    worth: float,
    deadline: float = math.inf,
    rounds: int | None = None,
    enough: float = np.inf,
    steady: bool = False,
) -> tuple[Evaluation, float]:
    """Return the best point found, and the final size of the box.

    The function is `linear` @ x plus the pieces that `evaluate` gives; `low` <= x <= `high`. The box reaches `size` *
    `scale` to each side. It ends by the deadline, after `rounds` evaluations, at `enough`, or when no more than `worth`
    is promised. A `steady` box keeps its size. Cuts are added to `bundle`; those in it must hold.
    """
    best, collapse = evaluate(start), 0.6  # by it the box shrinks where more is lost than promised, or a program fails
    bundle.learn(best)
    made = 0
    while (left := deadline - now()) > 0 and best.value < enough and size > 1e-6 and made != rounds:
        box = np.maximum(low, best.x - size * scale), np.minimum(high, best.x + size * scale)
        proposed = bundle.best(linear, *box, left)
        if proposed is None:
            size *= collapse
            continue
        promised = proposed[1] - best.value
        if promised < worth:
            break
        point = evaluate(proposed[0])
        made += 1
        bundle.learn(point)
        gain = point.value - best.value
        if steady:
            pass
        elif gain > 0.5 * promised:
            size *= 1.5
        elif gain < 0:
            size *= collapse if gain < -promised else 0.85
        if gain > 0.1 * promised:  # else it is no serious step
            best = point
    return best, size
