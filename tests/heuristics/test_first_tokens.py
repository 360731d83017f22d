"""First tokens before all else, by hand."""

from functools import partial

import pytest

from heuristics import Unsuited, get_policy, trace_policy
from kvcore import Cost, CostFunction
from kvcore.cost import OwnCost
from tests.support import served as support
from tests.support.build import instance, request
from tests.support.served import work

POLICY = get_policy("first-tokens")
TOKENS = Cost((CostFunction(busy=2, tokens=1),))


served = partial(support.served, "first-tokens", cost=TOKENS, memory=99, evict=True)


def test_more_than_was_predicted_is_refilled():
    """One token of 4 is predicted. R1 is evicted at 2: it needs memory for 3, not for 1, and waits for R0."""
    given, believed = (
        instance(*(request(f"R{i}", 1, decode) for i in range(2)), cost=TOKENS.functions, memory=5, host_memory=0,
                 evict=True)
        for decode in (4, 1)
    )  # fmt: skip
    done = work(trace_policy(given, POLICY, believed))
    assert done == [{"R0": 1, "R1": 1}] * 2 + [{"R0": 1}] * 2 + [{"R1": 3}, {"R1": 1}]


def test_refills_after_calls_do_not_evict_each_other_for_ever():
    """Refills of 7 and 10 in parts, in a memory of 12: each has room for all that it knows before it begins."""
    two = request("R0", 4, (3, 0, 3, "free"), 1), request("R1", 5, (2, 0, 0, "free"), 1)
    given = instance(*two, cost=TOKENS.functions, memory=12, host_memory=0, prefill_tokens=3, evict=True)
    assert len(trace_policy(given, POLICY).schedule.batches) < 20


def test_a_cost_without_marginal_costs_is_declined():
    with pytest.raises(Unsuited, match="it is not made for a cost of your own"):
        served((0, 1, 1), cost=OwnCost(lambda features: 1))
