"""Certificates of exhaustive frontiers: true wherever the search stops, cheap to refuse, and optimal where it ends."""

import time
from itertools import islice

import pytest

import bounds
from bounds.exhaustive import joint_states
from kvcore import OBJECTIVES, BadInput, CostFunction, Machine
from kvcore.certificates import Alone, Certificate, Coarse, Exhaustive, InvalidCertificate, Parts, verify_certificate
from kvcore.certificates.batches import TooManyStates
from kvcore.certificates.exhaustive import MOST_STATES, look
from kvcore.certificates.kinds import Part
from kvcore.certificates.search import COMPARED, ExhaustiveSearch
from tests.support.build import instance, request
from tests.support.exhaustive import exhaustive_optimum
from tests.support.optima import optima
from tests.support.tiny_instances import PROFILES, tiny_instance
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")


def check(profile, seeds):
    """Compare frontiers of all lengths with the optimum; return how many searches ended."""
    ended = 0
    for _, tiny, objective, optimum in optima(profile, seeds, list(OBJECTIVES), max_states=300):
        found = [look(tiny, objective, states) for states in (1, 7, 40, 20_000)]
        assert found[-1].bound == optimum, (tiny.name, objective)
        assert [each.bound for each in found] == sorted(each.bound for each in found)
        assert Exhaustive(states=found[-1].states).value(tiny, objective) == optimum
        ended += found[-1].is_optimum
    return ended


@pytest.mark.parametrize("profile", PROFILES)
def test_the_frontier_stays_below_the_optimum_and_ends_at_it(profile):
    assert check(profile, range(100, 108)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_the_frontier_stays_below_the_optimum_and_ends_at_it_at_length(profile):
    assert check(profile, range(200, 360)) >= 40


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_left_never_falls_by_more_than_what_a_batch_adds(profile):
    for seed, objective in enumerate(OBJECTIVES):
        tiny = tiny_instance(seed, **PROFILES[profile])
        search = ExhaustiveSearch(tiny, objective, guided=True)
        node, label = search.ordered([search.at_start(r) for r in tiny.requests])[0], 0
        for _ in range(8):
            successors = list(islice(search.successors(label, node), 300))
            for reached, successor, _ in successors:
                assert search.least(reached, successor) >= search.least(label, node), (tiny.name, objective)
            if not successors:
                break
            label, node, _ = successors[-1]


def test_the_guide_finds_the_optimum_of_long_batches_and_hinges():
    cost = (CostFunction(busy=5, tokens=2, tokens_above={"knee": 2, "coefficient": 4}), CostFunction(swap_in_tokens=7))
    a, b = request("A", 3, (1, 4, 0, "swap"), 2), request("B", 2, (1, 9, 3, "discard"), 1, arrival=3)
    two = instance(a, b, cost=cost, memory=9, host_memory=5, batch_tokens=3)
    for objective in OBJECTIVES:
        assert look(two, objective, 20_000).bound == exhaustive_optimum(two, objective)[0]


def test_mars_figure_1_is_certified_to_be_optimal():
    assert {rung.method: rung.bound for rung in bounds.climb(MARS)}["exhaustive"] == 29
    rung = bounds.bound(MARS)
    assert (rung.method, rung.bound) == ("exhaustive", 29)
    assert verify_certificate(MARS, rung.certificate) == 29
    with pytest.raises(InvalidCertificate, match="claims 30, but proves 29 only"):
        verify_certificate(MARS, rung.certificate.replace(bound="30"))
    assert bounds.bound(MARS.with_free_calls(), method="exhaustive").bound == 27


def test_fewer_states_prove_less():
    enough = look(MARS, "total-flow-time", MOST_STATES).states
    found = [
        Exhaustive(states=states).value(MARS, "total-flow-time") for states in (1, enough // 2, enough - 1, enough)
    ]
    assert found == sorted(found)
    assert Alone().value(MARS, "total-flow-time") <= found[0] < found[-1] == 29


def test_no_more_is_looked_at_than_an_upper_bound_asks_for():
    assert bounds.bound(MARS, method="exhaustive", upper=5).certificate.proof.states <= 1000


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([request(f"R{i}", 1, 1) for i in range(33)], "at most 32 requests, and there are 33"),
        ([request("R", 1, *[(1, 0, 0, "free")] * 100, 1)], "at most 100 segments, and there are 101"),
        ([request("R", 1, 10**15 - 10)], "at most 10000 generated tokens"),
    ],
)
def test_large_instances_are_refused_at_once(requests, message):
    large = instance(*requests)
    with pytest.raises(InvalidCertificate, match=message):
        Exhaustive(states=10).value(large, "makespan")
    with pytest.raises(BadInput, match=message):
        bounds.bound(large, "makespan", method="exhaustive")


def test_no_search_is_begun_without_hope():
    began = time.process_time()
    with pytest.raises(BadInput, match=r"is not begun: requests have 1e\+\d+ joint states"):
        bounds.bound(instance(*[request(f"R{i}", 1 + i, 9) for i in range(12)]), method="exhaustive")
    assert time.process_time() - began < 1
    assert joint_states(instance(*[request(f"R{i}", 1, 9) for i in range(2)])) == 55
    assert joint_states(instance(request("A", 1, 9), request("B", 2, 4))) == 50


def test_a_state_with_endless_moves_stops_the_search():
    endless = instance(
        request("A", 10**14, 5), request("B", 10**14, 5), memory=None, host_memory=None, evict=True, partial=True
    )
    assert Exhaustive(states=100).value(endless, "makespan") == 5


def test_nodes_that_are_compared_count_as_tries():
    search = ExhaustiveSearch(MARS, "max-flow-time")
    node = tuple(search.at_start(request) for request in MARS.requests)
    search.expanded[node] = [(1, 1, 1)] * 3 * COMPARED
    search.batches.tries = 5
    assert not search.is_beaten(node)
    assert search.batches.tries == 2
    with pytest.raises(TooManyStates):
        search.is_beaten(node)


def test_proofs_in_parts_share_the_states():
    parts = tuple(
        Part(requests=(i,), proof=Coarse(block_tokens=1, slot_ticks=1, proof=Exhaustive(states=MOST_STATES)))
        for i in range(3)
    )
    single = Certificate(instance_sha256=MARS.sha256, objective="makespan", bound="8", proof=Parts(parts=parts[:1]))
    assert verify_certificate(MARS, single) == 8
    with pytest.raises(InvalidCertificate, match=r"a search of 100000 states would take too long .* 200 s where 149"):
        verify_certificate(MARS, single.replace(proof=Parts(parts=parts)))


def test_a_machine_without_limits():
    free = MARS.replace(machine=Machine(memory=None, host_memory=None))
    assert Exhaustive(states=5000).value(free, "total-flow-time") == exhaustive_optimum(free, "total-flow-time")[0]
