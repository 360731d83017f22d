"""The graph of one request: its paths are what the referee lets one request do."""

from itertools import pairwise

import networkx as nx
import pytest

import kvbound as kv
from kvcore.certificates.budget import Most
from kvcore.certificates.slot_graph import LocalGraphs


def test_a_shortest_path_works_once_for_each_token_and_waits_for_the_call():
    figure = kv.load_instance("mars-figure1")
    graph = kv.request_graph(figure, "R1")
    path = nx.shortest_path(graph, graph.graph["start"], graph.graph["end"])
    edges = [graph.edges[*edge, 0] for edge in pairwise(path)]
    assert [edge.get("work", 0) for edge in edges] == [1, 1, 1, 1, 1, 0, 1]
    assert edges[5] == {"waits": True}


def test_by_tick_a_shortest_path_lasts_as_long_as_the_request_alone():
    figure = kv.load_instance("mars-figure1")
    local = LocalGraphs(figure, "makespan")
    for request, ticks in zip(local.groups, local.alone, strict=True):
        graph = kv.request_graph(figure.replace(requests=(request.replace(id="R"),)), "R", by_tick=True)
        assert nx.shortest_path_length(graph, graph.graph["start"], graph.graph["end"]) == ticks
    assert local.alone == [8, 10, 4]


def test_its_text_says_what_is_done_and_what_is_held():
    text = [*nx.generate_network_text(kv.request_graph(kv.load_instance("mars-figure1"), "R2"))]
    assert text[0].startswith("╙── 0 of segment 1 ╾")
    assert text[1:4] == [
        "    ├─╼ 0 of segment 2, 1 on the device, waits",
        "    │   ├─╼ 0 of segment 2, 1 on the device",
        "    │   │   ├─╼ 0 of segment 2 ╾ 0 of segment 2, waits, 0 of segment 2",
    ]
    assert any(line.endswith("─╼ done") for line in text)


def test_without_ticks_it_has_every_state_of_the_graph_by_tick():
    figure = kv.load_instance("mars-figure1")
    for request in figure.requests:
        timed = kv.request_graph(figure, request.id, by_tick=True)
        assert set(kv.request_graph(figure, request.id)) >= {s._replace(wait=min(1, s.wait)) for s in timed}


def test_bad_input(monkeypatch):
    figure = kv.load_instance("mars-figure1")
    with pytest.raises(kv.BadInput, match="has no request 'Z'"):
        kv.request_graph(figure, "Z")
    monkeypatch.setattr(Most, "moves", 10)
    with pytest.raises(
        kv.BadInput, match="'R1': requests have too many options: there are more than 10 moves to try; "
    ):
        kv.request_graph(figure, "R1")
