"""The graphs of an instance, the flow variables on their arcs, and what they use in each layer.

`t` is a layer, `c` a class of requests that differ in their ids only, `x` the flow on an arc.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr import LinearExpression

from formulations.arc_flow.graph import Arc, Charge, Graph
from formulations.arc_flow.setting import make_setting
from formulations.arc_flow.transitions import Action, Transitions
from formulations.horizon import latest_completions
from formulations.refills import is_paced
from formulations.timing import time_scale
from kvcore.instance import Instance, Request, alike
from kvcore.metrics import Value, scale_of, weight

Rows = Iterator[Any]
Term = tuple[float, int]
"""A coefficient and the index of a flow variable."""
Amount = Callable[[Action], int]


class Flows:
    """What the parts of the model share."""

    name: str

    def __init__(
        self, instance: Instance, objective: str, batches: int, upper_bound: Value | None, pruned: bool
    ) -> None:
        self.instance, self.machine, self.objective_name = instance, instance.machine, objective
        self.setting = make_setting(instance, objective, pruned=pruned)
        self.upper_bound, self.pruned = upper_bound, pruned
        self.origin = instance.first_arrival if self.setting.timed else 0
        self.scale = 1 if self.setting.timed else time_scale(instance)
        self.denominator = scale_of(instance.requests, objective)
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

    # --- graphs --------------------------------------------------------------------------------------------------

    def _layers(self, batches: int) -> int:
        """Return how many layers hold every schedule of at most `batches` batches that is worth finding."""
        if not self.setting.timed:
            return batches
        requests = self.instance.requests
        calls = sum(request.call_time for request in requests)
        return max(request.arrival for request in requests) + calls + batches - self.origin

    def _graphs(self) -> list[Graph]:
        latest = self._latest()
        graphs = []
        for group in alike(self.instance.requests):
            requests = [self.instance.requests[i] for i in group]
            transitions = Transitions(self.machine, requests[0], self.setting)
            start = requests[0].arrival - self.origin if self.setting.timed else 0
            end = min(self.layers, latest[requests[0].id])
            ids = [request.id for request in requests]
            graphs.append(Graph(transitions, ids, start, end, self._charge(requests[0])))
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
        zero = request.arrival - self.origin
        match self.objective_name:
            case "total-flow-time" | "weighted-flow-time" | "normalized-latency":
                return Charge(zero, last=int(self.denominator * weight(request, self.objective_name)))
            case "total-ttft":
                return Charge(zero, first=1)
            case "late-requests":
                first, last, between = request.slo_ticks
                return Charge(zero, slo_first=first, slo_last=last, slo_between=between)
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
        limited_host = self.setting.free_places and not self.setting.hosted and self.machine.host_memory != 0
        model.offloaded = pyo.Var(
            sorted(self.placed) if limited_host else [],
            domain=pyo.NonNegativeIntegers,
            bounds=lambda _, c, k, t: (0, self.graphs[c].count),
        )
        model.idle_layer = pyo.Var(sorted(self.terms(lambda action: int(action.idle))), domain=pyo.Binary)
        phases = [] if self.machine.hybrid else sorted(self.terms(lambda action: int(action.work > 0)))
        model.phase = pyo.Var(phases, domain=pyo.Binary)
        values = range(self.least_value + 1, max((value for *_, value in self.completions), default=0) + 1)
        model.tail = pyo.Var(values, domain=pyo.Binary)

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

    def by_class(self, flows: Iterable[tuple[int, int]]) -> Iterator[tuple[int, LinearExpression]]:
        """Yield for each class its count and the sum of those of these flows (class, index) that are of it."""
        found: dict[int, list[Term]] = defaultdict(list)
        for c, a in flows:
            found[c].append((1, a))
        for c, terms in found.items():
            yield self.graphs[c].count, self.sum(terms)

    def most(self, terms: list[Term]) -> float:
        """Return what a sum is at most, because a request is in one place at a time."""
        largest: dict[int, float] = defaultdict(float)
        for n, a in terms:
            c = self.arcs[a][0]
            largest[c] = max(largest[c], n)
        return sum(self.graphs[c].count * n for c, n in largest.items())

    def kept(self, key: tuple[int, int, int]) -> int:
        """Return the tokens that a request of that class keeps in the window of that call."""
        return int(self.placed[key][0][0])

    @cached_property
    def offloaded_at(self) -> dict[int, list[tuple[int, int, int]]]:
        """The keys of the variables `offloaded` of each layer."""
        found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for key in self.model.offloaded:
            found[key[2]].append(key)
        return found

    # --- the largest value ---------------------------------------------------------------------------------------

    def _value(self, c: int, arc: Arc) -> int:
        """Return what the objective counts of an arc that completes a request: a tick, or a flow time."""
        request = self.graphs[c].transitions.request
        tick = self.origin + arc.end + 1
        return tick if self.objective_name == "makespan" else tick - request.arrival

    @cached_property
    def completions(self) -> list[tuple[int, int, int]]:
        """Class, flow variable and value of the arcs that complete a request, where the largest value counts."""
        if self.objective_name not in ("makespan", "max-flow-time"):
            return []
        return [(c, a, self._value(c, arc)) for a, (c, arc) in enumerate(self.arcs) if arc.end >= 0]

    @property
    def least_value(self) -> int:
        """What the largest value is at least: that of each class alone."""
        values: dict[int, int] = {}
        for c, _, value in self.completions:
            values[c] = min(value, values.get(c, value))
        return max(values.values(), default=0)
