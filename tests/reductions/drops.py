"""Batches without work, where they serve nothing but drops: with `pause` and no host memory.

The horizons of `formulations/horizon.py` count what is left, and the models that know no swap
(`chains.may_swap`) have no others.
"""

from formulations.refills import drops_need_batches, needs_chunks
from kvcore import Instance, Schedule, verify_schedule
from tests.reductions.parts import Mutable, mutable, passed_on, schedule_of, without_swaps
from tests.reductions.prefills import whole_prefills


def few_batches(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule that swaps only to make batches of drops, each followed by one with work.

    Where `drops_need_batches` says no, every batch works. Batches end when they ended, unless prefills are taken whole.
    """
    machine = instance.machine
    needed = machine.evict and drops_need_batches(instance)
    if machine.evict and not needed and not machine.partial and not needs_chunks(instance):
        return whole_prefills(instance, schedule)
    trace, batches = mutable(instance, schedule)
    without_swaps([batch for batch in batches if batch["work"] or not needed])
    kept = merged(batches) if needed else passed_on(batches, trace)
    ends = {ran.start: ran.end for ran in trace.batches}
    for batch, ran in zip(kept, verify_schedule(instance, schedule_of(instance, kept)).batches, strict=True):
        batch["start"] = ends[batch["start"]] - ran.duration
    return schedule_of(instance, kept)


def merged(batches: list[Mutable]) -> list[Mutable]:
    """Join batches without work to the next of them; those without drops are left out."""
    kept: list[Mutable] = []
    waiting: Mutable | None = None
    for batch in batches:
        if waiting is not None and not batch["work"]:
            for id, tokens in waiting["drop"].items():
                batch["drop"][id] = batch["drop"].get(id, 0) + tokens
        elif waiting is not None and waiting["drop"]:
            kept.append(waiting)
        waiting = None if batch["work"] else batch
        kept += [batch] if batch["work"] else []
    return kept
