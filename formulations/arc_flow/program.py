"""The arc-flow model: one integer flow for each class of identical requests, and what the classes share.

Each constraint is a method; its name is the constraint's name in the model and in `docs/arc_flow.md`. `t` is a layer,
`c` a class of requests that differ in their ids only, `x` the flow on an arc.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from formulations.arc_flow.cost import LayerCost
from formulations.arc_flow.graph import SINK, Arc, Charge, Graph
from formulations.arc_flow.life import Action, Life
from formulations.arc_flow.read import read_schedule
from formulations.arc_flow.setting import make_setting
from formulations.arc_flow.start import Start
from formulations.batch_bigm import time_scale
from formulations.horizon import latest_completions
from formulations.timing import is_paced
from kvcore.errors import BadInput
from kvcore.instance import Instance, Request
from kvcore.metrics import OBJECTIVES, Value
from kvcore.schedule import Schedule
from kvcore.trace import Trace

Rows = Iterator[Any]
Term = tuple[float, int]
"""A coefficient and the index of a flow variable."""
Amount = Callable[[Action], int]


class ArcFlow:
    """A Pyomo model whose integer flows are the lives of the requests; `model` is minimised.

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
        self.instance, self.machine, self.objective_name = instance, instance.machine, objective
        self.setting = make_setting(instance, objective, pruned=pruned)
        self.upper_bound, self.pruned = upper_bound, pruned
        self.origin = min(request.arrival for request in instance.requests) if self.setting.timed else 0
        self.scale = 1 if self.setting.timed else time_scale(instance)
        outputs = [request.output for request in instance.requests]
        self.denominator = math.lcm(*outputs) if objective == "normalized-latency" else 1
        self.paced = is_paced(instance, objective)
        self.layers = self._layers(batches)
        self.graphs = self._graphs()
        self.feasible = all(graph.arcs for graph in self.graphs)
        if upper_bound is not None and pruned and self.feasible:
            self._remove_costly(upper_bound)
        if pruned:
            for graph in self.graphs:
                graph.contract()
        self._variables()
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

    # --- graphs --------------------------------------------------------------------------------------------------

    def _layers(self, batches: int) -> int:
        """Return how many layers hold every schedule of at most `batches` batches that is worth finding."""
        if not self.setting.timed:
            return batches
        requests = self.instance.requests
        calls = sum(request.call_time for request in requests)
        return max(request.arrival for request in requests) + calls + batches - self.origin

    def _graphs(self) -> list[Graph]:
        alike: dict[str, list[Request]] = defaultdict(list)
        for request in self.instance.requests:
            alike[request.model_dump_json(exclude={"id"})].append(request)
        latest = self._latest()
        graphs = []
        for requests in alike.values():
            life = Life(self.machine, requests[0], self.setting)
            start = requests[0].arrival - self.origin if self.setting.timed else 0
            end = min(self.layers, latest[requests[0].id])
            ids = [request.id for request in requests]
            graphs.append(Graph(life, ids, start, end, self._charge(requests[0])))
        return graphs

    def _latest(self) -> dict[str, int]:
        """Return for each request the layer by which it is done in every schedule within the upper bound."""
        requests, known = self.instance.requests, None
        if self.upper_bound is not None and self.setting.timed and self.pruned:
            known = latest_completions(self.instance, self.objective_name, self.upper_bound)
        if known is None:
            return {request.id: self.layers for request in requests}
        return {request.id: tick - self.origin for request, tick in zip(requests, known, strict=True)}

    def _charge(self, request: Request) -> Charge:
        """Return what the sum over requests counts of this one."""
        zero, slo = request.arrival - self.origin, request.slo
        match self.objective_name:
            case "total-flow-time":
                return Charge(zero, last=1)
            case "weighted-flow-time":
                return Charge(zero, last=request.weight)
            case "normalized-latency":
                return Charge(zero, last=self.denominator // request.output)
            case "total-ttft":
                return Charge(zero, first=1)
            case "late-requests" if slo is not None:
                normalized = slo.normalized_latency
                limits = [slo.latency, None if normalized is None else math.floor(normalized * request.output)]
                last = min((limit for limit in limits if limit is not None), default=None)
                paced = slo.tpot is not None and request.output > 1
                between = math.floor(slo.tpot * (request.output - 1)) if slo.tpot is not None and paced else None
                return Charge(zero, slo_first=slo.ttft, slo_last=last, slo_between=between)
        return Charge(zero)

    def _remove_costly(self, upper_bound: Value) -> None:
        """Remove arcs on which a request alone, the others at their cheapest, exceeds the upper bound."""
        if self.objective_name in ("busy-time", "makespan", "max-flow-time"):
            return
        slack = int(upper_bound * self.denominator) - sum(
            graph.count * (graph.cheapest() or 0) for graph in self.graphs
        )
        for graph in self.graphs:
            graph.keep_useful(slack)
        self.feasible = all(graph.arcs for graph in self.graphs)

    # --- variables -----------------------------------------------------------------------------------------------

    def _variables(self) -> None:
        model = self.model = pyo.ConcreteModel(name=self.name)
        self.arcs = [(c, arc) for c, graph in enumerate(self.graphs) for arc in graph.arcs]
        model.x = pyo.Var(
            range(len(self.arcs)),
            domain=pyo.NonNegativeIntegers,
            bounds=lambda _, a: (0, self.graphs[self.arcs[a][0]].count),
        )
        self.x = list(model.x.values())
        model.missing = pyo.Var(bounds=(0, 0))
        model.offloaded = pyo.Var(
            sorted(self.placed) if self.places_matter else [],
            domain=pyo.NonNegativeIntegers,
            bounds=lambda _, c, k, t: (0, self.graphs[c].count),
        )
        model.idle_layer = pyo.Var(sorted(self.terms(lambda action: int(action.idle))), domain=pyo.Binary)
        phases = [] if self.machine.hybrid else sorted(self.terms(lambda action: int(action.work > 0)))
        model.phase = pyo.Var(phases, domain=pyo.Binary)
        model.tail = pyo.Var(self._tail_values(), domain=pyo.Binary)

    @property
    def places_matter(self) -> bool:
        """Whether the host is there and limited, so that the place of KV in windows is a variable."""
        return self.setting.free_places and not self.setting.hosted and self.machine.host_memory != 0

    @cached_property
    def in_layer(self) -> dict[int, list[tuple[int, int, Action]]]:
        """Return for each layer the class, the flow variable and the action of each arc that covers it."""
        found: dict[int, list[tuple[int, int, Action]]] = defaultdict(list)
        for a, (c, arc) in enumerate(self.arcs):
            for layer, span, action in arc.steps:
                for t in range(layer, layer + span):
                    found[t].append((c, a, action))
        return dict(sorted(found.items()))

    @cached_property
    def placed(self) -> dict[tuple[int, int, int], list[Term]]:
        """Return for each class, segment and layer the tokens that may be on the device or the host, and the flows."""
        found: dict[tuple[int, int, int], list[Term]] = defaultdict(list)
        for t, uses in self.in_layer.items():
            for c, a, action in uses:
                if action.place >= 0 and action.device:
                    found[c, action.place, t].append((action.device, a))
        return found

    def terms(self, amount: Amount) -> dict[int, list[Term]]:
        """Return for each layer the flows that use something in it, with the amounts."""
        found: dict[int, list[Term]] = {
            t: [(n, a) for _, a, action in uses if (n := amount(action))] for t, uses in self.in_layer.items()
        }
        return {t: terms for t, terms in found.items() if terms}

    def sum(self, terms: list[Term]) -> LinearExpression:
        """Return the sum of coefficient times flow."""
        return LinearExpression(
            linear_coefs=[n for n, _ in terms], linear_vars=[self.x[a] for _, a in terms], constant=0
        )

    def most(self, terms: list[Term]) -> float:
        """Return what a sum is at most, because a request is in one place at a time."""
        largest: dict[int, float] = defaultdict(float)
        for n, a in terms:
            c = self.arcs[a][0]
            largest[c] = max(largest[c], n)
        return sum(self.graphs[c].count * n for c, n in largest.items())

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
                off = sum(blocks(self.kept(key)) * self.model.offloaded[key] for key in self.offloaded_at(t))
                yield self.sum(terms) - off <= limit

    def host_memory(self) -> Rows:
        """R7: sum of host tokens times x in layer t + tokens offloaded in windows <= H."""
        limit = self.machine.host_memory
        at_rest = self.terms(lambda action: action.host)
        for t in self.in_layer if limit is not None else ():
            off = [self.kept(key) * self.model.offloaded[key] for key in self.offloaded_at(t)]
            held = at_rest.get(t, [])
            if held or off:
                yield self.sum(held) + sum(off) <= limit

    def kept(self, key: tuple[int, int, int]) -> int:
        """Return the tokens that a request of that class keeps in the window of that call."""
        return int(self.placed[key][0][0])

    def offloaded_at(self, t: int) -> list[tuple[int, int, int]]:
        """Return the keys of the variables `offloaded` of a layer."""
        return self._offloaded_by_layer.get(t, [])

    @cached_property
    def _offloaded_by_layer(self) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for key in self.model.offloaded:
            found[key[2]].append(key)
        return found

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
                by_class: dict[int, list[Term]] = defaultdict(list)
                for c, a, action in self.in_layer[t]:
                    if action.work and action.decode == decode:
                        by_class[c].append((1, a))
                allowed = self.model.phase[t] if decode else 1 - self.model.phase[t]
                for c, terms in by_class.items():
                    yield self.sum(terms) <= self.graphs[c].count * allowed

    def idle(self) -> Rows:
        """Who must act next waits in idle layers only: waits[t] <= n idle[t], acts[t] <= n (1 - idle[t])."""
        n = len(self.instance.requests)
        waits, acts = self.terms(lambda action: int(action.idle)), self.terms(is_batch)
        for t in self.model.idle_layer:
            yield self.sum(waits[t]) <= self.most(waits[t]) * self.model.idle_layer[t]
            if t in acts:
                yield self.sum(acts[t]) <= n * (1 - self.model.idle_layer[t])

    def evictions_need_a_batch(self) -> Rows:
        """A drop outside a call is made in a batch: drops[t] <= n (work[t] + transfers[t])."""
        drops, acts = self.terms(lambda action: int(action.evicts)), self.terms(is_batch)
        for t, terms in drops.items():
            yield self.sum(terms) - self.most(terms) * self.sum(acts.get(t, [])) <= 0

    # --- objective -----------------------------------------------------------------------------------------------

    def _value(self, c: int, arc: Arc) -> int:
        """Return what the objective counts of an arc that completes a request: a tick, or a flow time."""
        request = self.graphs[c].life.request
        tick = self.origin + arc.end + 1
        return tick if self.objective_name == "makespan" else tick - request.arrival

    @cached_property
    def _completions(self) -> list[tuple[int, int, int]]:
        """Class, flow variable and value of the arcs that complete a request, where the largest value counts."""
        if self.objective_name not in ("makespan", "max-flow-time"):
            return []
        return [(c, a, self._value(c, arc)) for a, (c, arc) in enumerate(self.arcs) if arc.end >= 0]

    @property
    def least_value(self) -> int:
        """What the largest value is at least: that of each class alone."""
        values: dict[int, int] = {}
        for c, _, value in self._completions:
            values[c] = min(value, values.get(c, value))
        return max(values.values(), default=0)

    def _tail_values(self) -> range:
        return range(self.least_value + 1, max((value for *_, value in self._completions), default=0) + 1)

    def longest(self) -> Rows:
        """tail[v] = 1 if some request has a value of v or more: flows of class c that do <= n_c tail[v]."""
        for v in self.model.tail:
            by_class: dict[int, list[Term]] = defaultdict(list)
            for c, a, value in self._completions:
                if value >= v:
                    by_class[c].append((1, a))
            for c, terms in by_class.items():
                yield self.sum(terms) <= self.graphs[c].count * self.model.tail[v]

    def _objective(self) -> Any:
        if not self.setting.timed:
            return self.cost.total()
        if self.objective_name in ("makespan", "max-flow-time"):
            return self.least_value + sum(self.model.tail.values())
        return self.sum([(arc.cost, a) for a, (_, arc) in enumerate(self.arcs) if arc.cost])

    # --- results -------------------------------------------------------------------------------------------------

    def objective_bound(self, dual_bound: float) -> Value:
        """Turn a solver's dual bound into the objective's unit, rounded up because objectives are integers in it.

        A millionth (and a millionth of the model's unit) is taken off first, the solvers' tolerance.
        """
        bound = math.ceil((dual_bound - 1e-6 * (1 + abs(dual_bound))) * self.scale)
        return bound if self.denominator == 1 else Fraction(bound, self.denominator)

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


def is_batch(action: Action) -> int:
    """1 if an action makes its layer a batch: work, or a transfer."""
    return int(action.work > 0 or action.transfers)
