"""`chunks`: prefills are taken whole, where `needs_chunks` of `formulations/refills.py` says no."""

from itertools import pairwise

from kvcore import Instance, Schedule
from kvcore.trace import RequestTrace, Step, Trace
from tests.reductions.early import early
from tests.reductions.parts import Mutable, late, mutable, passed_on, schedule_of, without_swaps


def whole_prefills(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule in which all tokens towards one are processed at once, but for a last one that is a decode.

    For machines with `pause` and no host memory, where no refill pays. Batches of one tick keep their starts. Longer
    ones start as early as they can: all requests are there at once, and calls take no time.
    """
    trace, batches = mutable(instance, schedule)
    one_tick = instance.cost.always_one_tick
    without_swaps(batches)
    towards_tokens(trace, batches, decodes=one_tick)
    kept = passed_on(batches, trace)
    if one_tick:
        return schedule_of(instance, kept)
    for j, batch in enumerate(kept):
        batch["start"] = late(j)
    return early(instance, schedule_of(instance, kept))


def towards_tokens(trace: Trace, batches: list[Mutable], decodes: bool) -> None:
    """Join all work towards each token; a decode that generates it joins only if `decodes`."""
    for request in trace.requests:
        towards: list[Step] = []
        for step in request.steps:
            towards.append(step)
            if step.generated:
                join(request, batches, towards if decodes or step.phase == "prefill" else towards[:-1])
                towards = []


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
