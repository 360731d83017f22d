"""Which graph is built for an instance: what a layer is, and which reductions are proved for it."""

from __future__ import annotations

from dataclasses import dataclass

from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import check_objective


@dataclass(frozen=True)
class Setting:
    """What holds for all requests of an instance; the proofs are in `docs/arc_flow.md`, under the names used here."""

    timed: bool
    """Layers are slots of time (else batches, where calls and arrivals cost nothing: busy-time)."""
    idle_layers: bool
    """A layer may be idle although a request must go on (no `pause`) or owes an ordered swap."""
    early_swaps: bool
    """An ordered swap is made in the next layer, whether or not it is idle."""
    most_partial: int | None
    """Reduction 1: after a part of a prefill that generates no token, at most so much KV is resident (None: any)."""
    early_drops: bool
    """Reduction 2: the KV of a free call is dropped in the first layer after the call's start, or never."""
    free_places: bool
    """Reduction 3: in the window of a free call, KV is on the device or the host, chosen layer by layer."""
    late_returns: bool
    """Reduction 4: the host has room for all, so that swapped KV comes back only with the next work."""
    hosted: bool
    """Reduction 5: so that the KV of a free call is on the host in its window, and never dropped."""


def make_setting(instance: Instance, objective: str, *, pruned: bool = True) -> Setting:
    """Choose the graph of an instance; `pruned=False` leaves out all reductions.

    Raises BadInput where no graph is exact: objectives of time with batches that do not all last one tick.
    """
    machine, timed = instance.machine, check_objective(objective) != "busy-time"
    requests, one_tick = instance.requests, instance.cost.always_one_tick
    if timed and not one_tick:
        raise BadInput(f"arc-flow does {objective} only where every batch lasts one tick; with this cost, busy-time")
    swaps = any(call.handling == "swap" for request in requests for call in request.calls)
    may_wait = any(request.calls or request.arrival != requests[0].arrival for request in requests)
    calm = machine.pause and not machine.evict
    whole = pruned and not machine.partial  # no reduction is proved for parts
    roomy = _host_has_room_for_all(instance)
    early_swaps = not timed or not swaps or (calm and roomy)
    free_places = whole and calm and one_tick and early_swaps
    return Setting(
        timed=timed,
        idle_layers=timed and (not early_swaps or (not machine.pause and may_wait)),
        early_swaps=early_swaps,
        most_partial=_most_partial(instance) if not machine.chunked or (whole and one_tick) else None,
        early_drops=whole and not machine.evict,
        free_places=free_places,
        late_returns=whole and calm and one_tick and roomy,
        hosted=free_places and roomy and machine.hybrid,
    )


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
    if machine.evict or not machine.hybrid:
        return None
    everything = sum(request.peak for request in instance.requests)
    most = everything if machine.memory is None else min(everything, machine.memory)
    return 0 if limit is None else max(0, most - limit)
