"""The way to an optimum of a rigid instance: lists, linear program, network, exact search or branch and bound."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import numpy as np

from kvcore.certificates import Certificate, Configurations, InvalidCertificate, Proof, certify
from kvcore.errors import BadInput
from kvcore.result import BoundKind
from solvers.start_time.lists import by_area, list_schedule
from solvers.start_time.multipliers import Multipliers, PricedNetwork
from solvers.start_time.network import FAR, ConfigurationNetwork
from solvers.start_time.prices import SCALE, StartColumns
from solvers.start_time.problem import Array, Jobs, RigidProblem
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
    return Done(StartTimeSolver(task, send).run())


class StartTimeSolver:
    """One solve: the best schedule as `jobs`, its `value`, a lower `bound`, and whether that is HiGHS's word.

    Branch and bound takes over from the network where that has more than `most_configurations`.
    """

    def __init__(self, task: Task, send: Send, most_configurations: int = MOST_CONFIGURATIONS) -> None:
        self.task, self.send, self.most_configurations = task, send, most_configurations
        self.problem = RigidProblem(task.instance, task.objective)
        self.deadline = time.process_time() + task.time_limit
        self.most_bytes = task.memory_limit * 2**20
        self.certificate: Certificate | None = None
        self.least = sum(kind.count * kind.rate * kind.span for kind in self.problem.kinds)
        self.value, self.bound, self.by_solver = FAR, self.least, False
        self.jobs: Jobs = []

    def run(self) -> Stop:
        """Solve, and say why it stopped."""
        self.send(Bound(self.bound, "search"))
        self.hold(by_area(self.problem))
        self.improve(min(2.0, SHARE["lists"] * self.task.time_limit))
        stopped = self._prove()
        return "proved" if self.bound >= self.value else stopped

    def hold(self, jobs: Jobs) -> None:
        """Keep these starts if they are the best so far."""
        value = self.problem.value(jobs)
        if value < self.value:
            self.value, self.jobs = value, jobs
            self.send(Found(self.problem.schedule(jobs), value))

    def improve(self, seconds: float) -> None:
        """Search around the best schedule for so long, unless little time was given: compiling may take longer."""
        if self.task.time_limit < COMPILING:
            return
        from solvers.neighbourhoods import improve  # only now: compiled code takes a second to load

        instance, start = self.task.instance, self.problem.schedule(self.jobs)
        found = improve(instance, self.task.objective, start, seconds=seconds, seed=self.task.seed)
        ticks: dict[str, int] = {}
        for batch in found.batches:
            for id in batch.work:
                ticks.setdefault(id, batch.start - instance.first_arrival)
        self.hold([(k, ticks[id]) for k, kind in enumerate(self.problem.kinds) for id in kind.ids])

    def raise_bound(self, scaled: int) -> None:
        """Take in a bound, scaled."""
        self.tighten(-(-scaled // SCALE), "search")

    def tighten(self, bound: int, kind: BoundKind) -> None:
        """Take in a bound on what is better than the best schedule, here or elsewhere: above it nothing is learnt."""
        if NEWS.value is not None:
            self.value = min(self.value, int(NEWS.value))
        bound = min(self.value, bound)
        if bound > self.bound:
            self.bound, self.by_solver = bound, kind == "solver"
            self.send(Bound(bound, kind))

    def certify(self, proof: Proof) -> None:
        """Hand over what a proof is worth to anyone, if that is more than before."""
        certificate = certify(self.task.instance, self.task.objective, proof)
        if self.certificate is None or certificate.value > self.certificate.value:
            self.certificate = certificate
            self.send(Bound(certificate.value, "certificate", certificate))
            self.raise_bound(int(certificate.value) * SCALE)

    def until(self, step: str) -> float:
        """Return when this step has to end."""
        return min(self.deadline, time.process_time() + SHARE[step] * self.task.time_limit)

    def _prove(self) -> Stop:
        columns = StartColumns(self.problem, self.horizon())
        if len(columns) > MOST_COLUMNS:
            return "memory limit"
        relaxation = relax(columns, self.value - 1, self.until("program"), self.raise_bound)
        if relaxation is None or self.bound >= self.value:
            return "time limit"
        try:
            network = self._network(relaxation, columns)
        except InvalidCertificate:
            network = None
            self.improve(min(60.0, SHARE["lists"] * 2 * self.task.time_limit))
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
                for proof in proofs(self.task.instance, self.task.objective, deadline):
                    self.certify(proof)

    def _certify_starts(self, assign: Array, steps: int) -> None:
        """Hand over what the prices of starts prove, unless checking that would take long."""
        if steps <= FEW_STEPS:
            price = {id: int(y) for kind, y in zip(self.problem.kinds, assign, strict=True) for id in kind.ids}
            starts = tuple(price[request.id] for request in self.task.instance.requests)
            self.certify(Configurations(scale=SCALE, memory=(), starts=starts))

    def horizon(self) -> int:
        """Return a tick by which some optimal schedule ends, if there is one better than the best known.

        After the last release no tick before its end is idle, and each start leaves room in the value for the least
        that all others cost.
        """
        kinds = self.problem.kinds
        spare = max(kind.release + (self.value - self.least) // kind.rate + kind.length for kind in kinds)
        return min(spare, max(kind.release for kind in kinds) + sum(kind.count * kind.length for kind in kinds))

    def _network(self, relaxation: Relaxation, columns: StartColumns) -> ConfigurationNetwork:
        ticks = int(columns.end[relaxation.alive].max())
        most = min(self.most_bytes // 4 // (ticks + 60), self.most_configurations)
        return ConfigurationNetwork(self.problem, ticks, most)

    def _search(self, network: ConfigurationNetwork, relaxation: Relaxation, columns: StartColumns) -> Stop:
        short = StartColumns(self.problem, len(network.layers))  # all that are alive end by then
        multipliers = Multipliers(short, relaxation.alive[columns.first[short.kind] + short.start])
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
            if core is network or time.process_time() > self.deadline:
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

    def _pruned(
        self, network: ConfigurationNetwork, priced: PricedNetwork, most: int
    ) -> tuple[ConfigurationNetwork, PricedNetwork]:
        """Return what is left of a network of paths with a bound of at most `most` (scaled; there are some)."""
        pruned = network.pruned(priced.cost, priced.values, most - priced.offset)
        assert pruned is not None  # the cheapest path is one
        return pruned[0], replace(priced, values=pruned[1])

    def _pass(self, network: ConfigurationNetwork, priced: PricedNetwork, width: int) -> int:
        """Search with at most `width` states a layer; return a bound on what is better than the best schedule."""
        search = StateSearch(network, self.problem.counts, priced.cost, priced.values, self.most_bytes // 4)
        passed = search.run((self.value - 1) * SCALE - priced.offset, width, self.deadline)
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
        self.hold(list_schedule(self.problem, order))

    def _close(self, relaxation: Relaxation, columns: StartColumns) -> Stop:
        def learn(bound: float) -> None:
            if abs(bound) < 1e20:
                self.tighten(int(np.ceil(bound - 1e-6)), "solver")

        if close(relaxation, columns, self.value - 1, self.deadline, self.hold, learn):
            learn(float(self.value))
            return "proved"
        return "time limit"
