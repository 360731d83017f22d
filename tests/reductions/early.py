"""E: batches start as early as the batch before, the arrivals of their work, and the calls that were over allow."""

from __future__ import annotations

from kvcore import Instance, Schedule
from tests.reductions.parts import MOVES, mutable, schedule_of


def early(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches, each as early as possible; no token and no completion is later.

    A call that is running may now have returned, which forbids nothing. A call that had returned may now be running
    only where the batch leaves its request alone.
    """
    trace, batches = mutable(instance, schedule)
    arrivals = {request.id: request.arrival for request in instance.requests}
    now, ends = 0, []
    for j, (batch, ran) in enumerate(zip(batches, trace.batches, strict=True)):
        start = max([now, *(arrivals[id] for id in batch["work"])])
        for request in trace.requests:
            if any(request.request.id in batch[kind] for kind in ("work", *MOVES)):
                over = [call for call in request.calls if call.batch < j and call.end <= ran.start]
                start = max([start, *(ends[c.batch] + request.request.calls[c.segment].duration for c in over)])
        assert start <= ran.start
        batch["start"], now = start, start + ran.duration
        ends.append(now)
    return schedule_of(instance, batches)
