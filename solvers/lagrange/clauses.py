"""What the prices leave open as a constraint program: a path for each request, within the limits of each slot.

CP-SAT works in integers. It finds the best such paths, or proves that none are better than the best schedule known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from solvers.lagrange.arcs import BLOCKS, COST, DEVICE, HEAD, OPTION, SLOT, SPAN, TAIL, TOKENS, Arcs, can_exceed
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import PathNetwork, RequestClass

Terms = list[tuple[Any, int]]
"""Variables, each with what it takes."""


class PathProgram:
    """Arcs are taken or not; better than `cutoff` only."""

    def __init__(self, network: PathNetwork, arcs: Arcs, cutoff: int, threads: int, seed: int) -> None:
        self.network, self.arcs, self.cutoff, self.threads, self.seed = network, arcs, cutoff, threads, seed
        self.model = cp_model.CpModel()
        self.taken = [self.model.new_bool_var("") for _ in arcs.table]
        self.one_path_each()
        self.limits_of_slots()
        if network.is_late:
            self.tokens_so_far()
        self.better_than_known()

    @property
    def size(self) -> tuple[int, int]:
        """Constraints and variables."""
        return len(self.model.proto.constraints), len(self.model.proto.variables)

    def one_path_each(self) -> None:
        """Each request leaves its start, and each node that it comes to but the end."""
        flow = defaultdict[int, Terms](list)
        for taken, tail, head in zip(self.taken, *self.arcs.table[:, [TAIL, HEAD]].T.tolist(), strict=True):
            flow[tail].append((taken, 1))
            flow[head].append((taken, -1))
        sources, ends = set(self.arcs.source.tolist()), set((self.arcs.node[1:] - 1).tolist())
        for node, terms in flow.items():
            if node in sources | ends:
                self.model.add_exactly_one(taken for taken, _ in terms)
            else:
                self.model.add(_sum(terms) == 0)

    def limits_of_slots(self) -> None:
        """What is taken in a slot is at most the limit; KV of a free call is on the device or the host."""
        device, host = 0, 1  # places in RESOURCES
        arcs, network = self.arcs, self.network
        limits = network.limits.tolist()
        binds = can_exceed(arcs.table, arcs.first, arcs.slots, network.limits, network.is_priced)
        use = defaultdict[tuple[int, int], Terms](list)
        movable = defaultdict[tuple[int, ...], list[Any]](list)
        for r in range(len(arcs.owner)):
            for a in range(arcs.first[r], arcs.first[r + 1]):
                row = arcs.table[a].tolist()
                for t in range(row[SLOT], min(row[SLOT] + row[SPAN], arcs.slots)):
                    for resource in np.flatnonzero(binds[t]).tolist():
                        use[t, resource].append((self.taken[a], row[DEVICE + resource]))
                    if row[TOKENS] and binds[t, device]:
                        use[t, device].append((self.taken[a], row[BLOCKS]))
                        movable[r, t, row[BLOCKS], row[TOKENS]].append(self.taken[a])
        for (_, t, blocks, tokens), where in movable.items():
            hosted = self.model.new_bool_var("")
            self.model.add(hosted <= sum(where))
            use[t, device].append((hosted, -blocks))
            use[t, host].append((hosted, tokens))
        for (_, resource), terms in use.items():
            if network.is_priced[resource]:
                self.model.add(_sum(terms) <= limits[resource])

    def tokens_so_far(self) -> None:
        """Up to the end of each slot, no more tokens are processed for the first time than there were budgets."""
        limit, so_far = self.network.instance.machine.batch_tokens, Terms()
        if limit is None:
            return
        fresh = [_fresh(c) for c in self.arcs.owner]
        by_slot = defaultdict[int, Terms](list)
        for r in range(len(self.arcs.owner)):
            for a in range(self.arcs.first[r], self.arcs.first[r + 1]):
                if tokens := int(fresh[r][self.arcs.table[a, OPTION]]):
                    by_slot[self.arcs.table[a, SLOT]].append((self.taken[a], tokens))
        everything = sum(request.peak for request in self.network.instance.requests)
        for t in range(min(self.arcs.slots, everything // limit)):
            so_far += by_slot[t]
            self.model.add(_sum(so_far) <= limit * (t + 1))

    def better_than_known(self) -> None:
        """The sum of what the paths cost is least, and less than `cutoff`."""
        cost = self.arcs.table[:, COST].tolist()
        total = _sum([(taken, each) for taken, each in zip(self.taken, cost, strict=True) if each])
        self.model.add(total <= self.cutoff - 1)
        self.model.minimize(total)

    def solve(
        self, seconds: float, effort: float, found: Callable[[list[Array]], None], prove: Callable[[int], bool]
    ) -> bool:
        """Say whether the best paths, or that there are none, could be proved in the time.

        `found` takes better paths; `prove` takes bounds, and says whether to end. `effort` is in seconds that CP-SAT
        counts itself.
        """
        solver, arcs = cp_model.CpSolver(), self.arcs
        solver.parameters.num_workers = self.threads
        solver.parameters.random_seed = self.seed
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.max_deterministic_time = effort
        solver.parameters.linearization_level = 2
        if self.threads == 1:
            solver.parameters.optimize_with_lb_tree_search = True
        else:
            solver.parameters.subsolvers.extend(["lb_tree_search", "default_lp"])

        class Reporter(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
            """Sends all paths that are found."""

            def on_solution_callback(reporter) -> None:  # noqa: N805
                taken = np.array([reporter.boolean_value(each) for each in self.taken])
                mine = (np.arange(a, b)[taken[a:b]] for a, b in zip(arcs.first, arcs.first[1:], strict=False))
                found([arcs.path(r, a[np.argsort(arcs.table[a, SLOT])]) for r, a in enumerate(mine)])

        def on_bound(bound: float) -> None:
            if math.isfinite(bound) and prove(min(self.cutoff, math.ceil(bound - 1e-6))):
                solver.stop_search()

        solver.best_bound_callback = on_bound
        status: Any = solver.solve(self.model, Reporter())
        if status == cp_model.INFEASIBLE:
            prove(self.cutoff)
        elif status == cp_model.OPTIMAL:
            prove(round(solver.objective_value))
        return status in (cp_model.INFEASIBLE, cp_model.OPTIMAL)


def _fresh(c: RequestClass) -> Array:
    """Return for each option the tokens that nothing before can have processed, whatever was dropped in between."""
    request = c.requests[0]
    first = [request.prompt, *(call.returns + 1 for call in request.calls)]
    fresh = [1 if state.generated else first[state.segment] for state in c.states]
    return np.repeat(fresh, np.diff(c.first)) * [option.action.generated for option in c.options]


def _sum(terms: Terms) -> Any:
    variables, amounts = zip(*terms, strict=True) if terms else ((), ())
    return cp_model.LinearExpr.weighted_sum(variables, amounts)
