"""Which options a request needs at all: the reductions of `docs/arc_flow.md` that are proved for an instance."""

from __future__ import annotations

from dataclasses import dataclass

from kvcore.instance import Instance


@dataclass(frozen=True)
class Setting:
    """What holds for all requests of an instance; the proofs are in `docs/arc_flow.md`, under the names used here."""

    most_partial: int | None
    """Reduction 1: after a part of a prefill that generates no token, at most so much KV is resident (None: any)."""
    early_drops: bool
    """Reduction 2: the KV of a free call is dropped in the first slot after the call's start, or never."""
    free_places: bool
    """Reduction 3: in the window of a free call, KV is on the device or the host, chosen slot by slot."""
    hosted: bool
    """Reduction 4: the host has room for all, so that the KV of a free call is there in its window and never dropped;
    and swapped KV comes back only with the next work."""


def make_setting(instance: Instance) -> Setting:
    """Choose the options of an instance (on a machine that `scope` lets in)."""
    calm = not instance.machine.evict
    return Setting(
        most_partial=_most_partial(instance),
        early_drops=calm,
        free_places=calm,
        hosted=calm and _host_has_room_for_all(instance),
    )


def swaps_early(instance: Instance) -> bool:
    """Whether an ordered swap can be made in the next slot, idle or not, or none is ordered."""
    calls = [call for request in instance.requests for call in request.calls]
    if all(call.handling != "swap" for call in calls):
        return True
    return not instance.machine.evict and _host_has_room_for_all(instance)


def _host_has_room_for_all(instance: Instance) -> bool:
    limit = instance.machine.host_memory
    if limit is None:
        return True
    return limit >= sum(
        max((r.context_at_call(k) for k, call in enumerate(r.calls) if call.handling in ("swap", "free")), default=0)
        for r in instance.requests
    )


def _most_partial(instance: Instance) -> int | None:
    """Return the memory that a full batch leaves: 0 where no prefill needs to be split."""
    machine, limit = instance.machine, instance.machine.prefill_limit
    if not machine.chunked:
        return 0
    if machine.evict:
        return None
    everything = sum(request.peak for request in instance.requests)
    most = everything if machine.memory is None else min(everything, machine.memory)
    return 0 if limit is None else max(0, most - limit)
