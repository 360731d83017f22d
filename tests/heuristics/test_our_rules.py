"""Rules of this project (deadline, first tokens, knee, on time): what rows of `test_by_hand` do not say."""

import random
from itertools import pairwise

import numpy as np
import pytest

from heuristics import Unsuited, get_policy, trace_policy
from heuristics.policies.deadline import Deadline
from kvcore import CostFunction
from kvcore.cost import OwnCost
from kvcore.instance import Slo
from tests.support.build import instance, request
from tests.support.few import few

TOKENS = (CostFunction(busy=2, tokens=1),)
ROOFLINE = (CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2))
"""Weights of 8 ticks and the KV that is read, beside 2 ticks a token."""


def works(trace):
    return [dict(batch.work) for batch in trace.expanded().batches]


@pytest.mark.parametrize("cost", [TOKENS, ROOFLINE])
def test_a_request_that_is_set_aside_is_the_last(cost):
    """A has most left, and would be the first (`deadline:token=4` alone gives it the first batch)."""
    given = instance(request("A", 4, 9), request("B", 4, 1), cost=cost, memory=99, evict=True)
    for factors, first in ((None, "A"), (np.array([0.0, 1.0]), "B")):
        assert next(iter(works(trace_policy(given, Deadline(token=4, factors=factors)))[0])) == first


def test_more_than_was_predicted_is_refilled():
    """One token of 4 is predicted. B is evicted at 2: it needs memory for 3, not for 1, and waits for A."""
    given, believed = (
        instance(request("A", 1, n), request("B", 1, n), cost=TOKENS, memory=5, host_memory=0, evict=True)
        for n in (4, 1)
    )
    done = works(trace_policy(given, get_policy("first-tokens"), believed))
    assert done == [{"A": 1, "B": 1}] * 2 + [{"A": 1}] * 2 + [{"B": 3}, {"B": 1}]


@pytest.mark.parametrize("name", ["first-tokens", "index"])
def test_a_cost_without_marginal_costs_is_declined(name):
    own = instance(request("A", 1, 1), memory=99, evict=True).replace(cost=OwnCost(lambda features: 1))
    with pytest.raises(Unsuited, match=rf"^policy {name} cannot run on .*: it is not made for a cost of your own"):
        trace_policy(own, get_policy(name))


@pytest.mark.parametrize("seed", few(range(40), 8))
def test_no_batch_goes_beyond_the_knee(seed):
    """Compute takes no longer than memory, but for a prefill that is alone."""
    draw = random.Random(seed)
    requests = [
        request(f"R{i}", draw.randint(1, 20), draw.randint(1, 9), arrival=draw.randint(0, 60))
        for i in range(draw.randint(2, 7))
    ]
    limits = {"memory": draw.choice([30, 60]), "batch_tokens": draw.choice([None, 12])}
    trace = trace_policy(instance(*requests, cost=ROOFLINE, evict=True, **limits), get_policy("knee"))
    for run in trace.runs:
        features = run.features
        if features.any_prefill and (features.decode_requests or features.prefill_requests > 1):
            assert 2 * features.tokens <= 8 + features.decode_kv
    assert all(before.ends[-1] <= after.start for before, after in pairwise(trace.runs))


@pytest.mark.parametrize("seed", few(range(20), 5))
def test_every_request_is_served_on_time_or_late(seed):
    """With little memory and a knee: the referee has passed what comes out."""
    draw = random.Random(seed)
    names = ("ttft", "latency", "tpot", "normalized_latency")
    requests = [
        request(
            f"R{i}", draw.randint(1, 15), draw.randint(1, 9), arrival=draw.randint(0, 40), weight=draw.randint(1, 3),
            slo=Slo(**{name: draw.randint(1, 30) for name in names if draw.random() < 0.5}),
        )
        for i in range(draw.randint(2, 8))
    ]  # fmt: skip
    limits = {"memory": draw.choice([24, 40]), "batch_tokens": draw.choice([None, 8]), "host_memory": 0}
    trace = trace_policy(instance(*requests, cost=ROOFLINE, evict=True, **limits), get_policy("on-time"))
    assert all(one.completion for one in trace.requests)
