"""Policies that know no contents, on instances that have them."""

import random

import pytest

import solvers
from heuristics import PolicyError, get_policy, trace_policy
from heuristics.engine.forgetting import forgetting, without_contents
from kvcore import OBJECTIVES, objective_value
from tests.support.build import request
from tests.support.contents import shared, with_contents
from tests.support.drawer import crowded_instance
from tests.support.few import few


@pytest.mark.parametrize("name", ["serial", "mars", "vllm-v1"])
def test_schedules_without_contents_are_worth_the_same_with_them(name: str) -> None:
    forgot, full = 0, None
    for seed in few(range(180)):
        instance = with_contents(random.Random(seed), crowded_instance(seed, most=5))
        policy = get_policy(name)
        if policy.why_not(instance.machine) is None:
            try:
                plain = trace_policy(without_contents(instance), policy)
            except PolicyError as error:
                full = error
                continue
            trace = forgetting(instance, plain.expanded())
            assert all(objective_value(trace, each) == objective_value(plain, each) for each in OBJECTIVES), seed
            assert not any(batch.reuse for batch in trace.schedule.batches)
            forgot += any(batch.forget for batch in trace.schedule.batches)
    assert forgot > 0
    assert full is None or (full.rule, name) == (7, "mars")  # ordered swaps fill the host


def test_a_solve_begins_with_them() -> None:
    """No policy knows contents and calls that preserve; without a schedule no search begins."""
    call = (1, 2, 0, "preserve")
    instance = shared(request("A", 4, call, 1, path=("tools", 1)), request("B", 4, 1, path=("tools", 1)), memory=9)
    assert solvers.solve(instance).status == "optimal"
