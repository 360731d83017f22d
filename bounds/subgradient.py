"""Subgradient ascent on the prices of a Lagrangian relaxation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def ascend(
    evaluate: Callable[[Floats], tuple[Any, Floats]],
    start: Floats,
    target: float,
    *,
    rounds: int,
    margin: float = 0.0,
    worth: float = 0.0,
    step: float = 1.0,
    momentum: float = 0.0,
    stalled: int = 8,
    shrink: float = 0.6,
    smallest: float = 1e-3,
    go_on: Callable[[Any], bool] = lambda best: True,
) -> tuple[Any, Floats]:
    """Return the best bound found, and its prices; `evaluate` gives the bound at prices, and a subgradient.

    Steps are Polyak's (1969), `step` times the way to `target`, at least `margin` above the bound, along the
    subgradient with `momentum` (Camerini, Fratta and Maffioli, 1975). After `stalled` rounds without a gain of `worth`
    they begin anew at the best prices, `shrink` times as long. It ends after `rounds`, with steps below `smallest`, at
    a maximum, or when `go_on(best)` is false.
    """
    prices, direction, waited = start, np.zeros(start.shape), 0
    best: tuple[Any, Floats, Floats] | None = None
    for _ in range(rounds):
        bound, slope = evaluate(prices)
        waited += 1
        if best is None or bound > best[0]:
            waited = 0 if best is None or bound > best[0] + worth else waited
            best = bound, prices, slope
        if not go_on(best[0]) or step < smallest:
            break
        if waited >= stalled:
            (bound, prices, slope), step, waited = best, step * shrink, 0
            direction = np.zeros(start.shape)
        direction = slope + momentum * direction
        direction = np.where((prices <= 0) & (direction < 0), 0.0, direction)
        norm = float((direction**2).sum())
        if norm == 0:
            break
        prices = np.maximum(prices + step * max(float(target - bound), margin) / norm * direction, 0)
    return (evaluate(start)[0], start) if best is None else best[:2]
