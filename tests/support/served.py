"""What a policy makes of requests that are written in a line, for tests by hand."""

from __future__ import annotations

from typing import Any

from heuristics import get_policy, trace_policy
from kvcore import Call, Cost, Instance, Machine, Request, Segment
from kvcore.trace import Trace


def served(name: str, *requests: tuple[int, ...], cost: Cost, **machine: Any) -> Trace:
    """The trace of requests R0, R1, ..: (arrival, prompt, decodes, and calls of 50 ticks between them)."""
    call = Call(duration=50, returns=0)
    made = tuple(
        Request(
            id=f"R{i}", arrival=arrival, prompt=prompt,
            segments=(*(Segment(decode=decode, call=call) for decode in decodes[:-1]), Segment(decode=decodes[-1])),
        )
        for i, (arrival, prompt, *decodes) in enumerate(requests)
    )  # fmt: skip
    return trace_policy(Instance(machine=Machine(**machine), cost=cost, requests=made), get_policy(name))


def work(trace: Trace) -> list[dict[str, int]]:
    return [dict(batch.work) for batch in trace.expanded().batches]
