"""E: batches start as early as the batch before, the arrivals of their work, and the calls that were over allow."""

from collections.abc import Iterator
from typing import Any

from kvcore import Instance, Schedule
from kvcore.trace import Trace
from tests.reductions.parts import MOVES, mutable, schedule_of


def early(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches, each as early as possible; no token and no completion is later.

    A call that is running may now have returned, which forbids nothing. A call that had returned may now be running
    only where the batch leaves its request alone.
    """
    trace, batches = mutable(instance, schedule)
    now, ends = 0, []
    for j, (batch, ran) in enumerate(zip(batches, trace.batches, strict=True)):
        start = max([now, *(ends[i] + rest if i >= 0 else rest for i, rest in waits(trace, batch, j))])
        assert start <= ran.start
        batch["start"], now = start, start + ran.duration
        ends.append(now)
    return schedule_of(instance, batches)


def waits(trace: Trace, batch: dict[str, Any], j: int) -> Iterator[tuple[int, int]]:
    """Yield what batch j may not start before: a batch and so many ticks after its end, or -1 and a tick."""
    for request in trace.requests:
        if request.request.id in batch["work"]:
            yield -1, request.request.arrival
        if any(request.request.id in batch[kind] for kind in ("work", *MOVES)):
            for call in request.calls:
                if call.batch < j and call.end <= trace.batches[j].start:
                    yield call.batch, request.request.calls[call.segment].duration


def closed(instance: Instance, schedule: Schedule) -> Schedule:
    """Return the same batches, all from the second on as early as the first allows, then all from the third on, ..

    No two batches are further apart than before, so no time per token grows. What keeps a gap is an arrival after it,
    or a call that lasts over it: the schedule ends by the last arrival, plus all calls, plus all batches.
    """
    trace, batches = mutable(instance, schedule)
    limits = [list(waits(trace, batch, j)) for j, batch in enumerate(batches)]
    durations = [ran.duration for ran in trace.batches]
    for j in range(len(batches)):
        spare = [batches[j]["start"] - (batches[j - 1]["start"] + durations[j - 1] if j else 0)]
        for later in range(j, len(batches)):
            spare += [batches[later]["start"] - (batches[i]["start"] + durations[i] if i >= 0 else 0) - rest
                      for i, rest in limits[later] if i < j]  # fmt: skip
        for batch in batches[j:]:
            batch["start"] -= min(spare)
    return schedule_of(instance, batches)
