"""Theorems on random tiny instances, each with its proof in a line: no optimum of the exhaustive search breaks them.

What is not here because it is false: an earlier arrival can raise every flow time (the baseline moves), and fewer
returned tokens, or keeping KV instead of dropping it, can make the best schedule slower (see
`SOLVED` of `test_exhaustive.py`).
"""

from fractions import Fraction

import pytest

from kvcore import OBJECTIVES, Cost, CostFunction, objective_value, verify_schedule
from tests.support import build
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few

SMALL = {"requests": 2, "prompt": (1, 2), "decode": (1, 2), "calls": (0, 1), "partial": False}
"""Keeps random instances small enough for many of them."""

TIGHT = {"decode": (2, 3), "calls": 0, "batch_tokens": (2, 3), "batch_requests": None, "pause": True}
"""Makes the memory matter."""

NAMES = list(OBJECTIVES)


def optimum(instance, objective):
    return exhaustive_optimum(instance, objective)[0]


def on_machine(instance, **changes):
    return instance.replace(machine=instance.machine.replace(**changes))


def with_requests(instance, change):
    return instance.replace(requests=tuple(change(request) for request in instance.requests))


# --- what makes no optimum worse -------------------------------------------------------------------------------------

RELAXATIONS = {
    # Every schedule stays legal, batch by batch.
    "more memory": (TIGHT, lambda i: on_machine(i, memory=i.machine.memory + 1)),
    "no limit on memory": (TIGHT, lambda i: on_machine(i, memory=None)),
    "more host memory": (
        {"host_memory": ("none", "some"), "calls": 1, "handling": "free", "prompt": (2, 3), "batch_tokens": 2},
        lambda i: on_machine(i, host_memory=i.machine.host_memory + 1),
    ),
    "more batch tokens": ({"batch_tokens": (1, 2)}, lambda i: on_machine(i, batch_tokens=i.machine.batch_tokens + 1)),
    "no limit on prefill tokens": ({"prefill_tokens": (1, 2)}, lambda i: on_machine(i, prefill_tokens=None)),
    "more batch requests": ({"batch_requests": 1}, lambda i: on_machine(i, batch_requests=2)),
    "hybrid": ({"hybrid": False}, lambda i: on_machine(i, hybrid=True)),
    "chunked": ({"chunked": False}, lambda i: on_machine(i, chunked=True)),
    "evict": (TIGHT | {"evict": False}, lambda i: on_machine(i, evict=True)),
    "partial": (TIGHT | {"evict": True, "host_memory": "none"}, lambda i: on_machine(i, partial=True)),
    "pause": ({"pause": False}, lambda i: on_machine(i, pause=True)),
    # A free call allows every move that a fixed handling allows.
    "free calls": ({"calls": 1}, lambda i: i.with_free_calls()),
    # b * ceil(m / b) >= m.
    "blocks of one token": (TIGHT | {"block": 2}, lambda i: on_machine(i, block=1)),
    # Same batches at the same starts: what is legal during a call is legal after it.
    "shorter calls": ({"calls": 1}, lambda i: i.with_calls(lambda call: call.replace(duration=call.duration // 2))),
    # Every batch lasts at least a tick; let each start later by what it loses, and it ends as before.
    "unit cost": ({"cost": ("linear", "two-functions")}, lambda i: i.replace(cost=Cost.unit())),
}
"""From which instances, and to which; every objective."""


@pytest.mark.parametrize("seeds", [few(range(320), 13)], ids=len)
@pytest.mark.parametrize("name", RELAXATIONS)
def test_a_relaxation_never_costs(name, seeds):
    fixed, relax = RELAXATIONS[name]
    better = 0
    for seed in seeds:
        instance, objective = tiny_instance(seed, **SMALL | fixed), NAMES[seed % len(NAMES)]
        before, after = optimum(instance, objective), optimum(relax(instance), objective)
        assert after <= before, (seed, objective)
        better += after < before
    assert better, "no instance here is helped at all, so that this test says nothing"


# --- arrivals, durations, ticks --------------------------------------------------------------------------------------
def test_earlier_arrivals_delay_nobody():
    # The same schedule is legal. A flow time grows by what its arrival moved, and by no more.
    for seed in few(range(24)):
        instance = tiny_instance(seed, **SMALL | {"arrival": (0, 1, 2, 3)})
        early = with_requests(instance, lambda request: request.replace(arrival=request.arrival // 2))
        moved = [old.arrival - new.arrival for old, new in zip(instance.requests, early.requests, strict=True)]
        weighted = sum(request.weight * ticks for request, ticks in zip(instance.requests, moved, strict=True))
        allowed = {
            "makespan": 0, "busy-time": 0, "total-flow-time": sum(moved), "weighted-flow-time": weighted,
            "max-flow-time": max(moved), "total-ttft": sum(moved),
        }  # fmt: skip
        for objective, more in allowed.items():
            assert optimum(early, objective) <= optimum(instance, objective) + more, (seed, objective)


@pytest.mark.parametrize(("arrival", "flow"), [(2, 3), (1, 4)])
def test_an_earlier_arrival_can_raise_the_flow_time(arrival, flow):
    # One request at a time: B comes when A is done, 2 + 1; or a tick earlier, and one waits for the other.
    a, b = build.request("A", 1, 2), build.request("B", 1, 1, arrival=arrival)
    assert optimum(build.instance(a, b, batch_requests=1), "total-flow-time") == flow


def test_busy_time_ignores_arrivals_and_durations():
    # Waiting is free: let each batch start when all that is to come has come.
    for seed in few(range(24)):
        instance = tiny_instance(seed, **SMALL)
        at_once = instance.with_calls(lambda call: call.replace(duration=0))
        at_once = with_requests(at_once, lambda request: request.replace(arrival=0))
        assert optimum(at_once, "busy-time") == optimum(instance, "busy-time"), seed


def test_times_scale():
    # Some best schedule starts every batch at a sum of arrivals, durations and batches; all of these grow threefold.
    for seed in few(range(24)):
        instance = tiny_instance(seed, **SMALL | {"cost": "unit", "host_memory": "none", "slo": False})
        slow = with_requests(instance, lambda request: request.replace(arrival=3 * request.arrival))
        slow = slow.with_calls(lambda call: call.replace(duration=3 * call.duration))
        slow = slow.replace(cost=Cost((CostFunction(busy=3),)))
        objective = NAMES[seed % len(NAMES)]
        assert optimum(slow, objective) == 3 * optimum(instance, objective), (seed, objective)


def test_starts_between_events_help_no_objective_without_a_tpot_slo():
    for seed in few(range(32)):
        instance = with_requests(
            tiny_instance(seed, **SMALL),
            lambda request: request.replace(slo=request.slo and request.slo.replace(tpot=None)),
        )
        objective = NAMES[seed % len(NAMES)]
        anywhere = exhaustive_optimum(instance, objective, every_tick=True)[0]
        assert anywhere == optimum(instance, objective), (seed, objective)


# --- symmetry --------------------------------------------------------------------------------------------------------
def test_the_order_of_the_requests_does_not_matter():
    for seed in few(range(16)):
        instance, objective = tiny_instance(seed, **SMALL | {"requests": 3, "calls": 0}), NAMES[seed % len(NAMES)]
        backwards = instance.replace(requests=instance.requests[::-1])
        assert optimum(backwards, objective) == optimum(instance, objective), (seed, objective)


# --- between objectives ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(8))
def test_objectives_agree_with_each_other(seed):
    instance = tiny_instance(seed, **SMALL)
    found = {name: exhaustive_optimum(instance, name) for name in NAMES}
    best = {name: value for name, (value, _) in found.items()}
    for _, schedule in found.values():
        trace = verify_schedule(instance, schedule)
        assert all(objective_value(trace, name) >= best[name] for name in NAMES)
    requests = instance.requests
    outputs, weights = [r.output for r in requests], [r.weight for r in requests]
    flow, largest = best["total-flow-time"], best["max-flow-time"]
    assert largest <= flow <= len(requests) * largest
    assert best["total-ttft"] <= flow <= best["weighted-flow-time"] <= max(weights) * flow
    assert Fraction(flow, max(outputs)) <= best["normalized-latency"] <= Fraction(flow, min(outputs))
    assert largest <= best["makespan"] <= largest + max(r.arrival for r in requests)
    assert best["busy-time"] <= best["makespan"]
