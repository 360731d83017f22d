"""Prices on what the requests share, slot by slot, and the bound that any of them prove (Lagrangian relaxation).

If each request pays the prices for what it takes of every slot and otherwise ignores the others, the sum of their
cheapest paths, less the prices of all there is, is a lower bound. Prices are integers in units of 1/UNIT, so that every
bound is exact; a subgradient method in floating point proposes them. After the last slot nothing has a price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bounds.ascent import Floats, ascend
from solvers.lagrange.kernels import Array, add_use, cheap_options, cheapest_path, fill_ahead, fill_behind
from solvers.lagrange.network import DEVICE, HOST, PLACE_BLOCKS, PLACE_TOKENS, RESOURCES, PathNetwork, RequestClass
from solvers.lagrange.scope import UNIT


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The bound under some prices, in units; what the cheapest paths take (slots x resources); the paths, by class."""

    bound: int
    demand: Array
    paths: list[Array]


class SlotRelaxation:
    """The classes of a network over a number of slots."""

    def __init__(self, network: PathNetwork, slots: int) -> None:
        self.network, self.slots = network, slots

    def no_prices(self) -> Array:
        """Return prices of nought: slots x resources."""
        return np.zeros((self.slots, len(RESOURCES)), np.int64)

    def costs(self, c: RequestClass, prices: Array) -> tuple[Array, Array]:
        """Return (slots x kinds) what each kind pays in each slot, and whether its movable KV is on the host."""
        cost = prices @ c.uses[:, : len(RESOURCES)].T
        on_host = np.zeros(cost.shape, np.bool_)
        if len(c.places):
            device = prices[:, DEVICE, None] * c.uses[c.places, PLACE_BLOCKS]
            host = prices[:, HOST, None] * c.uses[c.places, PLACE_TOKENS]
            cost[:, c.places] += np.minimum(device, host)
            on_host[:, c.places] = host < device
        return cost, on_host

    def bill(self, c: RequestClass, cost: Array) -> Array:
        """Return the sums over the slots before each, as the kernels take them."""
        rows = self.slots + int(c.span.max()) + 1
        bill = np.zeros((rows, len(c.uses)), np.int64)
        np.cumsum(cost, axis=0, out=bill[1 : self.slots + 1])
        bill[self.slots + 1 :] = bill[self.slots]
        return bill

    def ahead(self, c: RequestClass, bill: Array) -> Array:
        """Return the cost of the cheapest path from each state before each slot, in units.

        After the last slot a state costs what it still needs at the least.
        """
        ahead = np.empty((len(bill), len(c.states) + 1), np.int64)
        ahead[self.slots :] = UNIT * c.after(self.slots, len(bill) - self.slots)
        ahead[: self.slots + 1, -1] = UNIT * c.rate * (np.arange(self.slots + 1) - c.zero)
        fill_ahead(ahead, self.slots, c.graph, bill)
        return ahead

    def relax(self, prices: Array) -> Relaxed:
        """Return the bound of integer prices."""
        bound = -int((prices * self.network.limits).sum())
        demand = self.no_prices()
        paths = []
        for c in self.network.classes:
            cost, on_host = self.costs(c, prices)
            bill = self.bill(c, cost)
            ahead = self.ahead(c, bill)
            path = cheapest_path(ahead, self.slots, c.graph, bill)
            bound += c.count * int(ahead[c.zero, 0])
            demand += self._demand(c, path, on_host)
            paths.append(path)
        return Relaxed(bound, demand, paths)

    def _demand(self, c: RequestClass, path: Array, on_host: Array) -> Array:
        taken = np.zeros((self.slots, len(c.uses)), np.int64)
        add_use(taken, path, c.count, c.span, c.kind)
        demand = taken @ c.uses[:, : len(RESOURCES)]
        demand[:, DEVICE] += np.where(on_host, 0, taken) @ c.uses[:, PLACE_BLOCKS]
        demand[:, HOST] += np.where(on_host, taken, 0) @ c.uses[:, PLACE_TOKENS]
        return demand

    def survivors(self, prices: Array, slack: int) -> Iterator[Array]:
        """Yield for each class the (slot, state, option) rows on paths that cost at most `slack` units too much."""
        for c in self.network.classes:
            bill = self.bill(c, self.costs(c, prices)[0])
            ahead = self.ahead(c, bill)
            behind = np.empty_like(ahead)
            fill_behind(behind, self.slots, c.graph, bill)
            found = cheap_options(slack, ahead, behind, self.slots, c.graph, bill)
            yield np.array(found, np.int64).reshape(-1, 3)

    def find_prices(
        self,
        upper_bound: float,
        rounds: int,
        start: Array | None = None,
        stop: Callable[[int], bool] = lambda bound: False,
    ) -> tuple[int, Array]:
        """Return the best bound found, in units, and its prices.

        `stop` is asked after each round, with the best bound, whether to end.
        """

        def evaluate(prices: Floats) -> tuple[int, Floats]:
            relaxed = self.relax(np.rint(prices).astype(np.int64))
            return relaxed.bound, np.where(self.network.is_priced, relaxed.demand - self.network.limits, 0.0)

        bound, prices = ascend(
            evaluate, (self.no_prices() if start is None else start).astype(float), upper_bound * UNIT, rounds=rounds,
            high=self.network.dearest, margin=UNIT, worth=UNIT // 100, momentum=0.6, go_on=lambda best: not stop(best),
        )  # fmt: skip
        return bound, np.rint(prices).astype(np.int64)
