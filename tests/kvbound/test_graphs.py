"""The graph of one request: its paths are what the referee lets one request do."""

from itertools import pairwise

import networkx as nx
import pytest

import kvbound as kv
from kvcore.certificates.slot_graph import LocalGraphs


def test_a_shortest_path_works_once_for_each_token_and_waits_for_the_call():
    figure = kv.load_instance("mars-figure1")
    graph = kv.request_graph(figure, "R1")
    path = nx.shortest_path(graph, graph.graph["start"], graph.graph["end"])
    edges = [graph.edges[*edge, 0] for edge in pairwise(path)]
    assert [edge.get("work", 0) for edge in edges] == [1, 1, 1, 1, 1, 0, 1]
    assert edges[5] == {"waits": True}


def test_it_has_every_state_of_the_search_over_slots():
    figure = kv.load_instance("mars-figure1")
    states = {state._replace(wait=min(1, state.wait)) for state in LocalGraphs(figure, "total-flow-time").states}
    graphs = [kv.request_graph(figure, request.id) for request in figure.requests]
    assert {state for graph in graphs for state in graph} >= states


def test_bad_input():
    with pytest.raises(kv.BadInput, match="has no request 'Z'"):
        kv.request_graph(kv.load_instance("mars-figure1"), "Z")
