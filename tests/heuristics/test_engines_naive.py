"""The schedulers of today's engines against plain ones that were written from the published rules alone."""

import random
from fractions import Fraction

import pytest

from heuristics import POLICIES, trace_policy
from kvcore import Instance, Machine
from kvcore.instance import Slo
from tests.heuristics.test_compression import serving
from tests.heuristics.test_policies_today import moves
from tests.support.build import request
from tests.support.engines import SarathiServe, SGLang, Slai, TensorRtLlm, Vllm, VllmV1
from tests.support.few import few

FOUND = (9, 27, 30, 44, 51, 62, 68, 74, 112, 202, 347, 412, 576)
"""Where the policies once differed from these."""
NAIVE = {
    "vllm-v1": VllmV1,
    "vllm-v1-first-chunk": lambda instance: VllmV1(instance, gate=False),
    "vllm-v1-priority": lambda instance: VllmV1(instance, priority=True),
    "vllm-v1-priority-0.32": lambda instance: VllmV1(instance, priority=True, ends_step=True),
    "sglang": SGLang,
    "trtllm-no-evict": lambda instance: TensorRtLlm(instance, utilize=False),
    "trtllm-max-utilization": lambda instance: TensorRtLlm(instance, utilize=True),
    "sarathi-serve": SarathiServe,
    "slai": Slai,
}
RELEASED = {
    "vllm": Vllm,
    "vllm-ef": lambda instance: Vllm(instance, ef=True),
    "vllm-vidur": lambda instance: Vllm(instance, padded=True),
    "sarathi-serve-ef": lambda instance: SarathiServe(instance, ef=True),
}
"""As INFERMAX's and Vidur's simulators have them."""


def with_limits(seed):
    """One of the serving instances; some requests have weights, output limits near the truth or far, and deadlines."""
    instance, draw, patience = serving(seed), random.Random(-seed), random.Random(seed)
    requests = []
    for one in instance.requests:
        longest = max(segment.decode for segment in one.segments)
        limit = draw.choice([None, longest, longest + draw.randint(0, 10), 100])
        slo = patience.choice([None, Slo(tpot=Fraction(patience.randint(1, 400), 4))])
        requests.append(one.replace(weight=draw.randint(1, 3), max_new=limit, slo=slo))
    machine = instance.machine.replace(prefill_tokens=None)
    return instance.replace(machine=machine, requests=tuple(requests))


@pytest.mark.parametrize("name", NAIVE)
def test_batch_for_batch(name):
    """Start, work and drops of every batch."""
    for seed in sorted({*FOUND, *few(range(1200), 150)}):
        instance = with_limits(seed)
        batches = trace_policy(instance, POLICIES[name]).expanded().batches
        assert [(batch.start, batch.work, batch.drop) for batch in batches] == NAIVE[name](instance).run(), seed


def as_released(seed, *, whole):
    """Blocks of 1 or 16; where prefills are `whole`, a batch takes the longest context, and any number of requests."""
    instance = with_limits(seed)
    machine, longest = instance.machine, max(request.peak for request in instance.requests)
    block = 1 if machine.block == 1 else 16
    machine = machine.replace(block=block, memory=-(-(machine.memory or 0) // block) * block)
    if whole:
        tokens = machine.batch_tokens and max(machine.batch_tokens, longest)
        machine = machine.replace(batch_tokens=tokens, batch_requests=None)
    return instance.replace(machine=machine)


@pytest.mark.parametrize("name", RELEASED)
def test_as_released_batch_for_batch(name):
    """The schedulers of test_released.py on other requests: tight memory, evictions, arrivals, calls."""
    evictions = 0
    for seed in few(range(1200), 24):
        instance = as_released(seed, whole=name.startswith("vllm"))
        engine, batches = RELEASED[name](instance), trace_policy(instance, POLICIES[name]).expanded().batches
        assert [(batch.start, batch.work, batch.drop) for batch in batches] == engine.run(), seed
        evictions += engine.preemptions
    assert evictions == 0 if name.endswith("-ef") else evictions > 100


# --- what the plain ones do not have --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAIVE)
def test_what_a_call_discards_by_order_does_not_keep_it_waiting(name):
    """A call of no duration: R9 lets the request work in the batch that drops its KV."""
    one = request("A", 3, (1, 0, 0, "discard"), 1)
    given = Instance(machine=Machine(memory=10, evict=True), requests=(one,))
    assert moves(given, name) == [({"A": 3}, {}), ({"A": 4}, {"A": 3})]


@pytest.mark.parametrize("name", NAIVE)
def test_batches_smaller_than_a_block(name):
    machine = Machine(memory=40, block=4, batch_tokens=3, evict=True)
    given = Instance(machine=machine, requests=tuple(request(id, 9, 2) for id in "ABCDE"))
    assert sum(map(sum, (work.values() for work, _ in moves(given, name)))) >= 5 * 10
