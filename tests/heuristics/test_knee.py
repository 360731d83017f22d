"""The knee rule: by hand, and its property on random instances."""

import random
from functools import partial
from itertools import pairwise

import pytest

from heuristics.policies.knee import has_knee
from kvcore import Cost, CostFunction
from kvcore.cost import OwnCost
from tests.support import served as support
from tests.support.few import few
from tests.support.served import work

ROOFLINE = Cost((CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2)))
"""Weights of 8 ticks and the KV that is read, beside 2 ticks a token."""


served = partial(support.served, cost=ROOFLINE)


def test_one_linear_function_has_no_knee():
    linear = Cost((CostFunction(busy=8, tokens=2), CostFunction(swap_out_tokens=3)))
    assert work(served("knee", (0, 7, 1), (0, 9, 1), cost=linear, memory=99, evict=True)) == [{"R0": 7, "R1": 9}]
    assert has_knee(ROOFLINE)
    assert has_knee(Cost((CostFunction(busy=8, tokens_above={"knee": 3, "coefficient": 5}),)))
    assert not has_knee(linear)
    assert not has_knee(OwnCost(lambda features: 1))


def test_decodes_that_delay_the_others_too_much_pause():
    """With R0 = 0 the one with least left goes alone; with a large R0 both go, as they share the weights."""
    both, alone = [(0, 1, 2), (0, 1, 30)], "knee:means=0"
    assert {"R0": 1, "R1": 1} in work(served("knee:means=99", *both, memory=99, evict=True))
    dear = Cost((CostFunction(busy=1, decode_kv=9), CostFunction(tokens=1)))
    assert {"R0": 1} in work(served(alone, *both, cost=dear, memory=99, evict=True))


def test_where_memory_lacks_the_prefill_goes_first():
    """R2 has 9 of 12 tokens when the decodes need the memory; all of it is computed again at the end."""
    trace = served("knee", (0, 2, 9), (0, 2, 9), (1, 12, 1), memory=20, evict=True)
    assert [dict(batch.drop) for batch in trace.expanded().batches if batch.drop] == [{"R2": 9}]
    assert work(trace)[-3:] == [{"R2": 4}] * 3


@pytest.mark.parametrize("seed", few(range(40), 8))
def test_no_batch_goes_beyond_the_knee(seed):
    """Compute takes no longer than memory, but for a prefill that is alone."""
    draw = random.Random(seed)
    requests = [(draw.randint(0, 60), draw.randint(1, 20), draw.randint(1, 9)) for _ in range(draw.randint(2, 7))]
    limit = draw.choice([None, 12])
    trace = served("knee", *requests, memory=draw.choice([30, 60]), evict=True, batch_tokens=limit)
    for run in trace.runs:
        features = run.features
        if features.any_prefill and (features.decode_requests or features.prefill_requests > 1):
            assert 2 * features.tokens <= 8 + features.decode_kv
    assert all(before.ends[-1] <= after.start for before, after in pairwise(trace.runs))
