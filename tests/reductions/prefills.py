"""`chunks`: prefills are taken whole, where `splitting` of `formulations/refills.py` says "none"."""

from __future__ import annotations

from itertools import pairwise

from kvcore import Instance, Schedule
from kvcore.trace import RequestTrace, Step
from tests.reductions.drops import passed_on
from tests.reductions.early import early
from tests.reductions.parts import Mutable, mutable, schedule_of


def whole_prefills(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule in which all tokens towards one are processed at once, but for a last one that is a decode.

    For machines without `evict`, or with `pause` and no host memory. Batches of one tick keep their starts. Longer ones
    start as early as they can: all requests are there at once, and calls take no time.
    """
    trace, batches = mutable(instance, schedule)
    one_tick = instance.cost.always_one_tick
    if instance.machine.evict:
        for batch in batches:
            batch["swap_out"], batch["swap_in"] = {}, {}
    for request in trace.requests:
        towards: list[Step] = []
        for step in request.steps:
            towards.append(step)
            if step.generated:
                whole = step.phase == "prefill" or (one_tick and instance.machine.hybrid)
                join(request, batches, towards if whole else towards[:-1])
                towards = []
    kept = passed_on(batches, trace)
    if one_tick:
        return schedule_of(instance, kept)
    for j, batch in enumerate(kept):
        batch["start"] = instance.requests[0].arrival + j * 10**9
    return early(instance, schedule_of(instance, kept))


def join(request: RequestTrace, batches: list[Mutable], pieces: list[Step]) -> None:
    """Move the work of all pieces to the last of them; KV that is dropped again before it is not processed."""
    id = request.request.id
    held = pieces[0].resident if pieces else 0
    for before, piece in pairwise(pieces):
        del batches[before.batch]["work"][id]
        resident = before.resident + before.tokens
        for batch in batches[before.batch + 1 : piece.batch]:
            if id in batch["drop"]:
                resident -= batch["drop"][id]
                batch["drop"][id] = max(0, held - resident)
                held = min(held, resident)
    if pieces:
        batches[pieces[-1].batch]["work"][id] = pieces[-1].resident + pieces[-1].tokens - held


def is_whole(instance: Instance, schedule: Schedule) -> bool:
    """Whether every prefill leaves at most one token, a decode, to the next."""
    trace, _ = mutable(instance, schedule)
    return all(
        step.generated or (after.generated and after.phase == "decode")
        for request in trace.requests
        for step, after in pairwise(request.steps)
    )
