"""Theorems of `docs/semantics.md` on random tiny instances, each with its proof in a line: they try the search's optima.

What is not here because it is false: an earlier arrival can raise every flow time (the baseline moves), and fewer
returned tokens or less dropped KV can make a schedule slower (see `test_more_to_compute_can_be_faster`).
"""

from collections.abc import Iterator
from fractions import Fraction

import pytest

from kvbound import OBJECTIVES, Call, Cost, CostFunction, Instance, Request, objective_value, verify_schedule
from tests.exhaustive import Search, exhaustive_optimum
from tests.tiny_instances import fixed_handlings, tiny_instance

SMALL = {"requests": 2, "prompt": (1, 2), "decode": (1, 2), "calls": (0, 1), "partial": False}
"""Keeps random instances small enough for many of them."""

NAMES = list(OBJECTIVES)


def optimum(instance, objective):
    return exhaustive_optimum(instance, objective, max_states=100_000)[0]


def on_machine(**changes):
    return lambda instance: instance.replace(machine=instance.machine.replace(**changes))


def with_requests(instance: Instance, change) -> Instance:
    return instance.replace(requests=tuple(map(change, instance.requests)))


def with_calls(instance: Instance, change) -> Instance:
    def changed(request: Request) -> Request:
        return request.replace(segments=tuple(s.replace(call=s.call and change(s.call)) for s in request.segments))

    return with_requests(instance, changed)


def with_block_1(instance: Instance) -> Instance:
    return on_machine(block=1)(instance)


def shorter(call: Call) -> Call:
    return call.replace(duration=call.duration // 2)


RELAXATIONS = {
    # Every schedule stays legal, batch by batch.
    "more memory": ({}, lambda i: on_machine(memory=i.machine.memory + 1)(i)),
    "no limit on memory": ({}, on_machine(memory=None)),
    "more host memory": ({"host_memory": ("none", "some"), "evict": True}, lambda i: on_machine(host_memory=i.machine.host_memory + 1)(i)),
    "more batch tokens": ({"batch_tokens": (1, 2)}, lambda i: on_machine(batch_tokens=i.machine.batch_tokens + 1)(i)),
    "no limit on prefill tokens": ({"prefill_tokens": (1, 2), "chunked": True}, on_machine(prefill_tokens=None)),
    "more batch requests": ({"batch_requests": 1}, on_machine(batch_requests=2)),
    "hybrid": ({"hybrid": False}, on_machine(hybrid=True)),
    "chunked": ({"chunked": False}, on_machine(chunked=True)),
    "evict": ({"evict": False}, on_machine(evict=True)),
    "partial": ({"evict": True}, on_machine(partial=True)),
    "pause": ({"pause": False}, on_machine(pause=True)),
    # b * ceil(m / b) >= m.
    "blocks of 1": ({"block": 2}, with_block_1),
    # Same batches at the same starts: what is legal during a call is legal after it.
    "shorter calls": ({"calls": 1}, lambda i: with_calls(i, shorter)),
    # Every batch lasts at least a tick; let each start later by what it lost, and it ends as before.
    "unit cost": ({"cost": "linear"}, lambda i: i.replace(cost=Cost.unit())),
    # A free call allows every move that a fixed handling allows.
    "free calls": ({"calls": 1}, Instance.with_free_calls),
}
"""What makes no optimum of any objective worse: from which instances, and to which."""
