"""The search over batch boundaries: true wherever it stops, cheap to refuse, and optimal where it ends."""

import random

import pytest

import kvbound as kv
from bounds.events import joint_states, refused
from kvcore import OBJECTIVES, BadInput, CostFunction, objective_value, verify_schedule
from kvcore.certificates import Alone, Events, InvalidCertificate, verify_certificate
from kvcore.certificates import events as core
from kvcore.certificates.budget import Budget
from kvcore.certificates.events import EventSearch
from kvcore.certificates.local_graph import LocalGraph
from kvcore.certificates.options import PLAIN, RequestOptions
from kvcore.files import parse, read_instance
from kvcore.instance import Slo
from kvcore.schedule import Schedule
from solvers.dual_bound import rungs
from solvers.ways import CERTIFYING
from tests.support.boundaries import find
from tests.support.build import instance, request
from tests.support.data import real
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.optima import optima
from tests.support.plain import FRONTIER, LABELS, plain
from tests.support.random_proofs import random_events
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")


def check(profile, seeds):
    """Compare searches of all lengths and targets with the optimum; return how many ended, by the rules and relaxed."""
    ended = free = 0
    for seed, tiny, objective, optimum in optima(profile, seeds, list(OBJECTIVES), 2000 if ALL else 500):
        found = [find(tiny, objective, states) for states in (1, 7, 40, 20_000)]
        assert found[-1].bound == optimum, (tiny.name, objective)
        assert [each.bound for each in found] == sorted(each.bound for each in found)
        assert Events(states=found[-1].states).value(tiny, objective) == optimum
        assert objective_value(verify_schedule(tiny, found[-1].schedule), objective) == optimum
        below, above = find(tiny, objective, 20_000, optimum), find(tiny, objective, 20_000, optimum + 1)
        assert (below.bound, below.is_over, below.schedule) == (optimum, True, None)
        assert (above.bound, above.is_optimum) == (optimum, True)
        assert Events(states=below.states, target=0).value(tiny, objective) <= 0
        draw = random.Random(seed)
        assert all(random_events(draw).value(tiny, objective) <= optimum for _ in range(4))
        ended += found[-1].is_optimum
        relaxed = [find(tiny, objective, states, free_drops=True) for states in (1, 7, 40, 20_000)]
        assert all(each.bound <= optimum for each in relaxed)
        assert find(tiny, objective, 20_000, optimum, free_drops=True).bound <= optimum
        if relaxed[-1].schedule is not None and not refused(tiny, relaxed[-1].schedule):
            assert relaxed[-1].bound == objective_value(verify_schedule(tiny, relaxed[-1].schedule), objective)
            free += relaxed[-1].bound == optimum
    return ended, free


@pytest.mark.parametrize("profile", PROFILES)
def test_the_search_stays_below_the_optimum_and_ends_at_it(profile):
    ended, free = check(profile, few(range(102, 402), 60))
    assert ended >= 1
    assert free >= 1


def test_what_refuted_lemmas_refutes_no_search():
    files = sorted(real("lemma_counterexamples/m2_3.json").parent.glob("*.json"))
    assert len(files) > 30
    for file in few(files, 3):
        tiny = read_instance(file)
        optimum = exhaustive_optimum(tiny, "total-flow-time")[0]
        assert find(tiny, "total-flow-time", 100_000).bound == optimum, file.stem
        assert find(tiny, "total-flow-time", 100_000, free_drops=True).bound <= optimum, file.stem


@pytest.mark.parametrize("change", ["ticks", "shares"])
def test_what_is_left_must_not_fall_by_more_than_a_batch_adds(change):
    search = EventSearch(MARS, "total-flow-time", 1000)
    start = search.setting.first.searchsorted(search.setting.first[0])
    getattr(search.setting, change)[start] += 10**6
    search.begin()
    with pytest.raises(AssertionError, match="fell by more than a batch adds"):
        search.run()


def test_a_schedule_starts_after_all_that_an_instance_holds():
    """Of a request that arrives at 10^15, the second batch is of other work than the first."""
    late = instance(request("A", 2, 3, arrival=10**15))
    assert Events(states=10).value(late, "total-flow-time") == 3
    schedule = find(late, "total-flow-time", 10).schedule
    assert [batch.start - 10**15 for batch in schedule.batches] == [0, 1, 2]
    assert objective_value(verify_schedule(late, parse(Schedule, schedule.to_json(), "S.json")), "total-flow-time") == 3


def test_without_numba_the_search_is_the_same(monkeypatch):
    cases = [(tiny_instance(seed, **PROFILES[profile]), objective)
             for profile in few([*PROFILES], 3) for seed, objective in enumerate(OBJECTIVES)]  # fmt: skip

    def found():
        return [find(tiny, objective, 100, free_drops=free) for tiny, objective in cases for free in (False, True)]

    compiled = found()
    monkeypatch.setattr(core, "frontier", plain(LABELS, FRONTIER))
    assert found() == compiled
    assert sum(end.is_optimum for end in compiled) > (40 if ALL else 12)


def test_with_free_drops_a_request_may_do_all_that_it_may_without_kv():
    """At no more; and what only drops all is paired with what only keeps it."""
    dropped = 0
    for seed in few(range(270), 30):
        tiny = tiny_instance(seed)
        for one in tiny.requests:
            rules = RequestOptions(tiny.machine, one)
            graph = LocalGraph(tiny.machine, [one], [0], whole=False, free_drops=True, budget=Budget())
            for s, state in enumerate(graph.states):
                options, held = range(graph.first[s], graph.first[s + 1]), state.device + state.host
                nothing = next((o for o in options if not graph.moves[o].any()), -1)
                drops = [held > 0 and (*graph.moves[o],) == (held, 0, 0, 0) for o in options]
                assert [nothing if drop else -1 for drop in drops] == [graph.kept[o] for o in options]
                for bare in rules.options(state._replace(device=0, host=0, mark=PLAIN)) if held else ():
                    end = bare.end.after(0)
                    end = end._replace(wait=min(1, end.wait))
                    assert any(graph.states[graph.to[o]] == end and (graph.load[o] <= bare.load).all()
                               and (graph.options[o].load.acts or not bare.load.acts) for o in options)  # fmt: skip
                    dropped += 1
    assert dropped > 300


def test_a_search_that_goes_on_is_the_same_as_one_that_does_not_stop():
    for seed in few(range(16), 2):
        tiny, objective = tiny_instance(seed), list(OBJECTIVES)[seed % 8]
        search = EventSearch(tiny, objective, 5000)
        for states in (1, 2, 5, 9, 40, 300):
            stopped, at_once = search.run(states), find(tiny, objective, states)
            assert (stopped.bound, stopped.is_found) == (at_once.bound, at_once.is_optimum)
        assert search.run().bound == find(tiny, objective, 5000).bound
    assert EventSearch(MARS, "makespan", 100).run(50, lambda: True).labels == 1


def test_mars_figure_1_is_certified_to_be_optimal():
    assert {rung.method: rung.bound for rung in rungs(MARS, "total-flow-time", CERTIFYING)}["events"] == 29
    rung = kv.bound(MARS, method="events")
    assert (rung.formulation, rung.bound) == ("events", 29)
    assert verify_certificate(MARS, rung.certificate) == 29
    with pytest.raises(InvalidCertificate, match="claims 30, but proves 29 only"):
        verify_certificate(MARS, rung.certificate.replace(bound="30"))
    assert kv.bound(MARS.with_free_calls(), method="events").bound == 27


def test_fewer_states_prove_less():
    enough = find(MARS, "total-flow-time").states
    found = [Events(states=states).value(MARS, "total-flow-time") for states in (1, enough // 2, enough - 1, enough)]
    assert found == sorted(found)
    assert Alone().value(MARS, "total-flow-time") <= found[0] < found[-1] == 29


def test_no_more_is_looked_at_than_an_upper_bound_asks_for():
    proof = kv.bound(MARS, method="events", upper=5).certificate.proof
    assert (proof.states, proof.target) == (1, 5)


@pytest.mark.parametrize(("large", "message"), [
    (instance(*[request(f"R{i}", 1, 1) for i in range(33)]), "at most 32 requests, and there are 33"),
    (instance(request("R", 1, *[(1, 0, 0, "free")] * 100, 1)), "at most 100 segments, and there are 101"),
    (instance(request("R", 1, 10**15 - 10)), "at most 10000 generated tokens"),
    (instance(request("A", 10**14, 5), request("B", 10**14, 5)), "too many options"),
    pytest.param(instance(request("R", 200, 9), evict=True, partial=True), "too many options",
                 marks=pytest.mark.slow),
    (instance(request("R", 10**14, 2), chunked=False), "too large to be added up"),
    (instance(request("R", 1, 2, weight=10**15), cost=(CostFunction(busy=10**6),)), "too large to be added up"),
    (instance(request("R", 1, 2), cost=(CostFunction(busy=10**15, tokens=10**15, generated=10**15),) * 2)
     .replace(requests=tuple(request(f"R{i}", 1, 2) for i in range(32))), "too large to be added up"),
])  # fmt: skip
def test_large_instances_are_refused_at_once(large, message):
    with pytest.raises(InvalidCertificate, match=message):
        Events(states=10).value(large, "weighted-flow-time")


def test_an_slo_without_end_is_refused():
    endless = instance(request("R", 1, 2, slo=Slo(latency=10**15, normalized_latency=10**15)))
    assert find(endless, "late-requests", 100).bound == 0


def test_no_search_is_begun_without_hope():
    with pytest.raises(BadInput, match=r"is not begun: requests have 1e\+\d+ joint states"):
        kv.bound(instance(*[request(f"R{i}", 1 + i, 9) for i in range(12)]), method="events")
    with pytest.raises(BadInput, match="at most 32 requests"):
        kv.bound(instance(*[request(f"R{i}", 1, 1) for i in range(33)]), "makespan", method="events")
    assert joint_states(instance(*[request(f"R{i}", 1, 9) for i in range(2)])) == 55
    assert joint_states(instance(request("A", 1, 9), request("B", 2, 4))) == 50
