"""The exact searches: known optima, agreement with the exhaustive search, limits, and schedules on the way."""

from itertools import pairwise

import pytest

from bounds import events, slot_solver
from bounds.task import Proposal, Task
from kvcore import OBJECTIVES, Cost, Instance, Machine, objective_value, verify_schedule
from kvcore.certificates import events as core
from kvcore.certificates import verify_certificate
from kvcore.certificates.budget import Most
from kvcore.cost import CostFunction
from kvcore.schedule import Schedule
from solvers.dual_bound import run
from solvers.exact import exact
from solvers.messages import NEWS, Bound, Found, SolveJob
from solvers.ways import EVENTS
from tests.support.boundaries import find
from tests.support.build import request, requests_of
from tests.support.clock import Clock
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from workloads.builtin import builtin_instance

GENERAL = {"slots": slot_solver.climb, "events": events.climb}
"""The searches for requests that need not run from start to end."""
MAX_STATES = 1000
ALL = tuple(OBJECTIVES)
MARS = builtin_instance("mars-figure1")


def drawn(seeds, max_states=MAX_STATES):
    """Yield (instance, objective, optimum): every profile, with the objectives in turn; leave out what is too large."""
    pairs = [(seed, profile) for seed in seeds for profile in PROFILES]
    for k, (seed, profile) in enumerate(pairs):
        instance, objective = tiny_instance(seed, **PROFILES[profile]), ALL[(k + seed) % len(ALL)]
        try:
            yield instance, objective, exhaustive_optimum(instance, objective, max_states=max_states)[0]
        except TooManyStates:
            continue


def agrees(cases):
    """Return how many cases were compared; fail at the first that differs."""
    compared = 0
    for instance, objective, optimum in cases:
        result = exact(instance, objective)
        assert (result.status, result.value, result.stopped) == ("optimal", optimum, "proved"), instance.name
        assert result.bound == result.certified_bound == optimum
        compared += 1
    return compared


def worth(instance, objective, found):
    """Return the value of a schedule, which the referee judges, or the bound of a proof, which the checker does."""
    if isinstance(found, Schedule):
        return objective_value(verify_schedule(instance, found), objective)
    assert found.value is None or found.proof.value(instance, objective) == found.value
    return found.proof.value(instance, objective)


# --- known optima ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", few([1, 8, 64, *(2**k for k in (1, 2, 4, 5, 7, 8, 9, 10))]))
def test_infermax_figure_15_is_proved_for_every_prompt(size):
    figure = builtin_instance(f"infermax-figure15:I={size}")
    results = {objective: exact(figure, objective) for objective in ["busy-time", "total-flow-time"][: 1 + (size > 8)]}
    assert {result.status for result in results.values()} == {"optimal"}
    busy = {1: 40918414, 2: 46521305, 4: 49803714}  # by the exhaustive search of the tests
    assert results["busy-time"].value == busy.get(size, results["busy-time"].value)


# --- agreement -------------------------------------------------------------------------------------------------------
def test_agrees_with_the_exhaustive_search():
    seeds = few(range(20), 10)
    assert agrees(drawn(seeds)) >= 5 * len(seeds)


SMALL = {"prompt": (1, 2), "decode": (1, 2), "calls": 0, "partial": False, "host_memory": "none"}


def test_like_requests_may_take_their_options_in_order(monkeypatch):
    """Also where some of them are in one state and others are not."""
    cases = []
    for seed in few(range(400), 40):
        tiny, objective = tiny_instance(seed, **SMALL), ALL[seed % len(ALL)]
        first = tiny.requests[0]
        weight = first.weight + seed % 2
        others = first.replace(id="B"), first.replace(id="C", arrival=first.arrival + seed % 3 // 2, weight=weight)
        tiny = tiny.replace(requests=(first, *others))
        cases.append((tiny, objective, exact(tiny, objective), find(tiny, objective, 3000)))
    monkeypatch.setattr(core, "alike", lambda requests: [[i] for i in range(len(requests))])
    for tiny, objective, result, frontier in cases:
        apart = find(tiny, objective, 100_000)
        assert apart.is_optimum
        assert result.value == result.certified_bound == apart.bound, (tiny.name, objective)
        assert frontier.bound == apart.bound if frontier.is_optimum else frontier.bound <= apart.bound


def test_the_machine_waits_where_an_ordered_swap_out_would_overfill_the_host():
    """A batch for C would swap B out while A still fills the host."""
    requests = requests_of("A 2 1/6s 1 w50; B 1 1/20s 1 @1 w100; C 2 1 @2")
    instance = Instance(machine=Machine(memory=3, host_memory=2), requests=requests)
    assert exhaustive_optimum(instance, "weighted-flow-time")[0] == 2607
    for climb in GENERAL.values():
        *_, last = climb(Task(instance, "weighted-flow-time"))
        assert worth(instance, "weighted-flow-time", last) == 2607


def test_a_transfer_there_and_back_makes_a_batch_of_a_drop():
    """R1 drops a token while another goes out and in, so as to prefill two tokens instead of a dear decode."""
    result = exact(tiny_instance(200030, **PROFILES["partial"]), "weighted-flow-time")
    assert (result.value, result.status) == (98, "optimal")


@pytest.mark.parametrize(("partial", "cost", "requests", "optimum"), [
    (True, {"tokens": 1, "decode_kv": 1}, "A 3 2", 6),
    (True, {"any_decode": 9, "any_prefill": 9, "tokens": 1}, "A 3 2; B 1 1 @3", 25),
    (True, {"busy": 3, "prefill_kv": 5}, "A 3 1/1+3p 1; B 1 2", 8),
    (False, {"any_decode": 9, "tokens": 1}, "A 1 2; B 1 1; C 1 1 @2", None),
], ids=["decodes-read-much", "others-prefill", "prefills-read-much", "all-or-nothing"])  # fmt: skip
def test_a_batch_made_for_drops_alone(partial, cost, requests, optimum):
    """KV goes out and in so that a batch of drops exists, because a refill is cheaper than what it replaces."""
    machine = Machine(memory=20, host_memory=0, evict=True, partial=partial)
    instance = Instance(machine=machine, cost=Cost((CostFunction(**cost),)), requests=requests_of(requests))
    value, schedule = exhaustive_optimum(instance, "makespan", max_states=20_000)
    made = [b for b in schedule.batches if b.drop and b.swap_out and not b.work]
    assert optimum is None or (value == optimum and made)
    for objective in ("makespan", "busy-time", "total-flow-time"):
        best = exhaustive_optimum(instance, objective, max_states=20_000)[0]
        assert agrees([(instance, objective, best)]) == 1


# --- what comes on the way -------------------------------------------------------------------------------------------
def test_schedules_improve_bounds_rise_and_neither_passes_the_optimum():
    seen = dict.fromkeys(GENERAL, 0)
    for instance, objective, optimum in drawn(few(range(20, 60), 14)):
        for name, climb in GENERAL.items():
            if name == "slots" and (not instance.cost.always_one_tick or objective in ("late-requests", "total-ttft")):
                continue
            found = list(climb(Task(instance, objective)))
            values = [worth(instance, objective, each) for each in found if isinstance(each, Schedule)]
            proved = [worth(instance, objective, each) for each in found if isinstance(each, Proposal)]
            assert all(before > after for before, after in pairwise(values)), (name, instance.name, objective)
            assert proved == sorted(proved)
            assert values[-1] == optimum == proved[-1], (name, instance.name, objective)
            seen[name] += len(values)
    assert seen["events"] > seen["slots"] >= 5


def test_nothing_is_looked_for_but_what_is_better_than_the_news():
    for climb in GENERAL.values():
        for told in (29, 28):  # nobody has a schedule of 28: the search believes it
            found = list(climb(Task(MARS, "total-flow-time", upper=31, news=lambda told=told: told)))
            assert told <= worth(MARS, "total-flow-time", found[-1]) <= 29
            assert [each for each in found if isinstance(each, Schedule)] == [] or climb is events.climb


@pytest.mark.parametrize("name", GENERAL)
def test_a_worker_sends_schedules_and_certificates(name, monkeypatch):
    job, sent = SolveJob(MARS, "total-flow-time", name, name, None, 31, None, 1e9, 4000, 1, 0), []
    assert run(job, sent.append).stop == "proved"
    assert [each.claimed for each in sent if isinstance(each, Found)][-1] == 29
    certificates = [each.certificate for each in sent if isinstance(each, Bound)]
    assert verify_certificate(MARS, certificates[-1]) == 29
    monkeypatch.setattr(NEWS, "value", 29)
    sent.clear()
    assert run(job, sent.append).stop == "proved"
    assert max(each.value for each in sent if isinstance(each, Bound)) == 29


# --- limits and options ----------------------------------------------------------------------------------------------
def test_a_time_limit_leaves_a_schedule_and_a_bound(monkeypatch):
    monkeypatch.setattr("bounds.clock.time", Clock())
    rigid = builtin_instance("hindsight")
    pausing = rigid.replace(machine=rigid.machine.replace(pause=True))  # else configurations prove it
    for seconds in (0, 20, 60):
        result = exact(pausing, time_limit=seconds)
        assert (result.stopped, result.status) == ("time limit", "feasible")
        assert 0 < result.certified_bound < result.value
    slow = builtin_instance("infermax-figure15")
    result = exact(slow, "busy-time", time_limit=3)
    assert (result.stopped, result.status) == ("time limit", "feasible")
    assert 0 < result.certified_bound < result.value


def test_a_search_that_is_full_leaves_a_valid_bound(monkeypatch):
    monkeypatch.setattr(Most, "states", 50)
    monkeypatch.setattr("solvers.exact.EXACT", (EVENTS,))
    result = exact(MARS)
    assert 0 < result.bound < 29 <= result.value
    assert (result.status, result.stopped) == ("feasible", "limit of the search")


def test_a_start_that_is_optimal_is_kept():
    best = exact(MARS).schedule
    result = exact(MARS, start=best)
    assert (result.schedule, result.found_by, result.status) == (best, "start", "optimal")


def test_what_no_search_takes_is_said():
    many = tuple(request(f"R{i}", 1, 2) for i in range(33))
    crowd = Instance(machine=Machine(memory=5), cost=Cost((CostFunction(busy=2),)), requests=many)
    result = exact(crowd)
    assert (result.status, result.stopped) == ("feasible", "limit of the search")
    for why in ("slots is not proved with batches", "at most 32 requests", "configurations is not proved with"):
        assert any(why in said for said in result.failed)
