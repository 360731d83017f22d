"""The min-waste rule: InferCept's equations by hand, what the machine cannot carry out, and what `free` allows."""

import random

import pytest

from heuristics import STARTERS, best_schedule, get_policy, run_policy, trace_policy, with_min_waste_handlings
from heuristics.engine.demand import SoloEstimate
from heuristics.engine.min_waste import HandlingWaste, call_waste
from kvcore import Cost, CostFunction, Instance, Machine, verify_schedule
from kvcore.metrics import handlings, objective_value
from tests.support.build import request
from tests.support.drawer import crowded_instance, draw_instance
from tests.support.few import few
from tests.support.mars_schedules import mars

COSTLY_SWAPS = Cost((CostFunction(busy=1, swap_out_tokens=2, swap_in_tokens=2),))


def chosen(instance):
    return [call.handling for request in with_min_waste_handlings(instance).requests for call in request.calls]


def one_call(duration, machine, cost=COSTLY_SWAPS, returns=0):
    """A request that holds 10 tokens when its call starts."""
    return Instance(machine=machine, cost=cost, requests=(request("A", 8, (3, duration, returns, "free"), 2),))


# --- the equations -----------------------------------------------------------------------------------------------
def test_the_equations_by_hand():
    """Memory 30, C = 10, so C_o = 20; a prefill of 10 is 3 chunks of 4 ticks; 2 S = 2 * 20 ticks."""
    cost = Cost((CostFunction(busy=4, swap_out_tokens=2, swap_in_tokens=2),))
    chunked = SoloEstimate(Machine(memory=30, batch_tokens=4), cost)
    assert call_waste(chunked, 10, 7) == HandlingWaste(preserve=2 * 70, swap=2 * 40 * 30, discard=12 * 10 + 2 * 12 * 20)
    whole = SoloEstimate(Machine(memory=30, chunked=False), cost)
    assert call_waste(whole, 10, 7).discard == 2 * (4 * 10 + 4 * 20)


def test_figure_1_as_the_equations_see_it():
    """Swaps are free there, so they win; without a host, R1 and R2 are handled as the paper has them."""
    free = mars().with_free_calls()
    assert chosen(free) == ["swap", "swap", "swap"]
    assert chosen(free.replace(machine=free.machine.replace(host_memory=0))) == ["preserve", "discard", "preserve"]


def test_longer_calls_are_discarded_and_the_longest_swapped_where_that_is_cheap():
    machine = Machine(memory=30, host_memory=None)  # preserve 10 T; discard 10/2 + 20 = 25; swap 40 * 30
    assert [chosen(one_call(duration, machine)) for duration in (2, 3, 100)] == [["preserve"], ["discard"], ["discard"]]
    cheap = Cost((CostFunction(divisor=40, busy=40, swap_out_tokens=1, swap_in_tokens=1),))  # S = 1 tick: 2 * 30 = 60
    slow = Machine(memory=30, host_memory=None, batch_tokens=1)  # discard: 10 ticks * 25 = 250
    assert [chosen(one_call(duration, slow, cheap)) for duration in (6, 7)] == [["preserve"], ["swap"]]


def test_of_equal_wastes_preserve_comes_first_then_swap():
    machine = Machine(memory=30, host_memory=None)
    assert chosen(one_call(0, machine, Cost.unit())) == ["preserve"]  # preserve and swap waste nothing
    cost = Cost((CostFunction(divisor=10, busy=10, swap_out_tokens=1),))
    machine = Machine(memory=12, chunked=False, host_memory=None)
    assert call_waste(SoloEstimate(machine, cost), 10, 2) == HandlingWaste(preserve=40, swap=24, discard=24)
    assert chosen(one_call(2, machine, cost)) == ["swap"]
    assert chosen(one_call(2, machine.replace(host_memory=0), cost)) == ["discard"]


# --- what cannot be carried out ----------------------------------------------------------------------------------
def test_a_swap_must_fit_on_the_host():
    for host, handling in ((9, "discard"), (10, "swap")):
        assert chosen(one_call(50, Machine(memory=30, host_memory=host), Cost.unit())) == [handling]


def test_a_whole_refill_must_fit_into_a_batch():
    for limit, handling in ((12, "preserve"), (13, "discard")):
        machine = Machine(memory=30, chunked=False, prefill_tokens=limit)
        assert chosen(one_call(50, machine, returns=2)) == [handling]
    assert chosen(one_call(50, Machine(memory=30, prefill_tokens=1), returns=2)) == ["discard"]  # in chunks


def test_without_a_limit_on_memory_nothing_is_wasted():
    assert chosen(one_call(10**9, Machine(memory=None, host_memory=None), Cost.unit())) == ["preserve"]


def test_only_free_calls_are_chosen():
    assert with_min_waste_handlings(mars()) is mars() or with_min_waste_handlings(mars()) == mars()
    two = request("A", 8, (3, 50, 0, "preserve"), (2, 50, 0, "free"), 1)
    assert chosen(Instance(machine=Machine(memory=30), requests=(two,))) == ["preserve", "discard"]


def test_predictions_choose_and_the_truth_says_what_fits():
    machine = Machine(memory=30, host_memory=10)
    true, believed = one_call(50, machine), one_call(1, machine)
    assert chosen(true) == ["discard"]
    handled = with_min_waste_handlings(true, predictions=believed)
    assert [call.handling for call in handled.requests[0].calls] == ["preserve"]
    longer = true.replace(requests=(true.requests[0].replace(prompt=9),))  # it holds 11, the host 10
    free_swaps = [instance.replace(cost=Cost.unit()) for instance in (longer, true)]
    handled = with_min_waste_handlings(free_swaps[0], predictions=free_swaps[1])
    assert [call.handling for call in handled.requests[0].calls] == ["discard"]


# --- schedules of the free instance ------------------------------------------------------------------------------
@pytest.mark.parametrize("handling", ["discard", "swap"])
@pytest.mark.parametrize("duration", [0, 1, 4])
def test_free_allows_what_the_handling_orders(handling, duration):
    """Also where the call has returned before the ordered batch, and where that batch already works."""
    requests = request("A", 2, (2, duration, 1, handling), 2), request("B", 1, 6)
    for machine in (Machine(memory=20, host_memory=9), Machine(memory=20, host_memory=9, pause=False, chunked=False)):
        fixed = Instance(machine=machine, requests=requests)
        schedule = run_policy(fixed, get_policy("fcfs"))
        free = fixed.with_free_calls()
        trace = verify_schedule(free, schedule.replace(instance_sha256=free.sha256))
        assert handlings(trace) == {"A/1": handling}
        if not duration:
            assert "A" in schedule.batches[2].work
            assert "A" in (schedule.batches[2].drop | schedule.batches[2].swap_out)


def test_schedules_of_fixed_handlings_are_schedules_of_free_calls():
    kinds = set()
    for seed in few(range(60)):
        for instance in (draw_instance(random.Random(seed)), crowded_instance(seed)):
            free = instance.with_free_calls()
            fixed = with_min_waste_handlings(free)
            for name in ("fcfs", "mars-order"):
                trace = trace_policy(free, get_policy(name))
                assert trace.schedule.instance_sha256 == free.sha256
                assert trace.schedule.batches == run_policy(fixed, get_policy(name)).batches
                assert handlings(trace) == handlings(verify_schedule(fixed, run_policy(fixed, get_policy(name))))
                kinds |= set(handlings(trace).values())
    assert kinds == {"preserve", "discard", "swap"}


def test_every_policy_runs_on_free_calls_and_serial_preserves():
    free = mars().with_free_calls()
    names = [policy.name for policy in STARTERS]
    for name in names:
        verify_schedule(free, run_policy(free, get_policy(name)))
    assert set(handlings(trace_policy(free, get_policy("serial"))).values()) == {"preserve"}
    name, schedule, trace = best_schedule(free, "total-flow-time")
    assert verify_schedule(free, schedule).batches == trace.batches
    assert objective_value(trace, "total-flow-time") <= min(
        objective_value(trace_policy(free, get_policy(other)), "total-flow-time") for other in names
    )
    assert name in names
