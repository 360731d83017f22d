"""Epochs: the compiled run keeps the rules and their times, and finds copies that other work hides."""

from itertools import pairwise
from random import Random

import pytest

from kvbound.instances import load_instance
from kvcore import objective_value, verify_schedule
from solvers.epochs import applies, search
from solvers.improve import improve
from tests.support.drawer import FRESH, draw_instance
from tests.support.few import few

COST = {"busy": range(5), "tokens": range(1, 4), "divisor": (1, 2)}
SWAPS = {"swap_out_tokens": range(3), "swap_in_tokens": range(3)}
FEW = FRESH.but(
    requests=(2, 3, 4), handling="free", prompt=range(1, 40), decode=range(1, 6), block=(1, 2, 4),
    partial=True, evict=True, pause=True,
    hybrid=True,
    host_memory=("none", "near", "no limit"), batch_tokens=(None, None, "enough"), duration=range(60),
    memory=("largest", "near", "sum", None), cost=((COST | SWAPS,), (COST, SWAPS)),
)  # fmt: skip
"""Requests with free calls and more than the memory holds."""


@pytest.mark.parametrize("seed", few(range(120)))
def test_every_schedule_keeps_the_rules_and_idles_only_until_something_happens(seed):
    instance = draw_instance(Random(seed), FEW)
    assert applies(instance, "total-flow-time")
    found = search(instance, "weighted-flow-time", 0, seed, rounds=400)
    trace = verify_schedule(instance, found)
    events = {request.request.arrival for request in trace.requests}
    events |= {call.end for request in trace.requests for call in request.calls}
    assert all(after.start == before.end or after.start in events for before, after in pairwise(trace.batches))


def test_copies_behind_other_work_are_found_again_with_the_same_seed():
    instance, objective = load_instance("real-3-qa-s2"), "total-flow-time"
    assert search(instance, objective, 0, 0, rounds=200) == search(instance, objective, 0, 0, rounds=200)
    found = search(instance, objective, 0, 0, rounds=4_000)
    assert objective_value(verify_schedule(instance, found), objective) < 370_000_000
    assert any(batch.swap_in and batch.work for batch in found.batches)


def test_improve_goes_through_epochs():
    instance = draw_instance(Random(3), FEW)
    result = improve(instance, rounds=6)
    assert result.value <= objective_value(
        verify_schedule(instance, search(instance, "total-flow-time", 0, 0, 4_000)), "total-flow-time"
    )
