"""Prices of the pools that make the bound for a number of batches large; whole numbers, so that it is exact."""

from __future__ import annotations

import numpy as np

from bounds.bundle import Bundle, Evaluation, Vector, maximise
from solvers.by_row import Array
from solvers.counts.cost_to_go import CostToGo
from solvers.counts.model import CountOptions, CountsModel


def first_prices(model: CountsModel) -> Array:
    """Return what each point would cost if batches were always full."""
    refill = {model.pools[s.out_of]: s.cost for s in model.steps if s.out_of >= 0}
    token = model.batch / _lanes(model)
    return np.array([round(refill[p] + (p.remaining - 1) * token) for p in model.pools], np.int64)


def _lanes(model: CountsModel) -> float:
    """Return how many requests fit together, about."""
    return max(1.0, model.memory / (sum(model.sizes) / len(model.sizes)))


def improved(start: CostToGo, batches: int, target: int, rounds: int) -> CostToGo:
    """Return the costs to go of the best bound met for this number of batches, their own cost left out.

    The bound is a concave function of the prices, the least of linear ones; a bundle method climbs it. It ends after
    `rounds` evaluations, above `target`, or where the cuts promise next to nothing.
    """
    model, best = start.vectors.model, (start.at_start(batches), start)

    def evaluate(prices: Vector) -> Evaluation:
        nonlocal best
        to_go = CostToGo(start.vectors, np.round(prices).astype(np.int64), start.check)
        bound = to_go.at_start(batches)
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
