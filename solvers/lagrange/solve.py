"""The method as a whole: prices, better schedules, fixing, and CP-SAT on the paths that are left, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import numpy as np

from heuristics import best_schedule
from kvcore.certificates import Alone
from kvcore.errors import BadInput
from kvcore.metrics import objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Schedule
from solvers import neighbourhoods
from solvers.lagrange.arcs import Arcs
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import PathNetwork, RequestClass
from solvers.lagrange.packing import Packing
from solvers.lagrange.prices import SlotRelaxation
from solvers.lagrange.read import read_schedule
from solvers.lagrange.scope import FAR, MARGIN, UNIT
from solvers.task import NEWS, Bound, Done, Found, Send, Size, Stop, Task

CLAUSES, IMPROVE_SECONDS = 10.0, 1.5
"""How long CP-SAT searches at first, in seconds of its own count (four times as long in each turn after that), and how
long destroy and repair takes in between."""
FIRST_SECONDS = 0.03
"""How long destroy and repair takes for each request before CP-SAT begins."""
MOST_ARCS = 300_000
"""With more arcs left, prices and better schedules go on without CP-SAT."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; schedules and bounds are sent as they come."""
    import ortools  # noqa: F401 - it may not be there, and then nothing is begun

    return Done(PricesAndClauses(task, send).run())


class PricesAndClauses:
    """One solve: the best schedule and the best bound so far, and what they come from."""

    def __init__(self, task: Task, send: Send) -> None:
        self.task, self.send = task, send
        self.started = time.monotonic()
        self.deadline = self.started + task.time_limit
        self.cutoff = FAR // UNIT if task.upper_bound is None else min(int(task.upper_bound), FAR // UNIT)
        self.bound, self.turns = 0, 0
        self._prove(int(Alone().value(task.instance, task.objective)))
        self.network = PathNetwork(task.instance, task.objective)
        self.schedule = task.start or best_schedule(task.instance, task.objective)[1]
        self._hold(self.schedule)

    def run(self) -> Stop:
        """Run until the bound meets the best schedule, or time is up."""
        self._solve()
        if self.network.is_late and not self.is_done():  # the budgets that were left out bind
            try:
                self.network = PathNetwork(self.task.instance, self.task.objective, exact=True)
            except BadInput:  # too many options; what is proved stays
                return "memory limit"
            self._solve()
        return self._why()

    def _solve(self) -> None:
        before = time.monotonic()
        self._improve(0.0)
        self.started += time.monotonic() - before  # it may have compiled, which says nothing of the instance
        self._relax()
        self._find_prices(60)
        self._improve(self._share(0.1))
        self._find_prices(200)
        self._improve(self._share(0.2))
        if not self.is_done():
            self._search()

    # --- what is known -------------------------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether to stop: it is proved, or time is up."""
        if NEWS.value is not None:
            self.cutoff = min(self.cutoff, int(NEWS.value))
        return self.bound >= self.cutoff or time.monotonic() >= self.deadline

    def _why(self) -> Stop:
        return "proved" if self.bound >= self.cutoff else "time limit"

    @property
    def time_left(self) -> float:
        """Seconds until time is up."""
        return max(0.0, self.deadline - time.monotonic())

    def _share(self, share: float) -> float:
        """Return so much of the time that is left, in seconds, but not much more than what has passed."""
        most = FIRST_SECONDS * len(self.task.instance.requests) + time.monotonic() - self.started
        return min(most, share * self.time_left)

    def _prove(self, bound: int) -> bool:
        """Take in a bound, in ticks; return whether to stop."""
        if bound > self.bound:
            self.bound = bound
            self.send(Bound(bound))
        return self.is_done()

    def _hold(self, schedule: Schedule) -> None:
        """Keep and report a schedule if it is better than the best known."""
        value = int(objective_value(verify_schedule(self.task.instance, schedule), self.task.objective))
        if value < self.cutoff:
            self.schedule, self.cutoff = schedule, value
            self.send(Found(schedule, value))

    # --- schedules -----------------------------------------------------------------------------------------------

    def _can_improve(self) -> bool:
        return neighbourhoods.why_not(self.task.instance, self.task.objective) is None

    def _improve(self, seconds: float) -> None:
        """Destroy and repair the best schedule for so many seconds, or until it meets the bound."""
        if not self._can_improve() or self.is_done():
            return
        seconds = min(seconds, self.time_left)
        self.turns += 1
        found = neighbourhoods.improve(
            self.task.instance, self.task.objective, self.schedule,
            seconds=seconds, seed=self.task.seed + self.turns, target=self.bound,
        )  # fmt: skip
        self._hold(found)

    # --- slots ---------------------------------------------------------------------------------------------------

    def _relax(self) -> None:
        """Begin without prices, over the slots that the best schedule takes, and what each request takes alone."""
        last = self.schedule.batches[-1].start - self.network.origin
        alone = MARGIN + max(c.zero + int(c.rest[0]) for c in self.network.classes)
        self.relaxation = SlotRelaxation(self.network, min(max(16 + last, alone), self.network.most_slots))
        self.prices = self.relaxation.no_prices()

    def _use_slots(self, slots: int) -> None:
        """Go on with another number of slots, as far as there may be so many; prices stay."""
        slots = min(slots, self.network.most_slots)
        prices = self.prices[:slots]
        self.prices = np.vstack([prices, np.zeros((slots - len(prices), prices.shape[1]), np.int64)])
        self.relaxation = SlotRelaxation(self.network, slots)

    # --- bounds --------------------------------------------------------------------------------------------------

    def _find_prices(self, rounds: int) -> None:
        if not self.is_done():
            stop: Callable[[int], bool] = lambda bound: self._prove(-(-bound // UNIT))  # noqa: E731
            _, self.prices = self.relaxation.find_prices(self.cutoff, rounds, self.prices, stop)

    def _arcs(self) -> Arcs | None:
        """Return the arcs that a better schedule may use, with so many slots that none leaves them.

        None: there are too many arcs or slots.
        """
        while True:
            slack = (self.cutoff - 1) * UNIT - self.relaxation.relax(self.prices).bound
            survivors = list(self.relaxation.survivors(self.prices, slack))
            if sum(map(len, survivors)) > MOST_ARCS:
                return None
            if not any(self._leaves(c, rows) for c, rows in zip(self.network.classes, survivors, strict=True)):
                return Arcs(self.network, self.relaxation.slots, survivors)
            if self.relaxation.slots == self.network.most_slots:
                return None
            self._use_slots(self.relaxation.slots * 5 // 4 + 16)

    def _leaves(self, c: RequestClass, rows: Array) -> bool:
        """Whether some option leads beyond the last slot."""
        goes_on = c.head[rows[:, 2]] < len(c.states)
        return bool((goes_on & (rows[:, 0] + c.span[rows[:, 2]] >= self.relaxation.slots)).any())

    def _search(self) -> None:
        """Let CP-SAT find the best paths among what fixing leaves, in turns with repairs."""
        arcs, effort, proved = self._arcs(), CLAUSES, False
        while arcs is None and not self.is_done():
            self._find_prices(50)
            self._improve(self._share(0.5))
        if arcs is None:
            return
        from solvers.lagrange.clauses import PathProgram  # it loads OR-Tools, which may not be there

        while not proved and not self.is_done():
            program = PathProgram(self.network, arcs, self.cutoff, self.task.threads, self.task.seed)
            self.send(Size(*program.size, 0))
            proved = program.solve(self.time_left, effort, partial(self._found, arcs), self._prove)
            effort *= 4
            if not proved:
                self._improve(IMPROVE_SECONDS)
                arcs = self._arcs() or arcs

    def _found(self, arcs: Arcs, paths: list[Array]) -> None:
        """Take in better paths, if they respect all budgets."""
        packing = Packing(self.network, self.relaxation.slots)
        for c, path in zip(arcs.owner, paths, strict=True):
            packing.add(c, path)
        if packing.fits():
            with suppress(InvalidSchedule):  # an eviction in a slot that is no batch
                self._hold(read_schedule(packing, arcs.owner, paths))
