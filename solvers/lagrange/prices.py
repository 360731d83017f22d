"""Prices on what the requests share, slot by slot, and the bound that any of them prove (Lagrangian relaxation).

If each request pays the prices for what it takes of every slot and otherwise ignores the others, the sum of their
cheapest ways, less the prices of all there is, is a lower bound. Prices are integers in units of 1/UNIT, so that every
bound is exact; a subgradient method in floating point proposes them. After the last slot nothing has a price.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.lagrange.kernels import Array, add_use, cheap_options, cheapest_way, fill_ahead, fill_behind
from solvers.lagrange.network import DEVICE, HOST, PLACE_BLOCKS, PLACE_TOKENS, RESOURCES, Class, Network
from solvers.lagrange.scope import UNIT

MOMENTUM = 0.6
"""How much of the last direction is kept."""
PATIENCE = 8
"""Rounds without a better bound, after which steps become shorter by SHORTER."""
SHORTER = 0.6


@dataclass(frozen=True, eq=False)
class Relaxed:
    """The bound under some prices, in units; what the cheapest ways take (slots x resources); the ways, by class."""

    bound: int
    demand: Array
    ways: list[Array]


class Market:
    """The classes of a network over a number of slots."""

    def __init__(self, network: Network, slots: int) -> None:
        self.network, self.slots = network, slots

    def no_prices(self) -> Array:
        """Return prices of nought: slots x resources."""
        return np.zeros((self.slots, len(RESOURCES)), np.int64)

    def costs(self, c: Class, prices: Array) -> tuple[Array, Array]:
        """Return (slots x kinds) what each kind pays in each slot, and whether its movable KV is on the host."""
        cost = prices @ c.uses[:, : len(RESOURCES)].T
        on_host = np.zeros(cost.shape, np.bool_)
        if len(c.places):
            device = prices[:, DEVICE, None] * c.uses[c.places, PLACE_BLOCKS]
            host = prices[:, HOST, None] * c.uses[c.places, PLACE_TOKENS]
            cost[:, c.places] += np.minimum(device, host)
            on_host[:, c.places] = host < device
        return cost, on_host

    def bill(self, c: Class, cost: Array) -> Array:
        """Return the sums over the slots before each, as the kernels take them."""
        rows = self.slots + int(c.span.max()) + 1
        bill = np.zeros((rows, len(c.uses)), np.int64)
        np.cumsum(cost, axis=0, out=bill[1 : self.slots + 1])
        bill[self.slots + 1 :] = bill[self.slots]
        return bill

    def ahead(self, c: Class, bill: Array, barred: int | None = None) -> Array:
        """Return the cost of the cheapest way from each state before each slot, in units.

        After the last slot a state costs what it still needs at the least, with the options that bounds need; or
        `barred`, with all options.
        """
        ahead = np.empty((len(bill), len(c.states) + 1), np.int64)
        ahead[self.slots :] = UNIT * c.after(self.slots, len(bill) - self.slots) if barred is None else barred
        ahead[: self.slots + 1, -1] = UNIT * c.rate * (np.arange(self.slots + 1) - c.zero)
        fill_ahead(ahead, self.slots, *c.graph(needed=barred is None), bill)
        return ahead

    def relax(self, prices: Array) -> Relaxed:
        """Return the bound of integer prices."""
        bound = -int((prices * self.network.limits).sum())
        demand = self.no_prices()
        ways = []
        for c in self.network.classes:
            cost, on_host = self.costs(c, prices)
            bill = self.bill(c, cost)
            ahead = self.ahead(c, bill)
            way = cheapest_way(ahead, self.slots, *c.graph(needed=True), bill)
            bound += c.count * int(ahead[c.zero, 0])
            demand += self._demand(c, way, on_host)
            ways.append(way)
        return Relaxed(bound, demand, ways)

    def _demand(self, c: Class, way: Array, on_host: Array) -> Array:
        taken = np.zeros((self.slots, len(c.uses)), np.int64)
        add_use(taken, way, c.count, c.span, c.kind)
        demand = taken @ c.uses[:, : len(RESOURCES)]
        demand[:, DEVICE] += np.where(on_host, 0, taken) @ c.uses[:, PLACE_BLOCKS]
        demand[:, HOST] += np.where(on_host, taken, 0) @ c.uses[:, PLACE_TOKENS]
        return demand

    def survivors(self, prices: Array, slack: int) -> Iterator[Array]:
        """Yield for each class the (slot, state, option) rows on ways that cost at most `slack` units too much."""
        for c in self.network.classes:
            bill = self.bill(c, self.costs(c, prices)[0])
            ahead = self.ahead(c, bill)
            behind = np.empty_like(ahead)
            graph = c.graph(needed=True)
            fill_behind(behind, self.slots, *graph, bill)
            found = cheap_options(slack, ahead, behind, self.slots, *graph, bill)
            yield np.array(found, np.int64).reshape(-1, 3)

    def find_prices(
        self,
        upper_bound: float,
        rounds: int,
        start: Array | None = None,
        stop: Callable[[int], bool] = lambda bound: False,
    ) -> tuple[int, Array]:
        """Return the best bound found, in units, and its prices.

        Steps have the length that Polyak's rule gives for `upper_bound`, along a direction with momentum. `stop` is
        asked after each round, with the best bound, whether to end.
        """
        best_prices = self.no_prices() if start is None else start
        prices, direction, best = best_prices.astype(float), np.zeros(best_prices.shape), -(2**62)
        length, stalled = 1.0, 0
        for _ in range(rounds):
            rounded = np.rint(prices).astype(np.int64)
            relaxed = self.relax(rounded)
            stalled += 1
            if relaxed.bound > best:
                stalled = 0 if relaxed.bound > best + UNIT // 100 else stalled
                best, best_prices = relaxed.bound, rounded
            if stop(best) or length < 1e-3:
                break
            if stalled >= PATIENCE:
                length, stalled, prices = length * SHORTER, 0, best_prices.astype(float)
            excess = np.where(self.network.is_priced, relaxed.demand - self.network.limits, 0)
            excess = np.where((prices <= 0) & (excess < 0), 0, excess)
            direction = excess + MOMENTUM * direction
            norm = float((direction**2).sum())
            if norm == 0:
                break
            step = length * max(upper_bound * UNIT - relaxed.bound, UNIT) / norm
            prices = np.clip(prices + step * direction, 0, self.network.dearest)
        return best, best_prices
