"""The options of one request, batch by batch, as a graph."""

from __future__ import annotations

import networkx as nx

from bounds.task import most_options
from kvcore.certificates.options import LocalState, RequestOptions
from kvcore.errors import BadInput
from kvcore.instance import Instance

MOST_OPTIONS = 10**7  # options, as a rough count has them, beyond which no graph is made


def request_graph(instance: Instance, request: str) -> nx.MultiDiGraph:
    """Return the states of a request, by its id, and the steps between them under the rules R2 to R4 and R8 to R10.

    Nodes are `LocalState`s without time: `wait` is 1 before the arrival and while a call runs, else 0. An edge is a
    batch's option, with tokens `drop`, `swap_out`, `swap_in` and `work`; or `waits`, until it is ready. The graph has
    `start` and `end`. BadInput for an unknown id, for too many options, and for contents that requests share.
    """
    found = next((each for each in instance.requests if each.id == request), None)
    if found is None:
        raise BadInput(f"{instance.name} has no request {request!r}")
    if instance.contents:
        raise BadInput(f"{instance.name}: what a request may do depends on the contents that it shares with others")
    if most_options(instance.replace(requests=(found,))) > MOST_OPTIONS:
        raise BadInput(f"request {request!r} has too many options to look at; coarsen the instance first")
    rules = RequestOptions(instance.machine, found)
    start = _timeless(rules.start())
    graph, open_states = nx.MultiDiGraph(start=start, end=LocalState(segment=len(found.segments))), [start]
    graph.add_node(start)
    for state in open_states:  # it grows
        ready = state._replace(wait=0)
        edges = [] if rules.is_done(state) else [(_timeless(o.end.after(0)), o[:4]) for o in rules.options(state)]
        for to in [ready] * (ready != state) + [to for to, _ in edges]:
            if to not in graph:
                graph.add_node(to)
                open_states.append(to)
        if ready != state:
            graph.add_edge(state, ready, waits=True)
        for to, (drop, swap_out, swap_in, work) in edges:
            graph.add_edge(state, to, drop=drop, swap_out=swap_out, swap_in=swap_in, work=work)
    return graph


def _timeless(state: LocalState) -> LocalState:
    return state._replace(wait=1) if state.wait else state
