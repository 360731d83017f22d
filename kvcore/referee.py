"""The referee: executes a schedule exactly, or names the first rule that it breaks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from kvcore.decode_stream import StreamExecution
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.rules import RULES, Execution, InvalidSchedule, check_count
from kvcore.schedule import Schedule
from kvcore.trace import Trace

__all__ = ["RULES", "InvalidSchedule", "garbage_collection_paused", "verify_schedule"]


def verify_schedule(instance: Instance, schedule: Schedule, *, plain: bool = False) -> Trace:
    """Execute `schedule` on `instance` exactly and return its trace; `plain`: without the speed-up for decodes.

    Raises:
        InvalidSchedule: the first rule broken, with the batch (from 0), the request and the numbers.
        BadInput: the schedule was made for another instance, or is longer than `MOST_BATCHES`.
    """
    if schedule.instance_sha256 != instance.sha256:
        raise BadInput(
            f"the schedule is for another instance (its instance_sha256 is {schedule.instance_sha256[:12]}.., "
            f"that of {instance.name} is {instance.sha256[:12]}..)"
        )
    check_count(sum(batch.repeat for batch in schedule.batches))
    execution = Execution(instance) if plain else StreamExecution(instance)
    with garbage_collection_paused():
        for batch in schedule.batches:
            execution.execute(batch)
    return execution.trace(schedule)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the cyclic collector, which doubles the time: millions of tuples, no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
