"""`counts`: whole prefills, and no batch without work (`docs/search.md`, Counts)."""

from __future__ import annotations

from kvcore import Instance, Schedule
from tests.reductions.early import early
from tests.reductions.parts import late, mutable, passed_on, schedule_of, without_swaps
from tests.reductions.prefills import towards_tokens


def counted(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule of what `counts` knows: decodes, and refills from nothing.

    A token is processed with its last chunk, even if that was a decode.
    """
    trace, batches = mutable(instance, schedule)
    without_swaps(batches)
    towards_tokens(trace, batches, decodes=True)
    kept = passed_on(batches, trace)
    for j, batch in enumerate(kept):
        batch["start"] = late(j)
    return early(instance, schedule_of(instance, kept))


def is_counted(instance: Instance, schedule: Schedule) -> bool:
    """Whether every work generates, as a decode or from nothing, and every batch works."""
    trace, batches = mutable(instance, schedule)
    steps = [step for request in trace.requests for step in request.steps]
    whole = all(step.generated and (step.phase == "decode" or step.resident == 0) for step in steps)
    works = all(batch["work"] and not batch["swap_out"] and not batch["swap_in"] for batch in batches)
    return whole and works
