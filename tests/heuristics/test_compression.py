"""Long schedules are written short: what is repeated is exactly what the policy decides batch by batch."""

import random
from fractions import Fraction

import pytest

from heuristics import POLICIES, Unsuited, get_policy, trace_policy
from heuristics.policies.augserve import AugServe
from heuristics.policies.mars import Mars
from heuristics.policies.mars_as_released import MarsAsReleased
from heuristics.policies.vllm_v1 import VllmV1
from kvcore import Cost, CostFunction, Instance, Machine, measures, verify_schedule
from tests.support.build import request
from tests.support.few import ALL, few


def serving(seed):
    """A small instance in which memory is scarce, decodes are long, and everything may be evicted."""
    draw = random.Random(seed)
    block = draw.choice([1, 1, 4])
    requests = []
    for i in range(draw.randint(2, 7)):
        segments = [(draw.randint(1, 25), draw.randint(0, 60), draw.randint(0, 5), "free")
                    for _ in range(draw.choice([0, 0, 1, 2]))]  # fmt: skip
        id, arrival = f"{draw.choice('ab')}-{i}", draw.randint(0, 60) * draw.randint(0, 1)
        requests.append(request(id, draw.randint(1, 12), *segments, draw.randint(1, 25), arrival=arrival))
    largest = max(-(-request.peak // block) * block for request in requests)
    tokens = draw.choice([None, 8, 16, 40])
    machine = Machine(
        memory=draw.choice([largest, largest + draw.randint(0, largest), 2 * largest]), block=block,
        host_memory=draw.choice([0, largest, None]), batch_tokens=tokens,
        prefill_tokens=draw.choice([None, tokens and max(1, tokens // 2)]),
        batch_requests=draw.choice([None, None, 2, 3]), evict=True, partial=draw.random() < 0.5,
    )  # fmt: skip
    functions = [
        (CostFunction(busy=1),), (CostFunction(divisor=3, busy=5, tokens=2, decode_kv=1, prefill_pairs=1),),
        (CostFunction(divisor=2, busy=4, decode_kv=1), CostFunction(swap_out_tokens=1, swap_in_tokens=1)),
    ]  # fmt: skip
    return Instance(machine=machine, cost=Cost(draw.choice(functions)), requests=tuple(requests))


def crowd(seed):
    """Twelve requests of up to 500 tokens in blocks of 64, which the released constants are made for."""
    draw = random.Random(seed)
    requests = []
    for i in range(12):
        calls = [(draw.randint(0, 80), draw.randint(0, 30), "free") for _ in range(draw.choice([0, 1, 2]))]
        segments, arrival = [(draw.randint(1, 60), *call) for call in calls], draw.randint(0, 100)
        prompt = draw.choice([10, 60, draw.randint(1, 500)])
        requests.append(request(f"r-{i}", prompt, *segments, draw.randint(1, 80), arrival=arrival))
    largest = -(-max(request.peak for request in requests) // 64) * 64
    machine = Machine(memory=largest + 64 * draw.randint(0, 6), block=64, host_memory=0, batch_tokens=384, evict=True)
    return Instance(tick_seconds=Fraction(1, 1000), machine=machine, requests=tuple(requests))


def short_of(instance, policy):
    """Return the trace of a policy, of which what is repeated is what would be decided batch by batch."""
    long, short = (trace_policy(instance, policy, compress=compress) for compress in (False, True))
    assert short.expanded().batches == long.schedule.batches
    return short


@pytest.mark.parametrize("name", [*POLICIES, "vllm-v1:ttl=10,victim=most-blocks"])
def test_what_is_repeated_is_what_would_be_decided(name):
    """Every policy gives the same schedule, written out, whether or not the engine may repeat batches unasked."""
    policy, ran, repeated = get_policy(name), 0, 0
    for seed in few(range(60), 7):
        served = serving(seed)
        served = served.replace(machine=served.machine.replace(drop_and_work=seed % 3 == 2))
        try:
            long = trace_policy(served, policy, compress=False)
        except Unsuited:
            continue
        short = trace_policy(served, policy)
        assert short.expanded().batches == long.schedule.batches, seed
        assert measures(short) == measures(long) == measures(verify_schedule(served, short.schedule))
        assert short.batches == long.batches
        ran += 1
        repeated += any(batch.repeat > 1 for batch in short.schedule.batches)
    assert ran >= (15 if ALL else 7)
    assert repeated >= (6 if ALL else 2) or policy.steady.__qualname__ == "Policy.steady"


MARS = few([Mars(threshold=3), Mars(refresh=2), Mars(refresh=7, threshold=5), Mars(10, 4, new_may_starve=False),
            MarsAsReleased(threshold=4)], 3)  # fmt: skip
VARIED = [*MARS, *(AugServe(**parameters, ranked=ranked) for ranked in (True, False) for parameters in (
    {"target_max": 3}, {"alpha": 0, "beta_low": Fraction(1, 8), "target_max": 24}, {"gamma": Fraction(0)},
    {"alpha": 5, "target_max": 6, "beta_low": Fraction(1, 6), "beta_high": Fraction(1)}))]  # fmt: skip
"""With other parameters."""


@pytest.mark.parametrize("policy", VARIED, ids=lambda policy: f"{policy.name} {vars(policy)}"[:40])
def test_what_is_repeated_is_what_would_be_decided_with_other_parameters(policy):
    for seed in few(range(60)):
        short_of(serving(seed), policy)
        if policy in MARS:
            short_of(crowd(seed), policy)


def test_vllm_is_asked_when_something_arrives(monkeypatch):
    """Four requests in two bursts: a decision a burst and one without requests, not one for each that ends."""
    asked = []
    decide = VllmV1.decide
    monkeypatch.setattr(VllmV1, "decide", lambda self, view, plan: asked.append(view.now) or decide(self, view, plan))
    requests = [request(f"R{i}", 3, 2 + 2 * i, arrival=20 * (i % 2)) for i in range(4)]
    served = Instance(machine=Machine(memory=100, evict=True), requests=tuple(requests))
    trace = trace_policy(served, POLICIES["vllm-v1"])
    assert asked == [0, 6, 20]
    assert [one.completion for one in trace.requests] == [2, 24, 6, 28]
    assert len(trace.schedule.batches) == 6
