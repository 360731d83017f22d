"""Prices of the pools that make the bound for a number of batches large; whole numbers, so that it is exact."""

from collections.abc import Callable, Sequence

import numpy as np

from bounds.bundle import Bundle, Evaluation, Vector, maximise
from solvers.counts.cost_to_go import CostToGo
from solvers.counts.model import CountOptions, CountsModel, scaled_down
from solvers.counts.vectors import Array, Vectors, fitting_vectors


def first_prices(model: CountsModel) -> Array:
    """Return what each point would cost if batches were always full."""
    refill = {model.pools[s.out_of]: s.cost for s in model.steps if s.out_of >= 0}
    token = model.batch / _lanes(model)
    return np.array([round(refill[p] + (p.remaining - 1) * token) for p in model.pools], np.int64)


def _lanes(model: CountsModel) -> float:
    """Return how many requests fit together, about."""
    return max(1.0, model.memory / (sum(model.sizes) / len(model.sizes)))


def start_prices(vectors: Vectors, check: Callable[[], None]) -> Array:
    """Return prices to start from: those of smaller instances, where the memory holds much."""
    model = vectors.model
    prices = first_prices(model)
    if len(vectors) <= CountOptions.given().few_vectors:
        return prices
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
    options = CountOptions.given()
    few = vectors.with_requests(1 / max(1.0, vectors.model.least_batches / options.few_batches))
    fewest = few.model.least_batches
    target = few.model.alone + 3 * fewest * few.model.batch
    return improved(CostToGo(few, prices, check), range(fewest, 2 * fewest + 2), target, options.rounds).prices


def improved(start: CostToGo, numbers: Sequence[int], target: int, rounds: int) -> CostToGo:
    """Return the costs to go of the best bound met for these numbers of batches, batches included.

    The bound is a concave function of the prices, the least of linear ones; a bundle method climbs it. It ends after
    `rounds` evaluations, above `target`, or where the cuts promise next to nothing.
    """
    model, best = start.vectors.model, (_least(start, numbers)[0], start)

    def evaluate(prices: Vector) -> Evaluation:
        nonlocal best
        to_go = CostToGo(start.vectors, np.round(prices).astype(np.int64), start.check)
        bound, batches = _least(to_go, numbers)
        best = max(best, (bound, to_go), key=lambda pair: pair[0])
        slope = to_go.imbalance(batches).astype(np.float64)
        return Evaluation(to_go.prices.astype(np.float64), float(bound), np.array([float(bound)]), slope[None, :])

    pools, options = len(model.pools), CountOptions.given()
    token = np.array([max(1, point.remaining) for point in model.pools]) * model.batch / _lanes(model)
    maximise(
        evaluate, start.prices.astype(np.float64), Bundle(), linear=np.zeros(pools), low=np.full(pools, -start.most),
        high=np.full(pools, start.most), scale=token, size=options.first_box,
        worth=model.batch / options.precision, rounds=rounds, enough=float(target),
    )  # fmt: skip
    return best[1]


def _least(to_go: CostToGo, numbers: Sequence[int]) -> tuple[int, int]:
    """Return the least bound for these numbers of batches, and which of them it is."""
    batch = to_go.vectors.model.batch
    return min((to_go.at_start(batches) + batches * batch, batches) for batches in numbers)
