"""Schedules of a request that pauses for a call: its KV kept, dropped at some tick of the call, or swapped."""

from __future__ import annotations

from collections.abc import Iterable

from hypotheses.instances import plain
from kvcore.cost import Cost, CostFunction
from kvcore.instance import Call, Instance, Machine, Segment
from kvcore.referee import Execution
from kvcore.schedule import Batch, Schedule

QUADRATIC = Cost((CostFunction(prefill_pairs=1),))
"""As many ticks as pairs in the prefills: the square of the tokens from empty KV; else one tick."""


def paused(
    context: int, duration: int, others: Iterable[tuple[int, ...]], memory: int, machine: Machine, cost: Cost
) -> Instance:
    """Return R1, which calls with `context` tokens of KV and generates one token after it, and others as in `plain`."""
    instance = plain([(context, 2), *others], memory, machine, cost)
    first, *rest = instance.requests
    segments = (Segment(decode=1, call=Call(duration=duration, returns=0, handling="free")), Segment(decode=1))
    name = f"paused-{context}-{duration}-{instance.name}"[:200]
    return instance.replace(name=name, requests=(first.replace(segments=segments), *rest))


def placed(instance: Instance, batches: Iterable[Batch]) -> Schedule:
    """Return the batches, each at its own start or where the one before it ends, if that is later."""
    execution, done = Execution(instance), []
    for batch in batches:
        done.append(batch.model_copy(update={"start": max(batch.start, execution.end)}))
        execution.execute(done[-1])
    return Schedule(instance_sha256=instance.sha256, batches=tuple(done))
