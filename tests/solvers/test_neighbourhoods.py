"""Improved schedules: the referee passes them, they are never worse, and often the exhaustive optimum."""

import numpy as np
import pytest

from formulations.timing import batches_of
from heuristics import best_schedule, get_policy, trace_policy
from kvcore import BadInput, Machine, objective_value, verify_schedule
from kvcore.metrics import FLOWS
from solvers.neighbourhoods import improve, why_not
from solvers.neighbourhoods.annealing import Annealing
from solvers.neighbourhoods.arrays import InstanceArrays
from solvers.neighbourhoods.insertion import Grid, fit, use
from solvers.neighbourhoods.pieces import read_pieces, schedule_of
from tests.support.build import batch, request, schedule
from tests.support.build import instance as make
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
NEVER = float("inf")
HERE = {"partial": False, "hybrid": True, "cost": "unit"}
NAMES = ("any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict")


def questions(profile, seeds):
    """Instances with an objective, the best schedule of the policies and its value."""
    for seed in seeds:
        instance = tiny_instance(seed, **PROFILES[profile] | HERE)
        objective = (*FLOWS, "total-ttft")[seed % 4]
        _, start, trace = best_schedule(instance, objective)
        yield instance, objective, start, objective_value(trace, objective)


def value(instance, schedule, objective=FLOW):
    return objective_value(verify_schedule(instance, schedule), objective)


# --- many small instances --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("profile", "least"), list(zip(NAMES, (0.75, 0.7, 0.8, 0.8, 0.8, 0.7), strict=True)))
def test_often_the_optimum_and_never_worse(profile, least):
    optimal = asked = 0
    for instance, objective, start, before in questions(profile, few(range(20), 2)):
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=1000)
        except TooManyStates:
            continue
        after = value(instance, improve(instance, objective, start, seconds=NEVER, seed=1, rounds=300), objective)
        assert optimum <= after <= before, (instance.name, objective)
        optimal += after == optimum
        asked += 1
    assert asked >= 7
    assert optimal >= least * asked


@pytest.mark.parametrize("profile", NAMES)
def test_a_schedule_in_pieces_is_the_same_schedule(profile):
    for instance, objective, start, before in questions(profile, few(range(30, 60))):
        trace = verify_schedule(instance, start)
        arrays = InstanceArrays(instance, objective)
        plan, count = read_pieces(trace, arrays)
        again = schedule_of(instance, arrays, plan, count)
        assert value(instance, again, objective) <= before
        assert [batch.work for batch in again.batches if batch.work] == [
            batch.work for batch in trace.expanded().batches if batch.work
        ]


@pytest.mark.parametrize("profile", NAMES)
def test_no_limit_is_exceeded_on_the_way(profile):
    for instance, objective, start, _ in questions(profile, few(range(60, 70))):
        run = Annealing(verify_schedule(instance, start), objective, 0)
        for _ in range(5):
            run.run(NEVER, 40)
            room = run.arrays.room(run.slots)
            for plan, count in zip(run.plan, run.count, strict=True):
                use(room, instance.machine.block, plan, count, -1)
            assert (room == run.room).all()
            assert room.min() >= 0
            found = schedule_of(instance, run.arrays, run.best_plan, run.best_count)
            least = run.best - float(run.arrays.rate @ run.arrays.arrival)
            assert float(value(instance, found, objective)) <= least + 1e-6


def test_calls_are_handled_in_every_way():
    """What the searched schedules do in calls, of free ones and of those with an order."""
    seen = set()
    for seed in range(12):
        instance = tiny_instance(seed, **PROFILES["calls-free"] | HERE)
        _, start, _ = best_schedule(instance, FLOW)
        run = Annealing(verify_schedule(instance, start), FLOW, seed)
        run._anneal(20, 50.0, 50.0)
        found = schedule_of(instance, run.arrays, run.plan, run.count)
        seen |= {call.handling for made in verify_schedule(instance, found).requests for call in made.calls}
    assert seen >= {"preserve", "discard", "swap"}


# --- what it finds ---------------------------------------------------------------------------------------------------
def test_beats_the_policies_on_the_theory_family():
    instance = builtin_instance("hindsight-benchmark:seed=2")
    start = trace_policy(instance, get_policy("mc-sf"))
    found = improve(instance, FLOW, start.schedule, seconds=NEVER, seed=0, rounds=40_000)
    assert value(instance, found) < 0.98 * objective_value(start, FLOW)


def test_the_same_for_the_same_seed_and_rounds():
    instance = builtin_instance("hindsight:n=30,M=120,P=30,seed=0")
    _, start, _ = best_schedule(instance, FLOW)
    one, two, other = (improve(instance, FLOW, start, seconds=NEVER, seed=s, rounds=4_000) for s in (3, 3, 4))
    assert one == two
    assert one != other


def test_stops_at_the_time_limit():
    instance = builtin_instance("hindsight-benchmark:seed=2")
    _, start, trace = best_schedule(instance, FLOW)
    before = objective_value(trace, FLOW)
    at_once = improve(instance, FLOW, start, seconds=0, seed=0)  # all inserted anew, no move
    assert value(instance, at_once) <= before


def test_a_request_waits_although_it_fits():
    """The optimum is no list schedule: the two large requests must not end near one another."""
    instance = builtin_instance("hindsight:n=14,M=30,seed=14")
    _, start, _ = best_schedule(instance, FLOW)
    found = [
        value(instance, improve(instance, FLOW, start, seconds=NEVER, seed=seed, rounds=100_000)) for seed in range(3)
    ]
    assert min(found) <= 630  # 626 is proved


def test_evicts_where_that_pays():
    """B comes when A holds half of the memory: A is evicted in slot 1, and goes on after B (11 without evictions)."""
    pair = make(request("A", 3, 6), request("B", 5, 2, arrival=1), memory=8, host_memory=0, evict=True)
    start = trace_policy(pair, get_policy("serial"))
    found = verify_schedule(pair, improve(pair, FLOW, start.schedule, seconds=NEVER, seed=0, rounds=300))
    assert objective_value(found, FLOW) == exhaustive_optimum(pair, FLOW)[0] == 10
    assert [move.kind for move in found.requests[0].moves] == ["drop"]
    again = schedule_of(pair, arrays := InstanceArrays(pair, FLOW), *read_pieces(found, arrays))
    assert value(pair, again) == 10


def test_an_eviction_between_two_batches_is_none():
    """The slot of the drop is no batch, and in the next one the request works: its KV stays."""
    batches = batches_of([("A", [(0, "work", 3), (1, "evict", 3), (2, "work", 4), (3, "work", 1)])])[1]
    assert [(batch.work, batch.drop) for batch in batches] == [({"A": 3}, {}), ({"A": 1}, {}), ({"A": 1}, {})]
    there = batches_of([("A", [(0, "work", 3), (1, "evict", 3), (2, "work", 4)]), ("B", [(1, "work", 2)])])[1]
    assert [(batch.work, batch.drop) for batch in there] == [({"A": 3}, {}), ({"B": 2}, {"A": 3}), ({"A": 4}, {})]


# --- scope -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("change", "objective", "reason"), [
    ({}, "makespan", "does not go with makespan"),
    ({"hybrid": False}, FLOW, "does not go with no hybrid"),
    ({"partial": True}, FLOW, "does not go with partial"),
])  # fmt: skip
def test_refuses_the_rest(change, objective, reason):
    instance = builtin_instance("mars-figure1")
    instance = instance.replace(machine=Machine.model_validate(instance.machine.model_dump() | change))
    with pytest.raises(BadInput, match=reason):
        improve(instance, objective, schedule(instance, batch(0, R1=1)), seconds=1, seed=0)


def test_refuses_batches_of_several_ticks_and_what_is_too_large():
    assert "batches of several ticks" in why_not(builtin_instance("infermax-figure15"), FLOW)
    long = make(request("A", 1, 1), request("B", 1, 1, arrival=10**9))
    assert "ticks from the first arrival on" in why_not(long, FLOW)
    wide = make(request("A", 2**41, 1))
    assert "tokens together" in why_not(wide, FLOW)


# --- kernels against their definition --------------------------------------------------------------------------------
def test_a_segment_begins_in_the_first_slot_that_suits_it():
    """Against trying every slot, with every split of the prefill as late as possible."""
    draw = np.random.default_rng(0)
    found = 0
    for _ in range(400):
        slots, block = 14, int(draw.integers(1, 3))
        room = np.array([draw.integers(0, 7, slots), np.zeros(slots, int), *draw.integers(0, 4, (3, slots))])
        room[2:4] += 1
        chunked, pause = draw.integers(0, 2, 2)
        context, decode = int(draw.integers(2, 6)), int(draw.integers(1, 4))
        before, ready = int(draw.integers(0, context)), int(draw.integers(0, 4))
        parts = np.zeros((24, 2), np.int64)
        first, count = fit(
            room, Grid(slots, block, int(chunked), int(pause), 24, 0), ready, ready, context, decode, before, parts
        )
        expected = next(
            (f for f in range(ready, slots - decode + 1)
             if suits(room, block, chunked, pause, ready, f, context, decode, before)), -1
        )  # fmt: skip
        assert first == expected
        assert first < 0 or parts[:count, 1].sum() == context - before
        found += first >= 0
    assert 50 < found < 350


def suits(room, block, chunked, pause, ready, first, context, decode, before):
    device, _, tokens, prefill, requests = room
    for q in range(decode):
        t = first + q
        if device[t] * block < context + q or tokens[t] < 1 or requests[t] < 1:
            return False
    left, t = context - before, first
    while left:
        if t < ready or device[t] * block < before + left:
            return False
        part = min(left, tokens[t], prefill[t]) if requests[t] else 0
        if t == first and before + left > 1 and (left == 1 or (part == 0 and chunked)):
            part = 1
        if part < left and not chunked:
            return False
        if part == 0 and (t == first or not pause):
            return False
        left, t = left - part, t - 1
    return True
