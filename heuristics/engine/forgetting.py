"""Schedules without contents as schedules with them."""

from __future__ import annotations

from collections import Counter

from kvcore.instance import Instance
from kvcore.referee import verify_schedule
from kvcore.rules import Execution
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace


def without_contents(instance: Instance) -> Instance:
    """Return the instance in which nothing is shared."""
    requests = tuple(request.replace(path=None) for request in instance.requests)
    return instance.replace(machine=instance.machine.replace(same_batch=True), requests=requests, contents=())


def forgetting(instance: Instance, schedule: Schedule) -> Trace:
    """Return the trace with contents of a schedule without them (and `repeat`): what nobody holds is forgotten.

    What is resident is at most what was private.
    """
    execution, batches = Execution(instance), list[Batch]()
    for batch in schedule.batches:
        kept = Counter[str]()
        for state, parts in zip(execution.states.values(), instance.parts, strict=True):
            id = state.request.id
            out = max(0, batch.drop.get(id, 0) - state.host) + batch.swap_out.get(id, 0)
            for part in parts:
                kept[part.node] = max(kept[part.node], part.of((state.device - out) // instance.machine.block))
        gone = Counter(execution.resident.blocks) - kept
        batches.append(batch.model_copy(update={"forget": dict(gone)}))
        execution.execute(batches[-1])
    return verify_schedule(instance, Schedule(instance_sha256=instance.sha256, batches=tuple(batches)))
