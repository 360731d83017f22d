"""What a policy makes of requests that are written in a line, for tests by hand."""

from __future__ import annotations

from typing import Any

from heuristics import get_policy, trace_policy
from heuristics.registry import AnyPolicy
from kvcore import Cost, Instance, Machine
from kvcore.trace import Trace
from tests.support.build import request


def served(policy: AnyPolicy, *requests: tuple[int, ...], cost: Cost, **machine: Any) -> Trace:
    """The trace of requests R0, R1, ..: (arrival, prompt, decodes, and calls of 50 ticks between them)."""
    made = tuple(
        request(f"R{i}", prompt, *((decode, 50, 0, "free") for decode in decodes), last, arrival=arrival)
        for i, (arrival, prompt, *decodes, last) in enumerate(requests)
    )
    return trace_policy(Instance(machine=Machine(**machine), cost=cost, requests=made), get_policy(policy))


def work(trace: Trace) -> list[dict[str, int]]:
    return [dict(batch.work) for batch in trace.expanded().batches]
