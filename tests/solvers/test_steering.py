"""Windows of the index rule: what the compiled run counts is what the engine executes, and steps gain."""

import random

import numpy as np
import pytest

from heuristics import trace_policy
from heuristics.policies.index import Index, Windows
from kvcore import Cost, CostFunction, Instance, Machine, Request, Segment, objective_value
from kvcore.metrics import SUMS
from solvers.improve import improve
from solvers.steering import Runs, applies, steer

COST = Cost(
    (CostFunction(divisor=2, busy=2000, any_decode=600, any_prefill=2900, tokens=61, decode_kv=3),
     CostFunction(busy=900, tokens=2, prefill_pairs=1, generated=30)),
)  # fmt: skip


def drawn(seed, number=40):
    draw = random.Random(seed)
    requests = tuple(
        Request(id=f"R{i}", arrival=draw.randint(0, 60_000), prompt=draw.randint(1, 60),
                segments=(Segment(decode=draw.randint(1, 50)),), weight=draw.randint(1, 3))
        for i in range(number)
    )  # fmt: skip
    limits = {"memory": draw.choice([None, 300]), "batch_tokens": draw.choice([None, 64])}
    machine = Machine(evict=True, batch_requests=draw.choice([None, 6]), **limits)
    return Instance(machine=machine, cost=COST, requests=requests)


@pytest.mark.parametrize("objective", SUMS)
def test_the_compiled_run_is_that_of_the_engine(objective):
    close = 0
    for seed in range(12):
        instance = drawn(seed)
        draw = np.random.default_rng(seed)
        tick = float(instance.tick_seconds)
        steps = Windows(30_000 * tick, draw.uniform(1e3, 1e5, 4) * tick, draw.uniform(0, 5, 4))
        factors, chunks = draw.uniform(0.2, 5, 40), draw.integers(1, 100, 40)
        run = Runs(instance, objective)
        value, last = run(steps, factors[run.order], chunks[run.order])
        trace = trace_policy(instance, Index(steps=steps, factors=factors, chunks=chunks))
        true = float(objective_value(trace, objective))
        assert value == pytest.approx(true, rel=0.1)
        close += value == pytest.approx(true, rel=1e-9)
        assert last > 0
    assert close >= 8


def test_steps_are_better_than_one_r0():
    instance = drawn(1, 80)
    policy = steer(Runs(instance, "total-flow-time"), 0.05, random.Random(0), lambda made: made < 300)
    one = objective_value(trace_policy(instance, Index(r0=0.05)), "total-flow-time")
    assert objective_value(trace_policy(instance, policy), "total-flow-time") < one
    found = improve(instance, start="vllm-v1", rounds=30)
    assert found.verified
    assert found.value is not None
    assert found.value < one


def test_a_small_r0_is_found_beyond_a_plateau_of_large_ones():
    sizes = [16] * 16 + [1024] * 16
    requests = tuple(Request(id=f"R{i}", prompt=size, segments=(Segment(decode=8),)) for i, size in enumerate(sizes))
    cost = Cost((CostFunction(busy=2000, any_prefill=3000, tokens=60),))
    instance = Instance(machine=Machine(memory=None, evict=True, batch_tokens=4096), cost=cost, requests=requests)
    large = objective_value(trace_policy(instance, Index()), "total-flow-time")
    found = improve(instance, rounds=2)
    assert found.value is not None
    assert 2 * found.value < large


def test_where_it_does_not_apply():
    instance = drawn(0)
    assert applies(instance, "total-flow-time")
    assert not applies(instance, "makespan")
    assert not applies(instance.replace(machine=instance.machine.replace(block=4)), "total-flow-time")
    assert not applies(instance.replace(machine=instance.machine.replace(pause=False)), "total-flow-time")
