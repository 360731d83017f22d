"""Batches without work, where they serve nothing but drops: with `pause` and no host memory.

The horizons of `formulations/horizon.py` count what is left, and the models that know no swap
(`chains.may_swap`) have no others.
"""

from __future__ import annotations

from formulations.refills import drops_need_batches
from kvcore import Instance, Schedule
from kvcore.trace import Trace
from tests.reductions.parts import Mutable, is_licensed, mutable, schedule_of


def few_batches(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule that swaps only to make batches of drops, each followed by one with work.

    Where `drops_need_batches` says no, every batch works. Starts are kept.
    """
    trace, batches = mutable(instance, schedule)
    needed = instance.machine.evict and drops_need_batches(instance)
    for batch in batches:
        if batch["work"] or not needed:
            batch["swap_out"], batch["swap_in"] = {}, {}
    return schedule_of(instance, merged(batches) if needed else passed_on(batches, trace))


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


def passed_on(batches: list[Mutable], trace: Trace) -> list[Mutable]:
    """Leave out batches without work and swaps. Their drops are made in the next batch, or the KV is kept.

    It is kept if the request works there and R9 does not allow the drop: it processes only what it lacks then. If
    nothing is lacking, it drops what is too much and rests; a batch in which so nobody works goes, too.
    """
    kept: list[Mutable] = []
    waiting: dict[str, tuple[int, bool]] = {}
    requests = {request.request.id: request for request in trace.requests}
    for j, batch in enumerate(batches):
        drops = {id: (tokens, is_licensed(requests[id], j)) for id, tokens in batch["drop"].items()}
        for id, (tokens, by_r9) in waiting.items():
            work, more = batch["work"].get(id, 0), drops.get(id, (0, True))
            if not work or by_r9:
                drops[id] = (tokens + more[0], by_r9 and more[1])
            elif work > tokens:
                batch["work"][id] = work - tokens
            else:
                del batch["work"][id]
                drops[id] = (tokens - work, False)
        batch["drop"] = {id: tokens for id, (tokens, _) in drops.items()}
        acts = batch["work"] or batch["swap_out"] or batch["swap_in"]
        waiting = {} if acts else {id: drop for id, drop in drops.items() if drop[0]}
        kept += [batch] if acts else []
    return kept
