"""The options of one request, batch by batch, as a graph."""

from __future__ import annotations

import networkx as nx

from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.options import LocalState
from kvcore.certificates.request_graph import RequestGraph
from kvcore.errors import BadInput
from kvcore.instance import Instance


def request_graph(instance: Instance, request: str, by_tick: bool = False) -> nx.MultiDiGraph:
    """Return the states of a request, by its id, and the steps between them under the rules R2 to R4 and R8 to R10.

    Nodes are `LocalState`s without time: `wait` is 1 before the arrival and while a call runs, else 0; `by_tick`, it
    counts down, and a batch lasts a tick. An edge is an option, with tokens `drop`, `swap_out`, `swap_in` and `work`,
    or `waits`. The graph has `start` and `end`. BadInput for an unknown id, too many options, or contents that requests
    share.
    """
    found = next((each for each in instance.requests if each.id == request), None)
    if found is None:
        raise BadInput(f"{instance.name} has no request {request!r}")
    if instance.contents:
        raise BadInput(f"{instance.name}: what a request may do depends on the contents that it shares with others")
    try:
        made = RequestGraph(instance.machine, [found], by_tick=by_tick)
    except InvalidCertificate as error:
        raise BadInput(f"request {request!r}: {error}; coarsen the instance first") from None
    graph = nx.MultiDiGraph(start=made.states[0], end=LocalState(segment=len(found.segments)))
    graph.add_nodes_from((state, {"label": _label(state, graph.graph["end"], by_tick)}) for state in made.states)
    for s, state in enumerate(made.states):
        if made.left[s] and (by_tick or made.wait[s] != s):
            graph.add_edge(state, made.states[made.wait[s]], waits=True)
        for o in range(made.first[s], made.first[s + 1]) if made.left[s] else ():
            names = zip(("drop", "swap_out", "swap_in", "work"), made.options[o], strict=False)
            graph.add_edge(state, made.states[made.to[o]], **dict(names))
    return graph


def _label(state: LocalState, end: LocalState, by_tick: bool) -> str:
    if state == end:
        return "done"
    waits = [f"waits {state.wait}" if by_tick else "waits"] if state.wait else []
    held = [f"{tokens} on the {place}" for tokens, place in ((state.device, "device"), (state.host, "host")) if tokens]
    return ", ".join([f"{state.generated} of segment {state.segment + 1}", *held, *waits])
