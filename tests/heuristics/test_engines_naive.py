"""The schedulers of today's engines against plain ones that were written from the published rules alone."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from heuristics import POLICIES, trace_policy
from kvcore import Instance
from tests.heuristics.test_compression import serving
from tests.support.engines import Engine, SGLang, TensorRtLlm, VllmV1
from tests.support.few import few

NAIVE: dict[str, Callable[[Instance], Engine]] = {
    "vllm-v1": VllmV1,
    "vllm-v1-first-chunk": lambda instance: VllmV1(instance, gate=False),
    "vllm-v1-priority": lambda instance: VllmV1(instance, priority=True),
    "sglang": SGLang,
    "trtllm-no-evict": lambda instance: TensorRtLlm(instance, utilize=False),
    "trtllm-max-utilization": lambda instance: TensorRtLlm(instance, utilize=True),
}


def with_limits(seed: int) -> Instance:
    """One of the serving instances; some requests have weights and output limits, near the truth or far."""
    instance, draw = serving(seed), random.Random(-seed)
    requests = []
    for request in instance.requests:
        longest = max(segment.decode for segment in request.segments)
        limit = draw.choice([None, longest, longest + draw.randint(0, 10), 100])
        requests.append(request.replace(weight=draw.randint(1, 3), max_new=limit))
    machine = instance.machine.replace(prefill_tokens=None)
    return instance.replace(machine=machine, requests=tuple(requests))


@pytest.mark.parametrize("name", NAIVE)
def test_batch_for_batch(name: str) -> None:
    """Start, work and drops of every batch."""
    for seed in few(range(1200), 40):
        instance = with_limits(seed)
        batches = trace_policy(instance, POLICIES[name]).expanded().batches
        assert [(batch.start, batch.work, batch.drop) for batch in batches] == NAIVE[name](instance).run(), seed
