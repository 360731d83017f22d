"""What can run together at a tick: a network of configurations, with prices of starts and of memory.

With a target, `configuration_search.py` looks at all schedules that the prices leave below it. `docs/configurations.md`
has the proof of the prices (Theorem 3).
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.configuration_search import ConfigurationSearch
from kvcore.certificates.proof import Proof
from kvcore.certificates.running import Running
from kvcore.instance import LIMIT, Instance
from kvcore.rigid import MAX_TICKS, RIGID, Kind, kinds_of, memory_of, too_large

Array = npt.NDArray[np.int64]
Price = Annotated[int, Field(ge=-(10**15), le=10**15)]


class Configurations(Proof):
    """Prices in units of 1 / `scale`: of a block of memory at each tick, and of the start of each request.

    `memory[t]` is for tick t after the first arrival. `starts` has the price of each request, the same for those alike,
    or None outside the network. With `target`, a search of `tries` tries finds no schedule below it.
    """

    kind: Literal["configurations"] = "configurations"
    takes: ClassVar = RIGID
    scale: Annotated[int, Field(ge=1, le=10**6)] = 1
    memory: Annotated[tuple[Annotated[int, Field(ge=0, le=10**15)], ...], Field(max_length=MAX_TICKS)]
    starts: Annotated[tuple[Price | None, ...], Field(min_length=1, max_length=MAX_TICKS)]
    target: Annotated[int, Field(ge=1, le=LIMIT)] | None = None
    tries: Annotated[int, Field(ge=0, le=Most.tries)] = 0

    def prove(self, instance: Instance, objective: str, budget: Budget) -> int:
        """Return the target, or the least cost under the prices less that of all memory, rounded up."""
        if self.target is not None:
            search = self.search(instance, objective, budget)
            ticks = min(self.tries, search.last_start(self.target) + 2)
            work = ticks * Work.tick + self.tries * (Work.try_start + Work.held * search.longest)
            budget.spend(f"a search of {self.tries} tries", work, 3 * Most.held)
            search.run(self.target, self.tries).check(self.target, "starts", f"{self.tries} tries")
            return self.target
        kinds, prices, memory = self._read(instance, objective)
        outside = [kind for kind, price in zip(kinds, prices, strict=True) if price is None]
        bound = sum(kind.count * (price or 0) for kind, price in zip(kinds, prices, strict=True))
        bound -= memory * sum(self.memory)
        self._spend(outside, len(self.memory) + 1, budget)
        of_memory = np.array(self.memory, np.int64)
        bound += sum(kind.count * self._least(kind, of_memory) for kind in outside)
        if len(outside) < len(kinds):
            running, costs = self._network(kinds, prices, of_memory, memory, budget)
            bound += running.cheapest(costs)
        return -(-bound // self.scale)

    def search(self, instance: Instance, objective: str, budget: Budget) -> ConfigurationSearch:
        """Return the search for schedules below a target."""
        kinds, prices, memory = self._read(instance, objective)
        of_memory = np.array(self.memory, np.int64)
        running, costs = self._network(kinds, prices, of_memory, memory, budget)
        return ConfigurationSearch(kinds, prices, self.scale, memory, of_memory, running, costs)

    def _read(self, instance: Instance, objective: str) -> tuple[tuple[Kind, ...], list[int | None], int]:
        if reason := too_large(instance):
            raise InvalidCertificate(reason)
        kinds = kinds_of(instance, objective)
        prices, memory = self._by_kind(instance, kinds), memory_of(instance, kinds)
        self._check_size(kinds, memory)
        return kinds, prices, memory

    @property
    def why(self) -> str:
        """The argument."""
        if self.target is not None:
            return f"a search over starts finds nothing below in {self.tries} tries; prices say what a start is worth"
        inside = sum(price is not None for price in self.starts)
        return f"{inside} requests run only in what fits together; the other {len(self.starts) - inside} pay for memory"

    def _by_kind(self, instance: Instance, kinds: Sequence[Kind]) -> list[int | None]:
        if len(self.starts) != len(instance.requests):
            raise InvalidCertificate(f"it has prices for {len(self.starts)} requests, not {len(instance.requests)}")
        prices = [{self.starts[instance.index[id]] for id in kind.ids} for kind in kinds]
        for kind, of_kind in zip(kinds, prices, strict=True):
            if len(of_kind) > 1:
                raise InvalidCertificate(f"requests that are alike must have the same price; {kind.ids[0]} has another")
        return [of_kind.pop() for of_kind in prices]

    def _check_size(self, kinds: Sequence[Kind], memory: int) -> None:
        ticks = 2 * MAX_TICKS
        start = max(self.scale * kind.cost(ticks) + max(self.memory, default=0) * sum(kind.load) for kind in kinds)
        most = max(start, ticks * memory * max(abs(price or 0) for price in self.starts))
        if most >= 4 * Most.sums:
            raise InvalidCertificate("its prices are too large")

    def _costs(self, kind: Kind, of_memory: Array, ticks: int) -> Array:
        price = np.zeros(ticks + kind.length, np.int64)
        given = of_memory[kind.release : kind.release + len(price)]
        price[: len(given)] = given
        costs: Array = self.scale * kind.rate * (np.arange(ticks) + kind.span)
        return costs + np.correlate(price, kind.profile, "valid")[:ticks]

    def _least(self, kind: Kind, of_memory: Array) -> int:
        """After the last price of memory a start only costs more."""
        return int(self._costs(kind, of_memory, max(0, len(of_memory) - kind.release) + 1).min())

    @staticmethod
    def _spend(kinds: Sequence[Kind], ticks: int, budget: Budget) -> None:
        budget.spend(f"starts at {ticks} ticks", sum(10 * Work.call + 2 * ticks * (5 + kind.length) for kind in kinds))

    def _network(
        self, kinds: Sequence[Kind], prices: Sequence[int | None], of_memory: Array, memory: int, budget: Budget
    ) -> tuple[Running, Array]:
        """The network, and costs of starts beyond their prices [ticks, kinds] while one may cost less."""
        inside = [(kind, price) for kind, price in zip(kinds, prices, strict=True) if price is not None]
        worth = [max(0, -(-price // (self.scale * kind.rate)) - kind.span) for kind, price in inside]
        ticks = max((kind.release + w for (kind, _), w in zip(inside, worth, strict=True)), default=0)
        if ticks > 2 * MAX_TICKS or ticks * len(inside) > Most.configurations:
            raise InvalidCertificate(f"its prices pay for starts as late as tick {ticks}, too many to look at")
        self._spend([kind for kind, _ in inside], ticks, budget)
        costs = np.ones((ticks, len(inside)), np.int64)
        for k, ((kind, price), w) in enumerate(zip(inside, worth, strict=True)):
            costs[kind.release : kind.release + w, k] = self._costs(kind, of_memory, w) - price
        return Running([kind for kind, _ in inside], memory, most_configurations(ticks), budget), costs


def most_configurations(ticks: int) -> int:
    """Return the most configurations allowed for prices in this many ticks."""
    return min(Most.configurations, Most.configuration_ticks // max(1, ticks))
