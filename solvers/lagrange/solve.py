"""The method as a whole: prices, repairs, fixing, branch and bound, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from kvcore import __version__
from kvcore.certificates import Alone
from kvcore.errors import BadInput
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from solvers.lagrange.arcs import Arcs
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import Class, Network
from solvers.lagrange.packing import Packing
from solvers.lagrange.prices import Market
from solvers.lagrange.read import read_schedule
from solvers.lagrange.repair import Repair
from solvers.lagrange.scope import FAR, MARGIN, UNIT
from solvers.lagrange.tree import Tree, fits
from solvers.task import NEWS, Bound, Done, Found, Send, Size, Stop, Task

MOST_ARCS = 3_000_000
"""With more arcs left, prices and repairs go on without branch and bound."""
TREE_SECONDS, REPAIR_SECONDS = 8.0, 1.5
"""How long branching and repairs take turns."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; schedules and bounds are sent as they come."""
    return Lagrange(task, send).run()


def repair(task: Task, send: Send) -> Done:
    """Look for schedules only, until time is up."""
    return Lagrange(task, send).only_repair()


class Lagrange:
    """One solve: the best schedule and the best bound so far, and what they come from."""

    def __init__(self, task: Task, send: Send) -> None:
        self.task, self.send = task, send
        self.started = time.monotonic()
        self.deadline = self.started + task.time_limit
        self.cutoff = FAR // UNIT if task.upper_bound is None else min(int(task.upper_bound), FAR // UNIT)
        self.bound = 0
        self._prove(int(Alone().value(task.instance, task.objective)))
        self._look_at(Network(task.instance, task.objective))

    def _look_at(self, network: Network) -> None:
        self.network = network
        self.owner: list[Class] = [c for c in network.classes for _ in c.requests]
        self.market = Market(network, self._first_slots())
        self.prices = self.market.no_prices()
        self.repair = Repair(self.market, self.prices, self.task.seed)

    def run(self) -> Done:
        """Run until the bound meets the best schedule, or time is up."""
        self._solve()
        if self.network.is_late and not self.is_done():  # the budgets that were left out bind
            try:
                self._look_at(Network(self.task.instance, self.task.objective, exact=True))
            except BadInput:  # too many options; what is proved stays
                return Done("memory limit", __version__)
            self._solve()
        return Done(self._why(), __version__)

    def only_repair(self) -> Done:
        """Repair until time is up, with no proof in mind."""
        self._construct()
        self._find_prices(120)
        self._construct_by_prices()
        while not self.is_done():
            self._repair(60.0, patience=60.0)
        return Done(self._why(), __version__)

    def _solve(self) -> None:
        self._construct()
        self._find_prices(60)
        self._construct_by_prices()
        self._repair(self._share(0.1))
        self._find_prices(200)
        self._repair(self._share(0.2))
        if not self.is_done():
            self._branch()

    # --- what is known -------------------------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether to stop: it is proved, or time is up."""
        if NEWS.value is not None:
            self.cutoff = min(self.cutoff, int(NEWS.value))
        return self.bound >= self.cutoff or time.monotonic() >= self.deadline

    def _why(self) -> Stop:
        return "proved" if self.bound >= self.cutoff else "time limit"

    def _share(self, share: float) -> float:
        """Return so much of the time that is left, in seconds, but not much more than what has passed."""
        now = time.monotonic()
        return min(0.5 + now - self.started, share * max(0.0, self.deadline - now))

    def _prove(self, bound: int) -> bool:
        """Take in a bound, in ticks; return whether to stop."""
        if bound > self.bound:
            self.bound = bound
            self.send(Bound(bound))
        return self.is_done()

    def _found(self) -> None:
        """Report the best schedule of the repairs if it is better than the best known."""
        if self.repair.best_ways and self.repair.best < self.cutoff:
            schedule = self._schedule(self.repair.best_ways)  # started early, it may be better than its ways
            trace = verify_schedule(self.task.instance, schedule)
            self.cutoff = int(objective_value(trace, self.task.objective))
            self.send(Found(schedule, self.cutoff))

    def _schedule(self, ways: list[Array]) -> Schedule:
        packing = Packing(self.network, self.market.slots)
        for c, way in zip(self.owner, ways, strict=True):
            packing.add(c, way)
        return read_schedule(packing, self.owner, ways)

    # --- schedules -----------------------------------------------------------------------------------------------

    def _first_slots(self) -> int:
        return MARGIN + max(c.zero + int(c.rest[0]) for c in self.network.classes)

    def _construct(self) -> None:
        """Insert the requests one after another, in several orders; more slots where they do not suffice."""
        n = range(len(self.owner))
        ends = [c.zero + int(c.rest[0]) for c in self.owner]
        for order in (sorted(n, key=ends.__getitem__), sorted(n, key=lambda i: self.owner[i].zero)):
            while not self.repair.construct(order, 0.0):
                if self.market.slots == self.network.most_slots:
                    raise MemoryError("no schedule in so many slots")
                self._use_slots(2 * self.market.slots)
            self._found()
        ends = [int(way[-1, 0]) for way in self.repair.best_ways]
        self._use_slots(16 + max(ends))

    def _construct_by_prices(self) -> None:
        """Insert the requests in the order in which they end under the prices."""
        ways = self.market.relax(self.prices).ways
        ends = [int(way[-1, 0]) for c, way in zip(self.network.classes, ways, strict=True) for _ in c.requests]
        order = sorted(range(len(self.owner)), key=ends.__getitem__)
        for share in (0.1, 0.3, 1.0):
            self.repair.construct(order, share)
            self._found()

    def _use_slots(self, slots: int) -> None:
        """Go on with another number of slots, as far as there may be so many; ways and prices stay."""
        slots = min(slots, self.network.most_slots)
        prices = self.prices[:slots]
        self.prices = np.vstack([prices, np.zeros((slots - len(prices), prices.shape[1]), np.int64)])
        self.market = Market(self.network, slots)
        ways, best = self.repair.best_ways, self.repair.best
        self.repair = Repair(self.market, self.prices, self.task.seed)
        if ways:
            self.repair.adopt(ways, best)

    def _repair(self, seconds: float, patience: float | None = None) -> None:
        """Repair for so many seconds, or until nothing better has come for `patience` (by default a third of them)."""
        self.repair.prices = self.prices
        until, patience = time.monotonic() + seconds, patience or seconds / 3
        last = [time.monotonic(), self.repair.best]

        def go_on(best: int) -> bool:
            now = time.monotonic()
            if best < last[1]:
                last[:] = [now, best]
                self._found()
            return now < until and now < last[0] + patience and not self.is_done()

        self.repair.run(go_on)

    # --- bounds --------------------------------------------------------------------------------------------------

    def _find_prices(self, rounds: int) -> None:
        if not self.is_done():
            stop: Callable[[int], bool] = lambda bound: self._prove(-(-bound // UNIT))  # noqa: E731
            _, self.prices = self.market.find_prices(self.cutoff, rounds, self.prices, stop)

    def _arcs(self) -> Arcs | None:
        """Return the arcs that a better schedule may use, with so many slots that none leaves them.

        None: there are too many arcs or slots.
        """
        while True:
            slack = (self.cutoff - 1) * UNIT - self.market.relax(self.prices).bound
            survivors = list(self.market.survivors(self.prices, slack))
            if sum(map(len, survivors)) > MOST_ARCS:
                return None
            if not any(self._leaves(c, rows) for c, rows in zip(self.network.classes, survivors, strict=True)):
                return Arcs(self.network, self.market.slots, survivors)
            if self.market.slots == self.network.most_slots:
                return None
            self._use_slots(self.market.slots * 5 // 4 + 16)

    def _leaves(self, c: Class, rows: Array) -> bool:
        """Whether some option leads beyond the last slot."""
        goes_on = c.head[rows[:, 2]] < len(c.states)
        return bool((goes_on & (rows[:, 0] + c.span[rows[:, 2]] >= self.market.slots)).any())

    def _branch(self) -> None:
        arcs = self._arcs()
        if arcs is None:
            while not self.is_done():
                self._find_prices(50)
                self._repair(self._share(0.5))
            return
        self.send(Size(int(self.network.is_priced.sum()) * self.market.slots, len(arcs.table), 0))
        tree = Tree(self.network, arcs, self.prices, self.cutoff)
        while tree.open and not self.is_done():
            until = min(self.deadline, time.monotonic() + TREE_SECONDS)
            tree.run(partial(self._branching, tree, until), self._settled)
            self._prove(tree.bound)
            if tree.open and not self.is_done():
                self._repair(REPAIR_SECONDS)
                tree.cutoff = self.cutoff
        self._prove(tree.bound)

    def _branching(self, tree: Tree, until: float) -> bool:
        tree.cutoff = min(tree.cutoff, self.cutoff)
        return not self._prove(tree.bound) and time.monotonic() < until

    def _settled(self, ways: list[Array]) -> int:
        """Take in the ways of a settled node if they respect all budgets; return the value of the best known."""
        packing = Packing(self.network, self.market.slots)
        for c, way in zip(self.owner, ways, strict=True):
            if not fits(packing, c, way):
                return self.cutoff
            packing.add(c, way)
        self.repair.adopt(ways, sum(Repair.cost(c, way) for c, way in zip(self.owner, ways, strict=True)))
        self._found()
        return self.cutoff
