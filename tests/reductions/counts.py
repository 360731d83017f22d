"""`counts`: whole prefills, no batch without work, and no drop in vain (`docs/search.md`, Counts)."""

from __future__ import annotations

from kvcore import Instance, Schedule
from tests.reductions.early import early
from tests.reductions.parts import late, mutable, passed_on, schedule_of, without_swaps
from tests.reductions.prefills import towards_tokens


def counted(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule of what `counts` knows: decodes, refills from nothing, and drops that make room.

    A token is processed with its last chunk, even if that was a decode. Then each drop is put off to the first batch
    that has no room for the KV; if the request works before, it decodes instead of a refill.
    """
    trace, batches = mutable(instance, schedule)
    without_swaps(batches)
    towards_tokens(trace, batches, decodes=True)
    kept = passed_on(batches, trace)
    for j, batch in enumerate(kept):
        batch["start"] = late(j)
    schedule = schedule_of(instance, kept)
    while (later := one_put_off(instance, schedule)) is not None:
        schedule = later
    return early(instance, schedule)


def one_put_off(instance: Instance, schedule: Schedule) -> Schedule | None:
    """Put off one drop in vain by a batch, or return None: there is none."""
    trace, batches = mutable(instance, schedule)
    limit, block = instance.machine.block_limit, instance.machine.block
    for j, batch in enumerate(batches):
        for id, tokens in batch["drop"].items():
            if limit is None or trace.batches[j].device // block + instance.machine.blocks(tokens) <= limit:
                following = batches[j + 1]
                if id in following["work"]:
                    following["work"][id] = 1
                else:
                    following["drop"][id] = tokens
                del batch["drop"][id]
                return schedule_of(instance, batches)
    return None


def is_counted(instance: Instance, schedule: Schedule) -> bool:
    """Whether every work generates, as a decode or from nothing, every batch works, and no drop is in vain."""
    trace, batches = mutable(instance, schedule)
    steps = [step for request in trace.requests for step in request.steps]
    whole = all(step.generated and (step.phase == "decode" or step.resident == 0) for step in steps)
    works = all(batch["work"] and not batch["swap_out"] and not batch["swap_in"] for batch in batches)
    return whole and works and one_put_off(instance, schedule) is None
