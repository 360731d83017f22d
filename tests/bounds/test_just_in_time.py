"""Prefills and moves in parts that end just in time: what the referee accepts, and as good as an enumeration says."""

from random import Random

import pytest

from bounds.just_in_time import applies, search, search_near
from kvcore import CostFunction, objective_value, verify_schedule
from kvcore.cost import Cost
from library.library import Library
from tests.kvcore.test_orders import drawn
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few

FLOW = "total-flow-time"


def free(seed):
    """An instance with free calls on a machine with pause, where prefills are split or KV moves in parts."""
    tiny, draw = drawn(seed), Random(seed)
    chunked = draw.random() < 0.7
    machine = tiny.machine.replace(
        pause=True, chunked=chunked, partial=not chunked or draw.random() < 0.5, block=1,
        host_memory=draw.choice((0, tiny.machine.memory)), batch_tokens=draw.choice((None, 4)) if chunked else None,
    )  # fmt: skip
    costs = (*tiny.cost.functions, CostFunction(swap_out_tokens=1, swap_in_tokens=draw.choice((1, 2))))
    return tiny.with_free_calls().replace(machine=machine, cost=Cost(costs))


def found(seeds, max_states):
    """Return how many schedules of tiny instances are optimal, and how many there are; none is below the optimum."""
    optimal = count = 0
    for seed in seeds:
        tiny = free(seed)
        assert applies(tiny, FLOW)
        schedule = search(tiny, FLOW, 300)
        value = objective_value(verify_schedule(tiny, schedule), FLOW)
        try:
            optimum = exhaustive_optimum(tiny, FLOW, max_states=max_states)[0]
        except TooManyStates:
            continue
        assert value >= optimum
        count, optimal = count + 1, optimal + (value == optimum)
    return optimal, count


def test_schedules_obey_the_rules_and_most_are_optimal():
    optimal, count = found(few(range(1560), 78), 1500 if ALL else 300)
    assert count >= 5
    assert optimal >= 0.8 * count


def test_tokens_keep_to_an_order():
    in_turn, both = 0, 0
    for seed in few(range(60), 3):
        tiny = free(seed)
        order = [(i,) for i, request in reversed([*enumerate(tiny.requests)]) for _ in range(request.output)]
        schedule = search(tiny, FLOW, 300, order=order, slack=0)
        if schedule is not None:
            ends = [one.completion for one in verify_schedule(tiny, schedule).requests]
            assert ends == sorted(ends, reverse=True)
            in_turn, both = in_turn + 1, both + (len(ends) > 1)
    assert min(in_turn, both) >= 5


@pytest.mark.slow
def test_schedules_near_the_best_order_without_a_host_are_better():
    instance = Library().instance(Library().record("real-3-ve-s3"))
    *_, best = search_near(instance, FLOW, 200, 26_920_335)
    assert objective_value(verify_schedule(instance, best), FLOW) <= 26_072_307


def test_only_what_is_better_is_found():
    library = Library()
    real = library.instance(library.record("ve-2"))
    best = objective_value(verify_schedule(real, library.schedule(library.record("ve-2"), FLOW)), FLOW)
    assert objective_value(verify_schedule(real, search(real, FLOW, 30)), FLOW) >= best
    assert search(real, FLOW, 30, best) is None  # it is optimal


def test_a_prefill_ends_just_in_time_for_a_call():
    library = Library()
    real = library.instance(library.record("infercept-ve-k3-chunked1"))
    schedule = search(real, FLOW, 30)
    trace = verify_schedule(real, schedule)
    parts = [step for one in trace.requests for step in one.steps if step.tokens > 1 and not step.generated]
    assert parts
    assert objective_value(trace, FLOW) < 29_768_524  # ... what there was where amounts are whole or tried one by one


@pytest.mark.parametrize("change", [{"chunked": False, "partial": False, "batch_tokens": None}, {"pause": False}])
def test_what_it_is_not_for(change):
    tiny = free(3)
    assert not applies(tiny.replace(machine=tiny.machine.replace(**change)), FLOW)
    assert not applies(tiny, "makespan")
    assert not applies(drawn(next(s for s in range(99) if _orders(s))), FLOW)


def _orders(seed):
    tiny = drawn(seed)
    handlings = {call.handling for one in tiny.requests for call in one.calls}
    machine = tiny.machine
    return machine.pause and (machine.chunked or machine.partial) and "preserve" in handlings
