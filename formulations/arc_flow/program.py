"""The arc-flow model: one integer flow for each class of identical requests, and what the classes share.

Each constraint is a method; its name is the constraint's name in the model and in `docs/arc_flow.md`. `t` is a layer,
`c` a class of requests that differ in their ids only, `x` the flow on an arc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyomo.environ as pyo

from formulations.arc_flow.cost import LayerCost
from formulations.arc_flow.flows import Amount, Flows, Rows, Term
from formulations.arc_flow.graph import SINK
from formulations.arc_flow.read import read_schedule
from formulations.arc_flow.start import Start
from formulations.timing import objective_bound
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import OBJECTIVES, Value
from kvcore.schedule import Schedule
from kvcore.trace import Trace


class ArcFlow(Flows):
    """A Pyomo model whose integer flows are the paths of the requests; `model` is minimised.

    A layer is a slot of one tick, or for busy-time a batch, `batches` of them. With objectives of time, all schedules
    of at most `batches` batches that start early are contained. `upper_bound` is the value of a known schedule: arcs
    are removed that no schedule of at most that value uses. `pruned=False` leaves out every reduction.

    Raises BadInput for what has no exact graph here (`formulations.arc_flow.setting`), or a graph too large.
    """

    name = "arc-flow"
    OBJECTIVES = tuple(OBJECTIVES)

    def __init__(
        self, instance: Instance, objective: str, batches: int, *, upper_bound: Value | None = None, pruned: bool = True
    ) -> None:
        if batches < 1:
            raise BadInput(f"{self.name} needs at least 1 batch, not {batches}")
        super().__init__(instance, objective, batches, upper_bound, pruned)
        self.cost = LayerCost(self)
        for constraint in self.constraints():
            self._add(constraint)
        self.model.objective = pyo.Objective(expr=self._objective())

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the model, one method each."""
        return [
            self.flow, self.device_memory, self.host_memory, self.place, self.batch_tokens, self.prefill_tokens,
            self.batch_requests, self.one_phase, self.idle, self.evictions_need_a_batch, self.longest,
            *self.cost.constraints(),
        ]  # fmt: skip

    def _add(self, constraint: Callable[[], Rows]) -> None:
        rows = pyo.ConstraintList()
        self.model.add_component(constraint.__name__, rows)
        for row in constraint():
            rows.add(row)

    # --- constraints ---------------------------------------------------------------------------------------------

    def flow(self) -> Rows:
        """At each node: sum of x out - sum of x in = n_c at the source of class c, 0 elsewhere."""
        nodes: dict[tuple[int, Any], list[Term]] = defaultdict(list)
        for a, (c, arc) in enumerate(self.arcs):
            nodes[c, arc.tail].append((1, a))
            if arc.head != SINK:
                nodes[c, arc.head].append((-1, a))
        for graph in self.graphs:
            if not graph.arcs:  # no schedule has so few layers: say it in a row, as solvers expect
                yield self.model.missing >= 1
        for (c, node), terms in nodes.items():
            yield self.sum(terms) == (self.graphs[c].count if node == self.graphs[c].source else 0)

    def limited(self, limit: int | None, amount: Amount) -> Rows:
        """Sum of the amounts <= limit, in each layer where it can be exceeded."""
        for terms in () if limit is None else self.terms(amount).values():
            if limit is not None and self.most(terms) > limit:
                yield self.sum(terms) <= limit

    def device_memory(self) -> Rows:
        """R6: sum of blocks times x in layer t - blocks offloaded in windows <= floor(M / b)."""
        limit, blocks = self.machine.block_limit, self.machine.blocks
        for t, terms in self.terms(lambda action: blocks(action.device)).items():
            if limit is not None and self.most(terms) > limit:
                off = sum(blocks(self.kept(key)) * self.model.offloaded[key] for key in self.offloaded_at[t])
                yield self.sum(terms) - off <= limit

    def host_memory(self) -> Rows:
        """R7: sum of host tokens times x in layer t + tokens offloaded in windows <= H."""
        limit = self.machine.host_memory
        at_rest = self.terms(lambda action: action.host)
        for t in self.in_layer if limit is not None else ():
            off = [self.kept(key) * self.model.offloaded[key] for key in self.offloaded_at[t]]
            held = at_rest.get(t, [])
            if held or off:
                yield self.sum(held) + sum(off) <= limit

    def place(self) -> Rows:
        """Only KV in windows is offloaded: offloaded[c,k,t] <= flow of class c in the window of call k in layer t."""
        for key in self.model.offloaded:
            yield self.model.offloaded[key] <= self.sum([(1, a) for _, a in self.placed[key]])

    def batch_tokens(self) -> Rows:
        """R5: sum of c <= C."""
        return self.limited(self.machine.batch_tokens, lambda action: action.work)

    def prefill_tokens(self) -> Rows:
        """R5: sum of c over prefills <= P."""
        limit = self.machine.prefill_tokens
        if limit is not None and limit == self.machine.batch_tokens:
            return iter(())
        return self.limited(limit, lambda action: 0 if action.decode else action.work)

    def batch_requests(self) -> Rows:
        """R5: sum of x with work <= batch_requests."""
        return self.limited(self.machine.batch_requests, lambda action: int(action.work > 0))

    def one_phase(self) -> Rows:
        """R5 without `hybrid`: decodes of class c <= n_c phase[t], prefills <= n_c (1 - phase[t])."""
        for t in self.model.phase:
            for decode in (True, False):
                which = ((c, a) for c, a, action in self.in_layer[t] if action.work and action.decode == decode)
                allowed = self.model.phase[t] if decode else 1 - self.model.phase[t]
                for count, flow in self.by_class(which):
                    yield flow <= count * allowed

    def idle(self) -> Rows:
        """A request that must act next waits in idle layers only: waits[t] <= n idle[t], acts[t] <= n (1 - idle[t])."""
        n = len(self.instance.requests)
        waits, acts = self.terms(lambda action: int(action.idle)), self.terms(lambda action: int(action.is_batch))
        for t in self.model.idle_layer:
            yield self.sum(waits[t]) <= self.most(waits[t]) * self.model.idle_layer[t]
            if t in acts:
                yield self.sum(acts[t]) <= n * (1 - self.model.idle_layer[t])

    def evictions_need_a_batch(self) -> Rows:
        """A drop outside a call is made in a batch: drops[t] <= n (work[t] + transfers[t])."""
        drops, acts = self.terms(lambda action: int(action.evicts)), self.terms(lambda action: int(action.is_batch))
        for t, terms in drops.items():
            yield self.sum(terms) - self.most(terms) * self.sum(acts.get(t, [])) <= 0

    # --- objective -----------------------------------------------------------------------------------------------

    def longest(self) -> Rows:
        """tail[v] = 1 if some request has a value of v or more: flows of class c that do <= n_c tail[v]."""
        for v in self.model.tail:
            for count, flow in self.by_class((c, a) for c, a, value in self.completions if value >= v):
                yield flow <= count * self.model.tail[v]

    def _objective(self) -> Any:
        if not self.setting.timed:
            return self.cost.total()
        if self.objective_name in ("makespan", "max-flow-time"):
            return self.least_value + sum(self.model.tail.values())
        return self.sum([(arc.cost, a) for a, (_, arc) in enumerate(self.arcs) if arc.cost])

    # --- results -------------------------------------------------------------------------------------------------

    def objective_bound(self, dual_bound: float) -> Value:
        """Turn a solver's dual bound into the objective's unit, rounded up (`timing.objective_bound`)."""
        return objective_bound(dual_bound, self.scale, self.denominator)

    def warm_start(self, trace: Trace) -> bool:
        """Give every variable its value in a refereed schedule; False if the model does not contain it.

        The schedule is started as early as it can be (but for TPOT), and brought to the form that the reductions keep.
        """
        return Start(self, trace).set()

    def schedule(self) -> Schedule:
        """Return the schedule that the flows describe, started as early as possible (but for TPOT).

        Raises InvalidSchedule if rounding the values gives none.
        """
        return read_schedule(self)
