"""The deadline rule, by hand."""

from functools import partial

import numpy as np

from heuristics.policies.deadline import Deadline
from kvcore import Cost, CostFunction
from tests.support import served as support
from tests.support.served import work

COST = Cost((CostFunction(busy=2, tokens=1),))
served = partial(support.served, cost=COST, memory=99, evict=True)


ROOFLINE = Cost((CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2)))
"""Weights of 8 ticks and the KV that is read, beside 2 ticks a token."""


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
