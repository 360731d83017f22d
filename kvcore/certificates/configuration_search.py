"""The search behind `configurations` with a target: schedules whose bound under the prices is below it, tick by tick.

A state is a tick, what the running requests will hold from then on (`held`), how many of each kind have started, and
the base of the network (`running.py`) of those inside it. Let g be the cost of the starts so far, those inside less
their prices y, plus all y. What goes through the state costs at least g, plus

* the cheapest path from the base, on which requests inside start at c(i, t) + what they pay for memory - y(i);
* for each request left its cheapest start from now on, with memory, less y(i) inside (0, if that is below 0);
* what the held blocks pay for memory, less what all memory costs, both from now on.

For these are the prices' bound on what is left, with the memory that is left: the rest of the schedule starts each
request left once, and its path inside is one of those from the base. If every start of a kind inside costs 0 or more,
the path without these starts is one from the base, too, and they count apart. Where nothing is left to start, it is g.
Of states that differ in g and the base alone the least g is kept. Nothing is below the target if no state is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.certificates.proof import Outcome
from kvcore.certificates.running import Running
from kvcore.rigid import MAX_TICKS, Kind

Array = npt.NDArray[np.int64]


class States(NamedTuple):
    """States of a tick: base, code of what has started, g, and blocks held now and later [states, ticks].

    Also the state before, and the last kind outside started in this tick (-1: none).
    """

    base: Array
    code: Array
    g: Array
    held: npt.NDArray[np.int32]
    parent: Array
    last: Array

    def take(self, rows: Any) -> States:
        """Return these rows."""
        return States(*(column[rows] for column in self))


class ConfigurationSearch:
    """Searches for starts of all requests below a target, under prices of starts and of memory.

    `prices` of `kinds` are in units of 1 / `scale`, None outside the network `running`; `costs` [ticks, kinds inside]
    are those of starts with memory, less their prices, until none is below 0.
    """

    def __init__(
        self, kinds: Sequence[Kind], prices: Sequence[int | None], scale: int, memory: int, of_memory: Array,
        running: Running, costs: Array,
    ) -> None:  # fmt: skip
        """Raise InvalidCertificate where 64 bits, or memory, might not hold the sums."""
        self.kinds, self.scale, self.memory, self.running, self.ticks = kinds, scale, memory, running, len(costs)
        self.inside = np.array([price is not None for price in prices])
        self.prices = np.array([price or 0 for price in prices], np.int64)
        self.counts = np.array([kind.count for kind in kinds])
        self.rates, self.releases, self.spans = (
            np.array([getattr(kind, of) for kind in kinds]) for of in ("rate", "release", "span")
        )
        self.longest = max(kind.length for kind in kinds)
        self.of_memory = np.concatenate([of_memory, np.zeros(self.longest, np.int64)])
        latest = max(kind.cost(3 * MAX_TICKS) for kind in kinds) * scale + int(abs(self.prices).max())
        latest += memory * int(of_memory.max(initial=0)) * self.longest
        supply = 2 * memory * sum(of_memory.tolist())
        if int(self.counts.sum()) * latest + supply >= Most.sums or math.prod((self.counts + 1).tolist()) >= Most.sums:
            raise InvalidCertificate("its prices are too large, or its requests too many, to search")
        bases, rows = len(running.later), len(running.base)
        self.at_once = max(1, min(Most.at_once, Most.held // (16 * self.longest)))
        if 16 * self.longest * int(np.bincount(running.base, minlength=1).max()) > Most.held:
            raise InvalidCertificate("its requests take too long, and too many of them can start at once, to search")
        running.budget.spend(
            "the values of what can run together", (len(kinds) + self.longest) * len(self.of_memory) * 10**2,
            8 * bases * (self.ticks + 1) + 40 * rows + 24 * len(self.of_memory) * len(kinds),
        )  # fmt: skip
        self.values = np.zeros((self.ticks + 1, bases), np.int64)
        running.cheapest(costs, self.values)
        order = np.argsort(running.base, kind="stable")
        self.sets = np.repeat(np.arange(len(running.starts)), np.diff(running.begin))[order]
        self.next, self.first = running.next[order], np.searchsorted(running.base[order], np.arange(bases + 1))
        self.radix = np.concatenate(([1], np.cumprod(self.counts + 1)))
        self.loads = np.array([kind.load + (0,) * (self.longest - kind.length) for kind in kinds], np.int32)
        self.starts = np.zeros((len(running.starts), len(kinds)), np.int64)
        self.starts[:, self.inside] = running.starts
        self.later = self._later()
        self.supply = memory * np.append(np.cumsum(self.of_memory[::-1])[::-1], 0)
        """The cost of all memory from a tick on."""

    def _later(self) -> Array:
        ticks = len(self.of_memory) + int(self.releases.max()) + 1
        price = np.concatenate([self.of_memory, np.zeros(ticks, np.int64)])
        paid = [np.correlate(price, kind.profile, "valid")[:ticks] for kind in self.kinds]
        costs = np.array([self._costs(tick) for tick in range(ticks)]) + np.array(paid).T
        costs[np.arange(ticks)[:, None] < self.releases] = Most.sums
        least: Array = np.minimum.accumulate(costs[::-1])[::-1]
        return np.where(self.inside, np.maximum(least, 0), least)

    def _costs(self, tick: int) -> Array:
        costs: Array = self.scale * self.rates * (tick - self.releases + self.spans) - self.prices
        return costs

    def bounds(self, tick: int, states: States, path_from: int) -> Array:
        """Return lower bounds through each state, if requests inside start from a tick on."""
        left, costs = self.left(states), self._costs(tick)
        later = self.later[tick] if tick < len(self.later) else np.where(self.inside, np.maximum(costs, 0), costs)
        rest = self.values[min(path_from, self.ticks), states.base] + left @ later
        price = self.of_memory[tick : tick + self.longest]
        rest += states.held[:, : len(price)] @ price - int(self.supply[min(tick, len(self.of_memory))])
        bounds: Array = states.g + np.where(left.any(axis=1), rest, 0)
        return bounds

    def left(self, states: States) -> Array:
        """Return how many of each kind are not started."""
        left: Array = self.counts - states.code[:, None] // self.radix[:-1] % (self.counts + 1)
        return left

    @property
    def start(self) -> States:
        """Return the state of no start."""
        one, base = np.zeros(1, np.int64), int(self.counts @ self.prices)
        held = np.zeros((1, self.longest), np.int32)
        return States(one + self.running.empty, one, one + base, held, one, one - 1)

    def run(self, target: int, most_tries: int, look: Callable[[int, States], States] | None = None) -> Outcome:
        """Search until no state below `target` is left, one has started all requests, or a limit is reached.

        `look` sees the states of each tick, and may leave some out if nothing is to be proved.
        """
        goal, whole = (target - 1) * self.scale, int(self.counts @ self.radix[:-1])
        states, tries = self.start, 1
        states = states.take(self.bounds(0, states, 0) <= goal)
        last = self.last_start(target)
        for tick in range(min(last, 2 * MAX_TICKS) + 2):
            states = states if look is None else look(tick, states)
            if not len(states.g):
                return Outcome(True, tries)
            done = np.flatnonzero(states.code == whole)
            if len(done):
                end = int(done[states.g[done].argmin()])
                return Outcome(False, tries, cost=int(states.g[end]) // self.scale, end=end)
            step = self._step(tick, states, goal, most_tries - tries)
            tries += step[1]
            if step[0] is None:
                return Outcome(False, tries)
            states = step[0]
        return Outcome(last <= 2 * MAX_TICKS, tries)

    def last_start(self, target: int) -> int:
        """Return the last tick of a start in a schedule below the target: others cost their spans."""
        spare = max(0, target - 1 - int(self.counts @ (self.rates * self.spans)))
        return int((self.releases + spare // self.rates).max())

    def _step(self, tick: int, states: States, goal: int, most: int) -> tuple[States | None, int]:
        """The states of the next tick (None: too many tries or bytes), and the tries."""
        made, tries, number = list[States](), 0, 0
        options = np.cumsum(self.first[states.base + 1] - self.first[states.base] + 1)
        cuts = np.searchsorted(options, np.arange(self.at_once, options[-1], self.at_once))
        for part in np.split(np.arange(len(options)), cuts):
            looked = self._inside(tick, states, part)
            while len(looked.g):
                tries += len(looked.g)
                looked = looked.take(self.bounds(tick, looked, tick + 1) <= goal)
                after = looked._replace(held=np.pad(looked.held[:, 1:], ((0, 0), (0, 1))))
                made.append(after.take(self.bounds(tick + 1, after, tick + 1) <= goal))
                number += len(made[-1].g)
                together = 4 * self.longest * max(number, len(looked.g) * len(self.kinds))
                if tries > most or number > Most.layer or together > Most.held:
                    return None, tries
                looked = self._outside(tick, looked)
        return self._merged(_joined(made)), tries

    def _inside(self, tick: int, states: States, part: Array) -> States:
        options = (self.first[states.base + 1] - self.first[states.base])[part]
        few = np.repeat(part, options)
        row = np.arange(len(few)) - np.repeat(np.cumsum(options) - options, options) + self.first[states.base[few]]
        chosen = self.sets[row]
        held = states.held[few] + self.starts[chosen] @ self.loads
        fits = (self.starts[chosen] <= self.left(states.take(few))).all(axis=1) & (held <= self.memory).all(axis=1)
        fits &= ~(self.starts[chosen][:, tick < self.releases] > 0).any(axis=1)
        few, row, chosen, held = few[fits], row[fits], chosen[fits], held[fits]
        code = states.code[few] + self.starts[chosen] @ self.radix[:-1]
        g = states.g[few] + self.starts[chosen] @ self._costs(tick)
        started = States(self.next[row], code, g, held.astype(np.int32), few, np.full(len(few), -1))
        rest = states.take(part)
        return _joined(
            [rest._replace(base=self.running.later[rest.base], parent=part, last=rest.last * 0 - 1), started]
        )

    def _outside(self, tick: int, states: States) -> States:
        made, left = [states.take(slice(0))], self.left(states)
        for k in np.flatnonzero(~self.inside & (self.releases <= tick)).tolist():
            held = states.held + self.loads[k]
            few = np.flatnonzero((states.last <= k) & (left[:, k] > 0) & (held <= self.memory).all(axis=1))
            code, g = states.code[few] + self.radix[k], states.g[few] + self._costs(tick)[k]
            made.append(States(states.base[few], code, g, held[few], states.parent[few], np.full(len(few), k)))
        return _joined(made)

    def _merged(self, states: States) -> States:
        """The least g of states that differ in g and the base alone."""
        states = states.take(np.argsort(states.g, kind="stable"))
        key = np.ascontiguousarray(np.column_stack([states.code, states.held]))
        _, first = np.unique(key.view(np.dtype((np.void, key.itemsize * key.shape[1]))).ravel(), return_index=True)
        return states.take(first)


def _joined(states: Sequence[States]) -> States:
    return States(*(np.concatenate(column) for column in zip(*states, strict=True)))
