"""Policies for which the engine reuses and forgets, and those that know no contents."""

import random

import pytest

import solvers
from heuristics import POLICIES, PolicyError, Unsuited, get_policy, trace_policy
from heuristics.engine.forgetting import forgetting, without_contents
from heuristics.engine.sharing import Foresight
from kvcore import OBJECTIVES, objective_value, verify_schedule
from kvcore.cost import CostFunction
from kvcore.metrics import completions
from tests.support.build import request
from tests.support.contents import IDLE, shared, with_contents
from tests.support.drawer import crowded_instance
from tests.support.few import few


def ends(instance, policy):
    """Whether a policy has a schedule."""
    try:
        trace_policy(instance, policy)
    except (PolicyError, Unsuited):
        return False
    return True


def test_every_policy_reuses_and_forgets():
    """The referee passes what they do; written out it is the same. Few fail that have a schedule without contents."""
    reused = forgot = failed = ran = 0
    for seed in few(range(45), 5):
        draw = random.Random(seed)
        plain = crowded_instance(seed, most=5)
        instance = with_contents(draw, plain)
        block, peak = instance.machine.block, max(request.peak for request in instance.requests)
        tight = instance.machine.replace(memory=-(-peak // block) * block)
        instance = instance.replace(machine=tight)
        plain = plain.replace(machine=tight.replace(same_batch=True))
        for alone in POLICIES.values():
            if alone.why_not(instance.machine) is None:
                policy = alone.sharing(draw.choice((None, Foresight(), Foresight(0.0))))
                try:
                    trace = trace_policy(instance, policy)
                except (PolicyError, Unsuited):
                    failed += ends(plain, alone)
                    continue
                ran += 1
                assert trace_policy(instance, policy, compress=False).schedule == trace.expanded(), (seed, policy.name)
                verify_schedule(instance, trace.schedule)
                reused += any(batch.reuse for batch in trace.schedule.batches)
                forgot += any(batch.forget for batch in trace.schedule.batches)
    assert reused > ran / 2
    assert forgot > 0
    assert failed <= ran / 100


@pytest.mark.parametrize(("foresight", "ends"), [
    (None, {"A": 3, "B": 6, "C": 9, "D": 10}),
    (Foresight(0.0), {"A": 3, "B": 6, "C": 9, "D": 10}),
    (Foresight(), {"A": 3, "C": 5, "D": 6, "B": 9}),
])  # fmt: skip
def test_a_request_waits_for_those_that_find_their_prefix(foresight, ends):
    """B would take the memory in which C, a tick later, finds two tokens."""
    trace = trace_policy(IDLE, get_policy("sjf").sharing(foresight))
    assert completions(trace) == ends


def test_a_request_may_start_at_a_tick():
    trace = trace_policy(IDLE, get_policy("fcfs").sharing(Foresight(0.0, [0, 5, 0, 0])))
    assert completions(trace) == {"A": 3, "C": 5, "B": 8, "D": 11}


@pytest.mark.parametrize(("same_batch", "batches"), [(True, 1), (False, 2)])
def test_one_computes_for_all(same_batch, batches):
    """Where a block is found only after its batch, the second waits for it."""
    both = (request(id, 4, 1, path=("tools", 1)) for id in "AB")
    trace = trace_policy(shared(*both, memory=8, same_batch=same_batch), get_policy("fcfs").sharing())
    assert len(trace.schedule.batches) == batches
    assert [batch.reuse for batch in trace.schedule.batches][-1] == {"B": 3}
    assert objective_value(trace, "makespan") == 5


def test_nobody_waits_for_a_request_that_pauses():
    """C overtakes A, which has one of four tokens of a prefix; B has less left than D and A, and computes the rest."""
    a, b = request("A", 6, 9, path=("p", 4)), request("B", 5, 1, path=("p", 4), arrival=1)
    others = request("C", 3, 1, arrival=1), request("D", 6, 1, arrival=1)
    instance = shared(a, b, *others, tree=(("p", None, 4),), memory=99, batch_tokens=1, evict=True)
    trace = trace_policy(instance, get_policy("index").sharing())
    assert completions(trace) == {"A": 24, "B": 8, "C": 4, "D": 14}


@pytest.mark.parametrize(
    ("name", "pause"),
    [*((name, True) for name in ("fcfs", "sjf", "srpt", "vllm-v1", "mars", "refill")), ("fcfs", False)],
)
def test_memory_counts_once_what_several_hold(name, pause):
    """Six of seven tokens are one prefix: 6 + 3 + 9 of decodes fill the memory. Counted for each, two would fit."""
    three = (request(id, 7, 4, path=("p", 6)) for id in "ABC")
    instance = shared(*three, tree=(("p", None, 6),), cost=(CostFunction(busy=1),), memory=18, evict=True)
    instance = instance.replace(machine=instance.machine.replace(pause=pause))
    trace = trace_policy(instance, get_policy(name).sharing())
    assert completions(trace) == {"A": 4, "B": 4, "C": 4}


def held_by(jobs, block):
    """Return the blocks that requests hold, each of contents once."""
    paths = [[(part.node, k) for part in job.path for k in range(part.blocks)][: job.device // block] for job in jobs]
    private = sum(-(-job.device // block) - len(path) for job, path in zip(jobs, paths, strict=True))
    return private + len({place for path in paths for place in path})


@pytest.mark.parametrize("name", ["fcfs", "index", "vllm-v1", "srpt"])
def test_a_plan_counts_memory_as_the_referee_does(name, monkeypatch):
    policy, free, gave, batches = get_policy(name), [], 0, 0

    def decide(self, view, plan):
        nonlocal gave
        jobs = list(view.present)
        left = held_by(jobs, view.machine.block) - held_by(jobs[2:], view.machine.block)
        before = sum(plan.dropped.values()) == 0
        assert not before or plan.growth_without(None, 0, jobs[:2]) == -left
        gave += before * left
        known(self, view, plan)
        free.extend([plan.free_blocks] if plan.work else [])

    known = type(policy).decide
    monkeypatch.setattr(type(policy), "decide", decide)
    for seed in few(range(40)):
        instance = with_contents(random.Random(seed), crowded_instance(seed, most=5))
        block = instance.machine.block
        machine = instance.machine.replace(
            memory=2 * block * max(-(-r.peak // block) for r in instance.requests),
            evict=True,
            chunked=True,
            pause=True,
            hybrid=True,
        )
        free.clear()
        trace = trace_policy(instance.replace(machine=machine), policy.sharing(), compress=False)
        made = [(batch, run) for run in trace.runs for batch in run.batches() if batch.features.tokens]
        assert free == [machine.block_limit - (batch.device - run.retained) // block for batch, run in made], seed
        batches += len(free)
    assert gave > 0
    assert batches > 50


def test_the_index_rule_takes_contents():
    instance = IDLE.replace(machine=IDLE.machine.replace(evict=True))
    trace = trace_policy(instance, get_policy("index").sharing(Foresight()))
    assert completions(trace) == {"A": 3, "C": 5, "D": 6, "B": 9}
    assert any(batch.reuse for batch in trace_policy(instance, get_policy("index")).schedule.batches)


@pytest.mark.parametrize("name", ["serial", "mars", "vllm-v1"])
def test_schedules_without_contents_are_worth_the_same_with_them(name):
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


def test_a_solve_begins_with_them():
    """No policy knows contents and calls that preserve; without a schedule no search begins."""
    call = (1, 2, 0, "preserve")
    instance = shared(request("A", 4, call, 1, path=("tools", 1)), request("B", 4, 1, path=("tools", 1)), memory=9)
    assert solvers.solve(instance).status == "optimal"
