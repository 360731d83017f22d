"""Orders of requests that share contents."""

import random
from contextlib import suppress

import pytest

from heuristics import PolicyError, Unsuited, trace_policy
from kvcore import CostFunction, objective_value
from kvcore.instance import LIMIT
from kvcore.metrics import completions
from solvers.orders import Order, Placed, ordered
from tests.support.build import request
from tests.support.contents import shared
from workloads.builtin import builtin_instance


def test_a_given_order_in_shared_memory():
    trace = trace_policy(builtin_instance("prefix-lru"), Placed([0, 2, 1, 3], [0] * 4))
    assert completions(trace) == {"R1": 3, "R3": 4, "R2": 7, "R4": 9}


@pytest.mark.parametrize("placed", [False, True])
def test_a_request_waits_for_the_arrival_of_another(placed):
    order = Order([0, 3, 1, 2], [0, 5, 0, 0], [LIMIT] * 4, placed=placed)
    trace = trace_policy(builtin_instance("prefix-idles"), order.policy())
    assert [batch.start for batch in trace.schedule.batches] == [0, 4, 5, 6]
    assert objective_value(trace, "total-flow-time") == 11


def test_a_first_chunk_may_be_cut():
    """B computes a token beside A's decode, in a short batch: 31, the optimum."""
    on = shared(
        request("A", 4, 2, path=("n", 2)), request("B", 7, 1, arrival=4, path=("n", 6)),
        request("C", 8, 2, arrival=4, path=("n", 6)), tree=(("n", None, 6),), memory=11, batch_tokens=4, evict=True,
        cost=(CostFunction(busy=1, tokens=1),),
    )  # fmt: skip
    values = []
    for first in (1, LIMIT):
        trace = trace_policy(on, Order([0, 1, 2], [0] * 3, [LIMIT, first, LIMIT]).policy())
        values.append(objective_value(trace, "total-flow-time"))
    assert values[0] == 31 < values[1]


@pytest.mark.parametrize(("name", "optimum"), [("prefix-idles", 11), ("prefix-lpm", 25), ("prefix-order", 14)])
def test_changed_orders_find_the_optimum(name, optimum):
    instance = builtin_instance(name)
    tries = ordered([0] * len(instance.requests), instance.requests, list, random.Random(0), lambda made: made < 60)
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


def test_requests_wait_for_arrivals_and_for_ticks_of_the_best_schedule():
    requests, waits = builtin_instance("prefix-idles").requests, set()
    tries = ordered([0] * 4, requests, lambda: [7], random.Random(0), lambda made: made < 260)
    policy = next(tries)
    with suppress(StopIteration):
        while True:
            waits.update(policy.not_before if isinstance(policy, Placed) else policy.foresight.not_before)
            policy = tries.send(0.0)
    assert waits == {0, 3, 4, 5, 7}
