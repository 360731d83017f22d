"""The flow over (state, tick) that prices leave, as an integer program."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from kvcore.certificates.slot_graph import Integers
from kvcore.certificates.slot_search import SlotSearch
from solvers.slot_flow.arc_kernels import IDLE, OPTION, TICK
from solvers.slot_flow.arcs import FlowArcs
from solvers.slot_flow.late import fresh_tokens


class FlowProgram:
    """The number of requests of each kind on each arc, below the target of the search.

    `budget`: up to each tick at most `budget` tokens a tick are processed for the first time; for paced graphs, which
    have no budgets.
    """

    def __init__(self, search: SlotSearch, arcs: FlowArcs, budget: int | None) -> None:
        self.search, self.arcs, self.counts = search, arcs, search.local.counts
        self.model = cp_model.CpModel()
        self.flow: list[Any] = []
        """Variables: the number of requests on the arcs that share one."""
        self.variable = np.zeros(len(arcs.table), np.int64)
        """The place of each arc's variable."""
        self.ticks = np.searchsorted(arcs.table[:, TICK], np.arange(arcs.slots + 1)).tolist()
        self.flow_goes_on()
        self.all_come_to_an_end()
        for tick in range(arcs.slots):
            here = slice(self.ticks[tick], self.ticks[tick + 1])
            self.limits_of_a_tick(here)
            self.either(here, arcs.idles, arcs.batches)
            if not search.graphs.hybrid:
                self.either(here, arcs.decodes, arcs.prefills)
        if budget is not None:
            self.tokens_so_far(budget)
        self.better_than_known()

    @property
    def size(self) -> tuple[int, int]:
        """Constraints and variables."""
        return len(self.model.proto.constraints), len(self.model.proto.variables)

    def total(self, here: slice, amounts: Any) -> Any:
        """Return the sum of the flow times `amounts` over these arcs."""
        terms = Counter[int]()
        some = np.flatnonzero(amounts)
        for v, amount in zip(self.variable[here][some].tolist(), amounts[some].tolist(), strict=True):
            terms[v] += amount
        return cp_model.LinearExpr.weighted_sum([self.flow[v] for v in terms], list(terms.values()))

    def flow_goes_on(self) -> None:
        """All requests of a kind leave its start, and each node that they come to; one way in and out is one arc."""
        arcs, begins = self.arcs, dict(zip(self.arcs.start.tolist(), self.counts.tolist(), strict=True))
        order = np.argsort(arcs.head, kind="stable")
        coming = np.split(order, np.searchsorted(arcs.head[order], np.arange(1, arcs.nodes)))[1:]
        leaving = np.split(np.arange(len(order)), np.searchsorted(arcs.node, np.arange(1, arcs.nodes)))[1:]
        for node, (into, out) in enumerate(zip(coming, leaving, strict=True), 1):
            if len(into) == len(out) == 1:
                self.variable[out] = self.variable[into]
                continue
            for arc in out.tolist():
                self.variable[arc] = len(self.flow)
                self.flow.append(self.model.new_int_var(0, int(self.counts[arcs.kind[arc]]), ""))
            come = sum((self.flow[v] for v in self.variable[into].tolist()), begins.get(node, 0))
            self.model.add(sum(self.flow[v] for v in self.variable[out].tolist()) == come)

    def all_come_to_an_end(self) -> None:
        """All requests of a kind take a last arc; it follows from the flow, and says more of the cost."""
        for kind, count in enumerate(self.counts.tolist()):
            last = (self.arcs.head == 0) & (self.arcs.kind == kind)
            self.model.add(self.total(slice(None), last.astype(int)) == count)

    def limits_of_a_tick(self, here: slice) -> None:
        """The use of a tick is at most each limit that can bind there."""
        for r, limit in enumerate(self.search.graphs.limits.tolist()):
            use, most = self.arcs.use[here, r], np.zeros(len(self.counts), np.int64)
            np.maximum.at(most, self.arcs.kind[here], use)
            if 0 <= limit < int(self.counts @ most):
                self.model.add(self.total(here, use) <= limit)

    def either(self, here: slice, ones: Any, others: Any) -> None:
        """In a tick no arc is one of both: idling where there is a batch, or decodes and prefills without `hybrid`."""
        ones, others, most = ones[here].astype(int), others[here].astype(int), int(self.counts.sum())
        if ones.any() and others.any():
            is_one = self.model.new_bool_var("")
            self.model.add(self.total(here, ones) <= most * is_one)
            self.model.add(self.total(here, others) <= most * (1 - is_one))

    def tokens_so_far(self, budget: int) -> None:
        """Up to the end of each tick, no more tokens are processed for the first time than there were budgets."""
        option, tokens = self.arcs.table[:, OPTION], fresh_tokens(self.search.local)[self.search.reduced.option]
        fresh = np.where(option == IDLE, 0, tokens[option])
        everything = sum(int(n) * r.peak for n, r in zip(self.counts, self.search.local.groups, strict=True))
        for tick in range(min(self.arcs.slots, everything // budget)):
            so_far = slice(0, self.ticks[tick + 1])
            self.model.add(self.total(so_far, fresh[so_far]) <= budget * (tick + 1))

    def better_than_known(self) -> None:
        """The cost of all arcs is least, and below the target."""
        cost = self.total(slice(None), self.arcs.cost)
        self.model.add(cost <= self.search.goal)
        self.model.minimize(cost)

    def solve(
        self, seconds: float, effort: float, threads: int, seed: int, *,
        found: Callable[[Integers], None], prove: Callable[[int], bool],
    ) -> bool:  # fmt: skip
        """Say whether the best flow, or that there is none, could be proved in the time.

        `found` takes better flows [arcs]; `prove` takes bounds, and says whether to end. `effort` is in CP-SAT's
        deterministic seconds.
        """
        solver, above = cp_model.CpSolver(), self.search.goal + 1
        solver.parameters.num_workers = threads
        solver.parameters.random_seed = seed
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.max_deterministic_time = effort
        solver.parameters.linearization_level = 2
        if threads == 1:
            solver.parameters.optimize_with_lb_tree_search = True
        else:
            solver.parameters.subsolvers.extend(["lb_tree_search", "default_lp"])

        class Reporter(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
            def on_solution_callback(reporter) -> None:  # noqa: N805
                found(np.array([reporter.value(each) for each in self.flow])[self.variable])

        def on_bound(bound: float) -> None:
            if math.isfinite(bound) and prove(min(above, math.ceil(bound - 1e-6))):
                solver.stop_search()

        solver.best_bound_callback = on_bound
        status: Any = solver.solve(self.model, Reporter())
        if status == cp_model.INFEASIBLE:
            prove(above)
        elif status == cp_model.OPTIMAL:
            on_bound(solver.best_objective_bound)
        return status in (cp_model.INFEASIBLE, cp_model.OPTIMAL)
