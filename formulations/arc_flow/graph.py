"""The layered graph of one class of requests: every path from the source to the sink is one way to serve a request."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from formulations.arc_flow.transitions import Action, NodeState, Transitions
from kvcore.errors import BadInput, MissingTool

MOST_ARCS = 300_000
"""Graphs with more arcs are refused: building the model alone would take minutes."""


class Node(NamedTuple):
    """A state before a layer; the sink, where the request is done, has no state."""

    layer: int
    state: NodeState | None


class TimedAction(NamedTuple):
    """An action in `span` layers from `layer` on."""

    layer: int
    span: int
    action: Action


@dataclass(eq=False, slots=True)
class Arc:
    """What a request may do from one node to the next. `end`: the layer that completes it, or -1."""

    tail: Node
    head: Node
    steps: tuple[TimedAction, ...]
    cost: int = 0
    end: int = -1


SINK = Node(-1, None)


@dataclass(frozen=True)
class Charge:
    """What a class pays: `weight` a layer up to its first or last token, or 1 if it becomes late.

    `zero` is the layer of its arrival, from which layers are counted. The SLOs bound the layers to the first token, to
    the end, and between the two; None where they do not count.
    """

    zero: int = 0
    first: int = 0
    last: int = 0
    slo_first: int | None = None
    slo_last: int | None = None
    slo_between: int | None = None

    def token(self, layer: int, first: bool, done: bool, state: NodeState) -> tuple[int, bool, int]:
        """Return what a token costs in `layer`, whether its request is late then, and the layer to be done by (or -1).

        `state` is the one before the token.
        """
        elapsed, due_by = layer + 1 - self.zero, state.due_by
        if first and self.slo_between is not None:
            due_by = layer + self.slo_between
        late = state.late or (first and _above(elapsed, self.slo_first))
        late = late or (done and (_above(elapsed, self.slo_last) or 0 <= due_by < layer))
        cost = elapsed * (self.first * first + self.last * done)
        return cost + (late and not state.late), late, -1 if late else due_by


def _above(elapsed: int, limit: int | None) -> bool:
    return limit is not None and elapsed > limit


class Graph:
    """The graph of `count` requests that differ in their ids only, in layers from `start` up to `end`.

    A path uses layers below `end`. `arcs` and `source` are what the model needs; `networkx()` is for inspection.
    """

    def __init__(self, transitions: Transitions, ids: list[str], start: int, end: int, charge: Charge) -> None:
        self.transitions, self.ids, self.count, self.end, self.charge = transitions, ids, len(ids), end, charge
        self.source = Node(start, NodeState())
        self.arcs = self._expand()
        self.keep_useful()

    def _expand(self) -> list[Arc]:
        """Return all arcs that can be reached from the source, forwards."""
        layers: dict[int, set[NodeState]] = defaultdict(set)
        layers[self.source.layer].add(NodeState())
        arcs: list[Arc] = []
        for layer in range(self.source.layer, self.end):
            for state in sorted(layers.pop(layer, ())):
                for arc in self._arcs(layer, state):
                    arcs.append(arc)
                    if arc.head.state is not None:
                        layers[arc.head.layer].add(arc.head.state)
                if len(arcs) > MOST_ARCS:
                    raise BadInput(
                        f"arc-flow: the graph of request {self.ids[0]} has more than {MOST_ARCS} arcs by layer {layer} "
                        f"of {self.end}; use coarser blocks and slots, or another formulation"
                    )
        return arcs

    def _arcs(self, layer: int, state: NodeState) -> Iterator[Arc]:
        tail = Node(layer, state)
        first_token = state.segment == 0 and state.generated == 0
        for action, head, span in self.transitions.options(state):
            first, done = action.generated and first_token, head is None
            cost, late, due_by = self.charge.token(layer, first, done, state)
            steps = (TimedAction(layer, span, action),)
            if head is None:
                yield Arc(tail, SINK, steps, cost, layer)
            elif layer + span + self.transitions.rest(head) <= self.end:
                yield Arc(tail, Node(layer + span, head._replace(late=late, due_by=due_by)), steps, cost)

    # --- reductions of a graph -----------------------------------------------------------------------------------

    def keep_useful(self, slack: int | None = None) -> None:
        """Remove arcs that reach no sink, and those of which every path costs more than the cheapest plus `slack`."""
        ahead = self._cheapest_to_sink()
        behind = {self.source: 0}
        kept = []
        for arc in self.arcs:  # in the order of the layers
            so_far = behind.get(arc.tail)
            if so_far is None or arc.head not in ahead:
                continue
            if slack is not None and so_far + arc.cost + ahead[arc.head] > ahead[self.source] + slack:
                continue
            kept.append(arc)
            cost = so_far + arc.cost
            behind[arc.head] = min(cost, behind.get(arc.head, cost))
        self.arcs = kept

    def _cheapest_to_sink(self) -> dict[Node, int]:
        ahead = {SINK: 0}
        for arc in reversed(self.arcs):
            if arc.head in ahead:
                cost = arc.cost + ahead[arc.head]
                ahead[arc.tail] = min(cost, ahead.get(arc.tail, cost))
        return ahead

    def cheapest(self) -> int | None:
        """Return the cost of the cheapest path (None: there is no path)."""
        return self._cheapest_to_sink().get(self.source)

    def contract(self) -> None:
        """Merge arcs that meet at a node with no other arcs: a path that takes one takes the other."""
        entering = Counter(arc.head for arc in self.arcs)
        leaving = Counter(arc.tail for arc in self.arcs)
        last_in = {arc.head: arc for arc in self.arcs}
        kept = []
        for arc in self.arcs:
            node = arc.tail
            if node == self.source or entering[node] != 1 or leaving[node] != 1:
                kept.append(arc)
                continue
            before = last_in[node]
            before.head, before.steps = arc.head, before.steps + arc.steps
            before.cost, before.end = before.cost + arc.cost, arc.end
            if last_in[arc.head] is arc:
                last_in[arc.head] = before
        self.arcs = kept

    def leaving(self) -> dict[Node, list[Arc]]:
        """Return the arcs by their tail."""
        arcs: dict[Node, list[Arc]] = defaultdict(list)
        for arc in self.arcs:
            arcs[arc.tail].append(arc)
        return arcs

    def networkx(self) -> Any:
        """Return a networkx.MultiDiGraph: nodes are `Node`s, edges have `arc` and `cost` (MissingTool without it)."""
        try:
            import networkx
        except ImportError:
            raise MissingTool("networkx is not installed; install it with: pip install networkx") from None
        graph = networkx.MultiDiGraph(count=self.count, source=self.source, sink=SINK)
        for arc in self.arcs:
            graph.add_edge(arc.tail, arc.head, arc=arc, cost=arc.cost)
        return graph
