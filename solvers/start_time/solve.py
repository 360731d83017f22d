"""The way to an optimum of a rigid instance: lists, linear program, network, exact search or branch and bound."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kvcore.certificates import Certificate, Configurations, Proof, certify
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from solvers.highs import version
from solvers.start_time.configurations import Configurations as AllConfigurations
from solvers.start_time.configurations import TooMany
from solvers.start_time.lists import Jobs, Lists
from solvers.start_time.multipliers import Multipliers, Priced
from solvers.start_time.network import FAR, Network
from solvers.start_time.prices import SCALE, Columns, Mask
from solvers.start_time.problem import Array, Problem, Starts
from solvers.start_time.program import Relaxation, close, relax
from solvers.start_time.states import Interrupted, StateSearch
from solvers.task import NEWS, Bound, Done, Found, Send, Stop, Task

WIDTHS = (300, 3_000, 30_000, 300_000, 10**12)
"""States kept in each layer, pass after pass; the last one cuts nothing."""

MOST_CONFIGURATIONS = 3_000_000
"""Beyond these, branch and bound takes over from the network."""
MOST_COLUMNS = 1_000_000
"""Starts, over all kinds, that a linear program is built for."""

LARGE = 2_000_000
"""Arcs of a network in which prices are found on its core only: what is likely to be part of a better schedule."""
HOPE = 0.5
"""The core is what costs less than this fraction of the way from the bound to the best schedule."""
COMPILING = 20.0
"""Seconds that the compiled search for schedules may take to load where it was never used before."""
FAR_OFF = 0.08
"""Where the open gap exceeds this fraction of the value, prices of configurations come before branch and bound."""
PHASES = 10
WORTH = 0.1
"""A core that helps to close less than this fraction of the gap is not tried again."""
FEW_STEPS = 50_000_000
"""Configurations times ticks that are gone through again for a certificate."""
MANY = 1_000_000
"""Where a network has more configurations, prices of smaller ones come first."""
GLANCE = 1_000
"""States kept where a pass only looks for a schedule."""

SHARE = {"lists": 0.04, "program": 0.12, "climb": 0.3, "prices": 0.8, "first prices": 0.5}
"""Of the time limit, what each step may take at most."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; schedules and bounds are sent as they come."""
    solver = StartTimeSolver(
        task.instance,
        task.objective,
        time_limit=task.time_limit,
        memory_limit=task.memory_limit,
        seed=task.seed,
        found=lambda schedule, value: send(Found(schedule, value)),
        bounded=lambda bound, by_solver: send(Bound(bound, "solver" if by_solver else "exhaustive")),
        certified=lambda certificate: send(Bound(certificate.value, "certificate", certificate)),
    )
    return Done(solver.run().stopped, version())


@dataclass(frozen=True)
class Outcome:
    """The best schedule, a lower bound, what proved it, and why the solve stopped."""

    value: int
    bound: int
    by_solver: bool
    stopped: Stop


class StartTimeSolver:
    """One solve.

    `found` gets every better schedule, `bounded` every better bound and whether it is HiGHS's word, and `certified`
    every certificate that proves more than the one before.
    """

    def __init__(
        self,
        instance: Instance,
        objective: str,
        *,
        time_limit: float,
        memory_limit: int,
        seed: int,
        most_configurations: int = MOST_CONFIGURATIONS,
        found: Callable[[Schedule, int], None],
        bounded: Callable[[int, bool], None],
        certified: Callable[[Certificate], None] = lambda certificate: None,
    ) -> None:
        self.problem = Problem(instance, objective)
        self.lists, self.seed = Lists(self.problem), seed
        self.began, self.time_limit = time.monotonic(), time_limit
        self.most_bytes = memory_limit * 2**20
        self.most_configurations = most_configurations
        self.found, self.bounded, self.certified = found, bounded, certified
        self.certificate: Certificate | None = None
        least = sum(kind.count * kind.rate * kind.span for kind in self.problem.kinds)
        self.value, self.bound, self.by_solver = FAR, least, False
        self.jobs: Jobs = []

    def run(self) -> Outcome:
        """Solve, and say what came of it."""
        self.bounded(self.bound, False)
        self.hold(self.lists.by_area())
        self.improve(min(2.0, SHARE["lists"] * self.time_limit))
        stopped: Stop = self._prove()
        if self.bound >= self.value:
            stopped = "proved"
        return Outcome(self.value, self.bound, self.by_solver, stopped)

    def hold(self, jobs: Jobs) -> None:
        """Keep these starts if they are the best so far."""
        value = self.lists.cost(jobs)
        if value < self.value:
            self.value, self.jobs = value, jobs
            self.found(self.problem.schedule(self.lists.starts(jobs)), value)

    def improve(self, seconds: float) -> None:
        """Search around the best schedule for so long, unless little time was given: compiling may take longer."""
        if self.time_limit < COMPILING:
            return
        from solvers.neighbourhoods import improve  # only now: compiled code takes a second to load

        problem = self.problem
        start = problem.schedule(self.lists.starts(self.jobs))
        found = improve(problem.instance, problem.objective, start, seconds=seconds, seed=self.seed)
        ticks: dict[str, int] = {}
        for batch in found.batches:
            for id in batch.work:
                ticks.setdefault(id, batch.start - problem.arrival)
        self.hold([(k, ticks[id]) for k, kind in enumerate(problem.kinds) for id in kind.ids])

    def raise_bound(self, scaled: int) -> None:
        """Take in a bound on what is better than the best schedule: nothing above the latter is learnt."""
        self.listen()
        bound = min(self.value, -(-scaled // SCALE))
        if bound > self.bound:
            self.bound, self.by_solver = bound, False
            self.bounded(bound, False)

    def certify(self, proof: Proof) -> None:
        """Hand over what a proof is worth to anyone, if that is more than before."""
        certificate = certify(self.problem.instance, self.problem.objective, proof)
        if self.certificate is None or certificate.value > self.certificate.value:
            self.certificate = certificate
            self.certified(certificate)
            self.raise_bound(int(certificate.value) * SCALE)

    def listen(self) -> None:
        """Look only for schedules that are better than the best known elsewhere."""
        if NEWS.value is not None:
            self.value = min(self.value, int(NEWS.value))

    def until(self, step: str) -> float:
        """Return when this step has to end."""
        return min(self.began + self.time_limit, time.monotonic() + SHARE[step] * self.time_limit)

    def _prove(self) -> Stop:
        columns = Columns(self.problem, self.horizon())
        if len(columns) > MOST_COLUMNS:
            return "memory limit"
        relaxation = relax(columns, self.value - 1, self.until("program"), self.raise_bound)
        if relaxation is None or self.bound >= self.value:
            return "time limit"
        try:
            network = self._network(relaxation, columns)
        except TooMany:
            network = None
            self.improve(min(60.0, SHARE["lists"] * 2 * self.time_limit))
        if network is None or len(network.layers[0].head) > MANY:
            self._certify_prices(self.until("prices" if network is None else "first prices"))
        if network is None:
            return self._close(relaxation, columns)
        try:
            return self._search(network, relaxation, columns)
        except Interrupted as limit:
            return limit.why

    def _certify_prices(self, deadline: float) -> None:
        """Where the gap is wide, look for prices with a certificate."""
        from bounds.configurations import proofs  # loading its compiler takes a while

        if self.value - self.bound > FAR_OFF * self.value:
            with contextlib.suppress(BadInput):  # too large for it
                for proof in proofs(self.problem.instance, self.problem.objective, deadline):
                    self.certify(proof)

    def _certify_starts(self, assign: Array, steps: int) -> None:
        """Hand over what the prices of starts prove, unless checking that would take long."""
        if steps <= FEW_STEPS:
            price = {id: int(y) for kind, y in zip(self.problem.kinds, assign, strict=True) for id in kind.ids}
            starts = tuple(price[request.id] for request in self.problem.instance.requests)
            self.certify(Configurations(scale=SCALE, memory=(), starts=starts))

    def horizon(self) -> int:
        """Return a tick by which some optimal schedule ends, if there is one better than the best known.

        After the last release no tick before its end is idle, and each start leaves room in the value for the least
        that all others cost.
        """
        kinds = self.problem.kinds
        least = sum(kind.count * kind.rate * kind.span for kind in kinds)
        spare = max(kind.release + (self.value - least) // kind.rate + kind.length for kind in kinds)
        return min(spare, max(kind.release for kind in kinds) + sum(kind.count * kind.length for kind in kinds))

    def _network(self, relaxation: Relaxation, columns: Columns) -> Network:
        ticks = int(columns.end[relaxation.alive].max())
        most = min(self.most_bytes // 4 // (ticks + 60), self.most_configurations)
        return Network(AllConfigurations(self.problem, most), ticks)

    def _search(self, network: Network, relaxation: Relaxation, columns: Columns) -> Stop:
        columns, alive = _shortened(columns, relaxation, len(network.layers))
        multipliers = Multipliers(columns, alive)
        priced = multipliers.price(network, relaxation.prices.assign)
        configurations = len(network.layers[0].head)
        large = LARGE
        for _ in range(PHASES):
            self.raise_bound(priced.bound)
            if self.bound >= self.value:
                return "proved"
            network, priced = self._pruned(network, priced, self.value * SCALE - SCALE)
            core, target = network, self.value * SCALE - SCALE
            if network.arcs() > large:
                target = int((1 - HOPE) * priced.bound + HOPE * target)
                core, _ = self._pruned(network, priced, target)
            climbed = multipliers.climb(core, priced.assign, target, self.until("climb"), self._follow)
            self._pass(core, climbed, GLANCE)
            before, priced = priced, climbed if core is network else multipliers.price(network, climbed.assign)
            if priced.bound - before.bound < WORTH * (self.value * SCALE - before.bound):
                priced, large = max(before, priced, key=lambda p: p.bound), FAR
            if core is network or time.monotonic() > self.began + self.time_limit:
                break
        self._certify_starts(priced.assign, configurations * len(network.layers))
        for width in WIDTHS:
            self.raise_bound(priced.bound)
            if self.bound >= self.value:
                return "proved"
            network, priced = self._pruned(network, priced, self.value * SCALE - SCALE)
            self.raise_bound(self._pass(network, priced, width))
            if self.bound >= self.value:
                return "proved"
        return "memory limit"

    def _pruned(self, network: Network, priced: Priced, most: int) -> tuple[Network, Priced]:
        """Return what is left of a network of paths with a bound of at most `most` (scaled; there are some)."""
        pruned = network.pruned(priced.cost, priced.values, most - priced.offset)
        assert pruned is not None  # the cheapest path is one
        return pruned[0], replace(priced, values=pruned[1])

    def _pass(self, network: Network, priced: Priced, width: int) -> int:
        """Search with at most `width` states a layer; return a bound on what is better than the best schedule."""
        search = StateSearch(network, self.problem.counts, priced.cost, priced.values, self.most_bytes // 4)
        passed = search.run((self.value - 1) * SCALE - priced.offset, width, self.began + self.time_limit)
        if passed.path is not None:
            self._follow(passed.path)
        return min(passed.cut + priced.offset, self.value * SCALE)

    def _follow(self, path: list[Array]) -> None:
        """Try the starts of a path: as they are, if each request starts once, and as an order for a list."""
        jobs = [(k, t) for t, new in enumerate(path) for k in np.repeat(np.arange(len(new)), new).tolist()]
        if np.array_equal(sum(path), self.problem.counts):
            self.hold(jobs)
        order, unstarted = [], self.problem.counts.copy()
        for k, _ in [*jobs, *self.jobs]:
            if unstarted[k]:
                unstarted[k] -= 1
                order.append(k)
        self.hold(self.lists.build(order))

    def _close(self, relaxation: Relaxation, columns: Columns) -> Stop:
        def take(starts: Starts) -> None:
            self.hold([(k, starts[id]) for k, kind in enumerate(self.problem.kinds) for id in kind.ids])

        def learn(bound: float) -> None:
            whole = min(self.value, int(np.ceil(bound - 1e-6))) if abs(bound) < 1e20 else 0
            if whole > self.bound:
                self.bound, self.by_solver = whole, True
                self.bounded(whole, True)

        if close(relaxation, columns, self.value - 1, self.began + self.time_limit, take, learn):
            learn(float(self.value))
            return "proved"
        return "time limit"


def _shortened(columns: Columns, relaxation: Relaxation, ticks: int) -> tuple[Columns, Mask]:
    """Return the columns that end by `ticks` (all that are alive do), and which of them are alive."""
    short = Columns(columns.problem, ticks)
    alive = relaxation.alive[columns.first[short.kind] + short.start]
    return short, alive
