"""The exact search: known optima, agreement with the exhaustive search, reductions, and bounds of stopped runs."""

import sys

import pytest

from kvcore import OBJECTIVES, Call, Cost, Instance, Machine, Request, Segment, objective_value, verify_schedule
from kvcore.certificates.events import find
from kvcore.cost import CostFunction
from kvcore.errors import BadInput
from solvers.search import DOMINANCE, search
from solvers.search.search import _Passes
from tests.support.clock import Clock
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.tiny_instances import PROFILES, tiny_instance
from workloads.builtin import builtin_instance

MAX_STATES = 1000
ALL = tuple(OBJECTIVES)


def optimum(instance, objective):
    """Return the exhaustive optimum, or None where the instance is too large for it."""
    try:
        return exhaustive_optimum(instance, objective, max_states=MAX_STATES)[0]
    except TooManyStates:
        return None


def tiny(seeds):
    """Return (instance, objective) pairs: every profile, with the objectives in turn."""
    pairs = [(seed, profile) for seed in seeds for profile in PROFILES]
    return [(tiny_instance(s, **PROFILES[p]), ALL[(k + s) % len(ALL)]) for k, (s, p) in enumerate(pairs)]


def agrees(pairs, **options):
    """Return how many pairs were compared; fail at the first that differs."""
    compared = 0
    for instance, objective in pairs:
        expected = optimum(instance, objective)
        if expected is None:
            continue
        outcome = search(instance, objective, **options)
        assert (outcome.value, outcome.bound, outcome.proved) == (expected, expected, True), (instance.name, objective)
        assert objective_value(verify_schedule(instance, outcome.schedule), objective) == expected
        compared += 1
    return compared


# --- known optima ----------------------------------------------------------------------------------------------------


def test_mars_figure_1():
    figure = builtin_instance("mars-figure1")
    assert search(figure, "total-flow-time").value == 29
    assert search(figure.with_free_calls(), "total-flow-time").value == 27


@pytest.mark.parametrize(("size", "busy"), [(1, 40918414), (2, 46521305), (4, 49803714)])
def test_infermax_figure_15(size, busy):
    assert search(builtin_instance(f"infermax-figure15:I={size}"), "busy-time").value == busy


@pytest.mark.slow
def test_infermax_figure_15_is_proved_for_every_prompt():
    figure = [builtin_instance(f"infermax-figure15:I={2**k}") for k in range(11)]
    outcomes = [search(one, "busy-time") for one in figure] + [search(one, "total-flow-time") for one in figure[4:]]
    assert all(outcome.proved and outcome.stopped == "proved" for outcome in outcomes)


# --- agreement -------------------------------------------------------------------------------------------------------


def test_agrees_with_the_exhaustive_search():
    seeds = few(range(5), 2)
    assert agrees(tiny(seeds)) >= 5 * len(seeds)


@pytest.mark.parametrize("objective", ALL)
def test_every_objective_agrees(objective):
    assert agrees([(tiny_instance(seed, requests=2, calls=(0, 1)), objective) for seed in range(60, 65)]) >= 2


@pytest.mark.parametrize("without", [*DOMINANCE, "all"])
def test_each_reduction_keeps_the_optimum(without):
    on = () if without == "all" else tuple(name for name in DOMINANCE if name != without)
    pairs = [(tiny_instance(seed, requests=2, calls=(0, 1)), ALL[seed % len(ALL)]) for seed in few(range(12), 2)]
    assert agrees(pairs, dominance=on) >= 3


@pytest.mark.slow
def test_agrees_on_more_seeds():
    assert agrees(tiny(range(100, 160))) >= 250


@pytest.mark.slow
@pytest.mark.parametrize("without", [*DOMINANCE, "all"])
def test_each_reduction_keeps_the_optimum_on_more_seeds(without):
    on = () if without == "all" else tuple(name for name in DOMINANCE if name != without)
    assert agrees(tiny(range(200, 215)), dominance=on) >= 60


SMALL = {"prompt": (1, 2), "decode": (1, 2), "calls": 0, "partial": False, "host_memory": "none"}


def test_like_requests_may_take_their_options_in_order():
    """Also where some of them are in one state and others are not; the checker does the same."""
    without = tuple(name for name in DOMINANCE if name != "symmetry")
    for seed in few(range(400), 10):
        tiny, objective = tiny_instance(seed, **SMALL), ALL[seed % len(ALL)]
        first = tiny.requests[0]
        weight = first.weight + seed % 2
        others = first.replace(id="B"), first.replace(id="C", arrival=first.arrival + seed % 3 // 2, weight=weight)
        tiny = tiny.replace(requests=(first, *others))
        best = search(tiny, objective, dominance=without)
        frontier = find(tiny, objective, 3000)
        assert search(tiny, objective).bound == best.bound == best.value, seed
        assert frontier.bound == best.value if frontier.is_optimum else frontier.bound <= best.value, seed


def test_the_machine_waits_where_an_ordered_swap_out_would_overfill_the_host():
    """A batch for the third request would swap R2 out while R1 still fills the host: `finish` must let it wait."""

    def request(id, arrival, prompt, weight, duration=None):
        call = None if duration is None else Call(duration=duration, returns=0, handling="swap")
        segments = (Segment(decode=1, call=call), Segment(decode=1)) if call else (Segment(decode=1),)
        return Request(id=id, arrival=arrival, prompt=prompt, weight=weight, segments=segments)

    machine = Machine(memory=3, host_memory=2, hybrid=True, chunked=True, pause=True, evict=False, partial=False)
    requests = (request("R1", 0, 2, 50, 6), request("R2", 1, 1, 100, 20), request("R3", 2, 2, 1))
    instance = Instance(name="full host", machine=machine, cost=Cost.unit(), requests=requests)
    assert optimum(instance, "weighted-flow-time") == 2607
    assert search(instance, "weighted-flow-time").value == 2607


# --- bounds, limits, callbacks ---------------------------------------------------------------------------------------


def test_a_time_limit_leaves_a_schedule_and_a_bound(monkeypatch):
    monkeypatch.setattr(sys.modules["solvers.search.search"], "time", Clock())
    outcome = search(builtin_instance("hindsight"), "total-flow-time", time_limit=20)
    assert outcome.bound <= 626 <= outcome.value
    assert outcome.stopped == "time limit"
    assert not outcome.proved


def test_a_memory_limit_leaves_a_valid_bound():
    outcome = search(builtin_instance("hindsight"), "total-flow-time", memory_limit_mb=0)
    assert 0 < outcome.bound <= 626 <= outcome.value
    assert outcome.stopped == "memory limit"
    assert not outcome.proved


def test_no_bound_on_the_way_exceeds_the_optimum(monkeypatch):
    bounds = []
    check = _Passes.check

    def every_time(run, current):
        run.reported = -1.0
        check(run, current)

    monkeypatch.setattr(_Passes, "check", every_time)
    for instance, objective in tiny(range(20, 22)):
        expected = optimum(instance, objective)
        if expected is None:
            continue
        seen = []
        search(instance, objective, progress=lambda value, bound, seen=seen: seen.append((value, bound)))
        assert all(bound <= expected <= value for value, bound in seen), (instance.name, objective)
        bounds += seen
    assert len(bounds) > 50


def test_found_gets_schedules_that_improve():
    instance = builtin_instance("mars-figure1").with_free_calls()
    found = []
    outcome = search(instance, "total-flow-time", found=lambda *pair: found.append(pair))
    values = [value for _, value in found]
    assert values == [objective_value(verify_schedule(instance, schedule), "total-flow-time") for schedule, _ in found]
    assert values == sorted(set(values), reverse=True)
    assert len(values) > 1
    assert values[-1] == outcome.value == 27


def test_an_upper_bound_that_is_optimal_is_kept():
    instance = builtin_instance("mars-figure1")
    best = search(instance, "total-flow-time").schedule
    outcome = search(instance, "total-flow-time", upper_bound=best)
    assert outcome.schedule == best
    assert outcome.proved


def test_an_unknown_objective():
    with pytest.raises(BadInput, match="speed"):
        search(builtin_instance("mars-figure1"), "speed")


def test_a_transfer_there_and_back_makes_a_batch_of_a_drop():
    """R1 drops a token while another goes out and in, so as to prefill two tokens instead of a dear decode."""
    instance = tiny_instance(200030, **PROFILES["partial"])
    outcome = search(instance, "weighted-flow-time")
    assert (outcome.value, outcome.bound, outcome.proved) == (98, 98, True)


def one(id, prompt, decode, arrival=0, returns=None):
    """A request with one segment, or with a call that preserves its KV and returns tokens after one token."""
    call = None if returns is None else Call(duration=1, returns=returns, handling="preserve")
    segments = (Segment(decode=1, call=call),) if call else ()
    return Request(id=id, arrival=arrival, prompt=prompt, segments=(*segments, Segment(decode=decode)))


@pytest.mark.parametrize(
    ("partial", "cost", "requests", "optimum"),
    [
        (True, {"tokens": 1, "decode_kv": 1}, [one("A", 3, 2)], 6),
        (True, {"any_decode": 9, "any_prefill": 9, "tokens": 1}, [one("A", 3, 2), one("B", 1, 1, arrival=3)], 25),
        (True, {"busy": 3, "prefill_kv": 5}, [one("A", 3, 1, returns=3), one("B", 1, 2)], 8),
        (False, {"any_decode": 9, "tokens": 1}, [one("A", 1, 2), one("B", 1, 1), one("C", 1, 1, arrival=2)], None),
    ],
    ids=["decodes-read-much", "others-prefill", "prefills-read-much", "all-or-nothing"],
)
def test_a_batch_made_for_drops_alone(partial, cost, requests, optimum):
    """KV goes out and in so that a batch of drops exists, because a refill is cheaper than what it replaces."""
    machine = Machine(memory=20, host_memory=0, evict=True, partial=partial)
    instance = Instance(machine=machine, cost=Cost((CostFunction(**cost),)), requests=tuple(requests))
    value, schedule = exhaustive_optimum(instance, "makespan", max_states=20_000)
    made = [b for b in schedule.batches if b.drop and b.swap_out and not b.work]
    assert optimum is None or (value == optimum and made)
    for objective in ("makespan", "busy-time", "total-flow-time"):
        assert agrees([(instance, objective)]) == 1
