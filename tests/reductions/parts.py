"""What the programs share: batches that may be changed, and what a request was allowed in a batch."""

from __future__ import annotations

from typing import Any

from kvcore import Instance, Schedule, verify_schedule
from kvcore.trace import RequestTrace, Trace

MOVES = ("drop", "swap_out", "swap_in")
Mutable = dict[str, Any]


def mutable(instance: Instance, schedule: Schedule) -> tuple[Trace, list[Mutable]]:
    """Return the trace, and its batches as dictionaries that may be changed."""
    trace = verify_schedule(instance, schedule)
    return trace, [batch.model_dump() for batch in trace.expanded().batches]


def schedule_of(instance: Instance, batches: list[Mutable]) -> Schedule:
    """Return the schedule of changed batches."""
    for batch in batches:
        batch.update({kind: {id: tokens for id, tokens in batch[kind].items() if tokens} for kind in ("work", *MOVES)})
    return Schedule.model_validate({"instance_sha256": instance.sha256, "batches": tuple(batches)})


def is_licensed(request: RequestTrace, batch: int) -> bool:
    """Whether R9 allows or orders a drop of the request in a batch: in a free call's window, or ordered."""
    for call in request.calls:
        handling = request.request.calls[call.segment].handling
        closed = min((step.batch for step in request.steps if step.batch > call.batch), default=batch)
        if call.batch < batch <= closed and (handling == "free" or (handling == "discard" and batch == call.batch + 1)):
            return True
    return False
