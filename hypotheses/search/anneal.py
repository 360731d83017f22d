"""Simulated annealing over whole numbers, by SciPy's dual annealing, which kvbound needs anyway.

Its visits are heavy-tailed jumps of all coordinates at once, then of one after another, with restarts; its local search
needs gradients and is left out. Coordinates are real there; each whole number has an interval of length one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Height = Callable[[Sequence[int]], float]


def maximise(height: Height, axes: Sequence[range], calls: int, seed: int) -> None:
    """Ask for the height at up to about `calls` points, ever higher ones; the caller keeps the best.

    `axes` are the values of each coordinate, in steps of one. Those that have one value only are not searched.
    """
    from scipy.optimize import dual_annealing

    free = [k for k, axis in enumerate(axes) if len(axis) > 1]
    if not free:
        height([axis.start for axis in axes])
        return

    def depth(point: Any) -> float:
        numbers = [axis.start for axis in axes]
        for k, x in zip(free, point, strict=True):
            numbers[k] = min(int(x), axes[k].stop - 1)
        return -height(numbers)

    bounds = [(axes[k].start, axes[k].stop) for k in free]
    dual_annealing(depth, bounds, maxiter=calls, maxfun=calls, seed=seed, no_local_search=True)
