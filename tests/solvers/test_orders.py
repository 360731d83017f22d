"""Orders of requests that share contents."""

import random

import pytest

from heuristics import PolicyError, Unsuited, trace_policy
from kvcore import objective_value
from kvcore.metrics import completions
from solvers.orders import Order, Placed, ordered
from workloads.builtin import builtin_instance


def test_a_given_order_in_shared_memory():
    trace = trace_policy(builtin_instance("prefix-lru"), Placed([0, 2, 1, 3], [0] * 4))
    assert completions(trace) == {"R1": 3, "R3": 4, "R2": 7, "R4": 9}


@pytest.mark.parametrize("placed", [False, True])
def test_a_request_waits_for_the_arrival_of_another(placed):
    order = Order([0, 3, 1, 2], [0, 5, 0, 0], placed=placed)
    trace = trace_policy(builtin_instance("prefix-idles"), order.policy())
    assert [batch.start for batch in trace.schedule.batches] == [0, 4, 5, 6]
    assert objective_value(trace, "total-flow-time") == 11


@pytest.mark.parametrize(("name", "optimum"), [("prefix-idles", 11), ("prefix-lpm", 25), ("prefix-order", 14)])
def test_changed_orders_find_the_optimum(name, optimum):
    instance = builtin_instance(name)
    tries = ordered([0] * len(instance.requests), instance.requests, random.Random(0), lambda made: made < 60)
    policy, best = next(tries), float("inf")
    while policy is not None:
        try:
            value = float(objective_value(trace_policy(instance, policy), "total-flow-time"))
        except (PolicyError, Unsuited):
            value = float("inf")
        best = min(best, value)
        try:
            policy = tries.send(value)
        except StopIteration:
            break
    assert best == optimum
