"""Prices of the pools that make the bound for a number of batches large; whole numbers, so that it is exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from solvers.counts.model import Model, scaled_down
from solvers.counts.togo import Togo
from solvers.counts.vectors import Array, Vectors, fitting_vectors

Floats = npt.NDArray[np.float64]

FEW_VECTORS = 2_000
"""Fillings of the memory up to which prices are found at once."""

FEW_BATCHES = 40
"""Batches, about, of the instances in which first prices are found."""

ROUNDS = 60
"""Evaluations of the bound in one improvement."""

FIRST_STEP = 50
"""The first step promises the cost of all batches divided by this."""

MOST_CUTS = 100
"""Supporting planes that are kept."""

PRECISION = 2000
"""The improvement ends where it promises less than the cost of a batch divided by this."""

LENGTHENINGS = 6
"""How often the step is made longer before the improvement ends."""

EXCHANGES = 3000
"""Exchanges of weight between planes in one proximal step."""


def first_prices(model: Model) -> Array:
    """Return what each point would cost if batches were always full."""
    refill = {model.pools[s.out_of]: s.cost for s in model.steps if s.out_of >= 0}
    lanes = max(1.0, model.memory / (sum(model.sizes) / len(model.sizes)))
    token = model.batch / lanes
    return np.array([round(refill[p] + (p.left - 1) * token) for p in model.pools], np.int64)


def start_prices(vectors: Vectors, check: Callable[[], None]) -> Array:
    """Return prices to start from: those of smaller instances, where the memory holds much or batches are many."""
    model = vectors.model
    prices = first_prices(model)
    if len(vectors) <= FEW_VECTORS:
        return _prices_of_fewer(vectors, prices, check)
    by = 2
    while model.memory // by >= 2 * max(model.sizes):
        by *= 2
    while (by := by // 2) > 1:
        part = fitting_vectors(scaled_down(model, by), len(vectors))
        if part is not None and len(part) < len(vectors) // 4:
            prices = _prices_of_fewer(part, prices, check)
    return prices


def _prices_of_fewer(vectors: Vectors, prices: Array, check: Callable[[], None]) -> Array:
    """Return improved prices for any number of batches, with so few of the requests that batches are few."""
    few = vectors.with_requests(1 / max(1.0, vectors.model.least_batches / FEW_BATCHES))
    fewest = few.model.least_batches
    target = few.model.alone + 3 * fewest * few.model.batch
    return improved(Togo(few, prices, check), range(fewest, 2 * fewest + 2), target, ROUNDS).prices


def improved(start: Togo, numbers: Sequence[int], target: int, rounds: int) -> Togo:
    """Return the costs to go of the best bound met for these numbers of batches, batches included.

    The bound is a concave function of the prices, the least of linear ones; a proximal bundle method climbs it. It
    ends after `rounds` evaluations, above `target`, or where the planes promise next to nothing.
    """
    vectors, best = start.vectors, start
    centre = start.prices.astype(np.float64)
    bound, batches = _least(best, numbers)
    slopes = [best.imbalance(batches).astype(np.float64)]
    heights = [float(bound)]  # of each plane, at the centre
    length = vectors.model.batch * batches / FIRST_STEP / max(1.0, float(slopes[0] @ slopes[0]))
    tolerance = vectors.model.batch / PRECISION
    for _ in range(rounds):
        if bound >= target:
            break
        for _ in range(LENGTHENINGS):
            step, promised = _proximal_step(np.array(slopes), np.array(heights), length)
            if promised - bound > tolerance:
                break
            length *= 4
        else:
            break
        togo = Togo(vectors, np.round(centre + step).astype(np.int64), start.check)
        reached, batches = _least(togo, numbers)
        moved = togo.prices - centre
        slope = togo.imbalance(batches).astype(np.float64)
        if reached > bound:
            gain = (reached - bound) / (promised - bound)
            length *= 4 if gain > 0.9 else 2 if gain > 0.5 else 1
            heights = [h + float(s @ moved) for h, s in zip(heights, slopes, strict=True)]
            heights.append(float(reached))
            bound, best, centre = reached, togo, centre + moved
        else:
            length *= 0.7
            heights.append(float(reached - slope @ moved))
        slopes.append(slope)
        if len(slopes) > MOST_CUTS:
            worst = int(np.argmax(heights))
            del slopes[worst], heights[worst]
    return best


def _least(togo: Togo, numbers: Sequence[int]) -> tuple[int, int]:
    """Return the least bound for these numbers of batches, and which of them it is."""
    batch = togo.vectors.model.batch
    return min((togo.at_start(batches) + batches * batch, batches) for batches in numbers)


def _proximal_step(slopes: Floats, heights: Floats, length: float) -> tuple[Floats, float]:
    """Return the step d that maximises the least plane less |d|^2 / (2 length), and the least plane there.

    Solved in the weights of the planes, two at a time.
    """
    products = length * (slopes @ slopes.T)
    weights = np.zeros(len(heights))
    first = int(np.argmin(heights))
    weights[first] = 1.0
    gradient = heights + products[first]
    for _ in range(EXCHANGES):
        to, away = int(np.argmin(gradient)), int(np.argmax(np.where(weights > 0, gradient, -np.inf)))
        gain = gradient[away] - gradient[to]
        curvature = products[to, to] - 2 * products[to, away] + products[away, away]
        if gain <= 1e-9 * (1 + abs(gradient[to])):
            break
        shift = min(weights[away], gain / curvature) if curvature > 0 else weights[away]
        weights[to] += shift
        weights[away] -= shift
        gradient += shift * (products[to] - products[away])
    step: Floats = length * (weights @ slopes)
    return step, float(np.min(heights + slopes @ step))
