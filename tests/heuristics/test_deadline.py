"""The deadline rule, by hand."""

from functools import partial

import numpy as np

from heuristics import get_policy, trace_policy
from heuristics.policies.deadline import Deadline
from kvcore import Cost, CostFunction
from kvcore.metrics import objective_value
from tests.support import served as support
from tests.support.build import instance, request
from tests.support.served import work

COST = Cost((CostFunction(busy=2, tokens=1),))
served = partial(support.served, cost=COST, memory=99, evict=True)


def test_the_latest_to_end_goes_first_with_the_next_that_waits():
    """0.7 times 4 ticks are less than a batch of one, which takes 3; at the end all are as late as each other."""
    trace = served("deadline:token=4", (0, 1, 1), (0, 1, 1), (0, 1, 4))
    assert work(trace) == [{"R0": 1, "R2": 1}, {"R2": 1}, {"R2": 1}, {"R1": 1}, {"R2": 1}]
    assert objective_value(trace, "max-flow-time") == 4 + 3 + 3 + 3 + 3


def test_a_far_target_makes_batches_long():
    trace = served("deadline:flow=1000,token=1", (0, 1, 1), (0, 1, 1), (0, 1, 3))
    assert work(trace) == [{"R0": 1, "R1": 1, "R2": 1}, {"R2": 1}, {"R2": 1}]


ROOFLINE = Cost((CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2)))
"""Weights of 8 ticks and the KV that is read, beside 2 ticks a token."""


def test_up_to_the_knee_all_decode_and_prefill_goes_by_the_latest_end():
    """Four tokens for the weights: the longer of two first; beside its decode (8 + 4 ticks) go five tokens."""
    trace = served("deadline:token=50", (0, 6, 1), (0, 4, 3), cost=ROOFLINE)
    assert work(trace) == [{"R1": 4}, {"R1": 1, "R0": 5}, {"R1": 1, "R0": 1}]


def test_a_request_that_is_set_aside_is_the_last():
    """R0 has most left, and would be the first (`deadline:token=4` alone gives it the first batch)."""
    for cost in (COST, ROOFLINE):
        for factors, first in ((None, "R0"), (np.array([0.0, 1.0]), "R1")):
            trace = served(Deadline(token=4, factors=factors), (0, 4, 9), (0, 4, 1), cost=cost)
            assert next(iter(work(trace)[0])) == first


def test_calls_to_come_count():
    """The one with a call ends 50 ticks later than its tokens say."""
    trace = served("deadline:token=4", (0, 1, 3), (0, 1, 9), (0, 1, 1, 1))
    assert list(work(trace)[0]) == ["R2", "R1"]


def test_without_memory_for_both_the_earlier_end_waits():
    trace = served("deadline", (0, 5, 3), (0, 5, 5), memory=9)
    assert work(trace)[0] == {"R1": 5}
    assert trace.requests[0].completion > trace.requests[1].completion


def test_none_of_those_that_wait_fits():
    """R0 keeps 2 of 3 during its call, from 4 to 14; R1 (2), which comes at 5, waits for its end."""
    two = request("R0", 2, (1, 10, 0, "preserve"), 1), request("R1", 2, 1, arrival=5)
    made = instance(*two, cost=COST.functions, memory=3, host_memory=0, evict=True)
    trace = trace_policy(made, get_policy("deadline"))
    assert [(batch.start, batch.work) for batch in trace.schedule.batches] == [
        (0, {"R0": 2}), (14, {"R0": 1}), (17, {"R1": 2}),
    ]  # fmt: skip
