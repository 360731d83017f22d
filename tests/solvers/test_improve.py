"""Improving schedules by policies: what the referee accepts, never worse, and the same again."""

import random
from contextlib import suppress
from itertools import islice

import pytest

from heuristics import POLICIES, SHARING, PolicyError, Unsuited, get_policy, run_policy
from heuristics import trace_policy as run_trace
from kvcore import Batch, Cost, CostFunction, Instance, InvalidSchedule, Machine, Schedule, objective_value
from kvcore.cost import OwnCost
from kvcore.errors import BadInput
from kvcore.metrics import OBJECTIVES, completions
from kvcore.referee import verify_schedule
from solvers.improve import OTHERS, WITH_CALLS, ImproveOptions, _Improvement, first_policies, improve, other_policies
from tests.heuristics.test_compression import serving
from tests.support.build import simple
from tests.support.contents import IDLE, with_contents
from tests.support.drawer import crowded_instance
from tests.support.few import few
from workloads.builtin import builtin_instance

ROOFLINE = Cost((CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2)))
LINEAR = Cost((CostFunction(divisor=2, busy=9, tokens=3, decode_kv=1),))


@pytest.mark.parametrize(
    "objective", ["total-flow-time", "max-flow-time", "normalized-latency", "makespan", "late-requests"]
)
def test_it_is_never_worse_and_the_same_again(objective):
    seed = list(OBJECTIVES).index(objective)
    instance = serving(seed).replace(cost=LINEAR)
    first = run_policy(instance, get_policy("vllm"))
    value = objective_value(verify_schedule(instance, first), objective)
    found = improve(instance, objective, start="vllm", rounds=26, seed=seed)
    assert found.verified
    assert found.value is not None
    assert found.value <= value
    assert str(found.start.value) == str(value)
    assert improve(instance, objective, start=first, rounds=26, seed=seed).schedule == found.schedule
    if found.policy is not None:
        assert run_policy(instance, get_policy(found.policy)) == found.schedule


KINDS = {
    "worst-mars-total-flow-time": "max-flow-time",
    "infercept-sample:k=4": "total-flow-time",
    "infermax-figure15": "busy-time",
    "identical:n=8,I=4,O=3,M=24": "makespan",
    "hindsight:n=10,M=20": "total-flow-time",
    "mars-like:n=6": "weighted-flow-time",
    "infercept-ve:k=3": "total-ttft",
    "worst-sarathi-makespan": "late-requests",
    **{str(seed): objective for seed, objective in enumerate(("late-requests", "max-flow-time", "normalized-latency",
                                                              "total-flow-time", "makespan"))},
}  # fmt: skip
"""Built-in instances, and drawn ones of many switches, with an objective each."""


@pytest.mark.parametrize("name", few(list(KINDS), 3))
def test_it_is_never_worse_than_any_policy_that_the_machine_suits(name, monkeypatch):
    """Before it changes anything at random it has run them all."""
    monkeypatch.setattr(_Improvement, "perturbed", lambda search, draw: iter(()))
    monkeypatch.setattr(ImproveOptions, "runs", 10)
    monkeypatch.setattr(ImproveOptions, "moves", 10)
    instance = crowded_instance(int(name)) if name.isdigit() else builtin_instance(name)
    values = []
    for policy in POLICIES.values():
        with suppress(PolicyError, Unsuited):
            trace = verify_schedule(instance, run_policy(instance, policy))
            values.append(objective_value(trace, KINDS[name]))
    assert len(values) > 3
    found = improve(instance, KINDS[name], rounds=1000)
    assert found.value is not None
    assert found.value <= min(values)


def test_contents_are_kept_for_those_who_come():
    """The optimum idles, then runs those that find their prefix."""
    found = improve(IDLE, rounds=60)
    assert (found.value, found.policy) == (11, None)


@pytest.mark.parametrize("seed", few(range(18)))
def test_with_contents_it_is_never_worse_than_any_policy(seed, monkeypatch):
    monkeypatch.setattr(_Improvement, "perturbed", lambda search, draw: iter(()))
    monkeypatch.setattr(ImproveOptions, "runs", 10)
    instance = with_contents(random.Random(seed), crowded_instance(seed))
    values = []
    for policy in (SHARING | POLICIES).values():
        with suppress(PolicyError, Unsuited):
            values.append(objective_value(run_trace(instance, policy), "total-flow-time"))
        with suppress(PolicyError, Unsuited):
            values.append(objective_value(run_trace(instance, policy.sharing()), "total-flow-time"))
    assert len(values) > 3
    found = improve(instance, rounds=1000)
    assert found.verified
    assert found.value <= min(values)
    if found.policy is not None:
        assert run_policy(instance, get_policy(found.policy)) == found.schedule


def test_a_machine_that_does_not_evict_or_pause_and_free_calls():
    better = 0
    for seed in few(range(4)):
        instance = serving(seed)
        instance = instance.replace(cost=LINEAR, machine=instance.machine.replace(evict=False, pause=seed % 2 == 0))
        found = improve(instance, start="serial", handling="free", rounds=90, seed=seed)
        assert found.verified
        better += found.value < found.start.value
    assert better


def test_a_cost_of_ones_own():
    instance = serving(3).replace(cost=OwnCost(lambda features: 2 + features.tokens**0.5))
    found = improve(instance, rounds=9)
    assert found.verified
    assert found.value <= found.start.value


@pytest.mark.parametrize("start", [None, "vllm"])
def test_a_policy_that_does_not_end_in_time_gives_no_start(start):
    found = improve(serving(3), start=start, seconds=0.0, options={"improve.first": 0})
    assert (found.status, found.schedule, found.stopped) == ("unknown", None, "time limit")
    row = found.to_json()
    assert (row["start"], row["rounds"], row["options"]) == ({"policy": start, "value": None}, 0, {"improve.first": 0})


def test_equal_requests_start_staggered():
    """16 requests of 1 + 16 tokens, memory for 4 at their ends: started one by one, up to 7 are there at once."""
    requests = tuple(simple(f"R{i}", 1, 16) for i in range(16))
    cost = Cost((CostFunction(busy=20, decode_requests=1, prefill_requests=1),))
    instance = Instance(machine=Machine(memory=68, evict=True), cost=cost, requests=requests)
    found = improve(instance, "busy-time", start="mc-sf", rounds=8)
    assert found.policy is not None
    assert found.policy.startswith("staggered:")
    assert found.value < found.start.value


def test_destroy_and_repair_goes_on_where_it_applies():
    found = improve(builtin_instance("hindsight:n=14,M=30,seed=14"), start="serial", rounds=90)
    assert found.value is not None
    assert found.value < objective_value(
        verify_schedule(found.instance, run_policy(found.instance, get_policy("mc-sf"))), "total-flow-time"
    )


def test_calls_and_ttft_have_policies_of_their_own_first():
    instance = builtin_instance("mars-figure1")
    alone = instance.replace(requests=tuple(r.replace(segments=r.segments[-1:]) for r in instance.requests))
    assert [policy.name for policy in islice(other_policies(instance, "makespan"), 2)] == list(WITH_CALLS)
    assert next(other_policies(alone, "total-ttft")).name == "first-tokens"
    assert next(other_policies(alone, "makespan")).name == OTHERS[0]


def test_what_cannot_be_improved():
    instance = builtin_instance("mars-figure1")
    with pytest.raises(BadInput, match="no policy is called 'lifo'"):
        improve(instance, start="lifo", rounds=1)
    with pytest.raises(BadInput, match="no objective is called 'speed'"):
        improve(instance, "speed", rounds=1)
    with pytest.raises(InvalidSchedule, match="R1"):
        improve(instance, start=Schedule(instance_sha256=instance.sha256, batches=(Batch(start=0, work={"R1": 9}),)))


def test_ctrl_c_leaves_what_was_found():
    seen = []

    def interrupt(*known):
        seen.append(known)
        if len(seen) == 3:
            raise KeyboardInterrupt

    found = improve(builtin_instance("infermax-figure15:I=32"), rounds=50, progress=interrupt)
    assert (found.stopped, found.rounds, found.verified) == ("interrupted", 3, True)


def test_the_largest_flow_time_has_a_deadline():
    """A long request among short ones that keep coming is served with few of them."""
    short = tuple(simple(f"R{i}", 6, 3, arrival=7 * i) for i in range(30))
    machine = Machine(memory=200, evict=True)
    cost = Cost((CostFunction(busy=2, tokens=1),))
    instance = Instance(machine=machine, cost=cost, requests=(*short, simple("LONG", 6, 40, arrival=60)))
    found = improve(instance, "max-flow-time", start="vllm-v1", rounds=12)
    assert found.policy is not None
    assert found.policy.startswith("deadline:flow=")
    assert found.value < found.start.value


@pytest.mark.parametrize("cost", [Cost((CostFunction(busy=1, tokens=1),)), ROOFLINE])
def test_a_percentile_spares_the_most_work(cost):
    """One of ten may be late: the long prompt. Its 100 tokens are 99 ticks and more that no short one waits then."""
    short = tuple(simple(f"R{i}", 6, 3, arrival=9 * i) for i in range(9))
    machine = Machine(memory=200, evict=True)
    instance = Instance(machine=machine, cost=cost, requests=(*short, simple("LONG", 100, 4)))
    found = improve(instance, "p90-flow-time", rounds=12)
    assert found.value < found.start.value / 2
    assert completions(verify_schedule(instance, found.schedule))["LONG"] > 81


def test_nothing_is_prepared_once_the_time_is_over(monkeypatch):
    def prepared(search):
        raise AssertionError("the time was over")
        yield

    monkeypatch.setattr("solvers.improve._staggered", prepared)
    result = improve(builtin_instance("mars-figure1"), seconds=0.0)
    assert (result.stopped, result.rounds) == ("time limit", 0)


def test_knee_and_on_time_are_starts_and_neighbours():
    """With one round left after the start, the value is that of the policy; with more, its parameters change."""
    instance = serving(5).replace(cost=ROOFLINE)
    assert first_policies(instance, "total-flow-time")[0] == first_policies(instance, "makespan")[0] == "knee"
    assert first_policies(instance.replace(cost=LINEAR), "total-flow-time")[0] == "index"
    assert improve(instance, rounds=0).policy == "knee"
    assert improve(instance, "late-requests", rounds=0).policy == "on-time"
    found = improve(instance, rounds=60)
    assert found.value <= improve(instance, rounds=0).value
    changed = [improve(serving(seed).replace(cost=ROOFLINE), rounds=8).policy for seed in few(range(12), 8)]
    assert any(name is not None and name.startswith("knee:means=") for name in changed)
