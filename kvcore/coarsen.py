"""Rounding an instance to blocks of tokens and slots of ticks, in a direction that is proved.

`relax` rounds in the schedule's favour: an optimum or a bound of the coarse instance gives a bound of the fine one
(`fine_bound`). `restrict` rounds against it: every schedule of the coarse instance is carried out on the fine one
(`lift`). `docs/coarsening.md` states and proves both. A coarse token stands for a block of fine tokens, a coarse tick
for a slot of fine ticks, in which each request generates at most one coarse token; every coarse batch lasts one slot.
"""

from __future__ import annotations

from pydantic import ValidationError

from kvcore.errors import BadInput
from kvcore.files import first_error
from kvcore.instance import Instance
from kvcore.metrics import check_objective
from kvcore.relax import relax
from kvcore.restrict import headroom, restrict, schedule_on_fine
from kvcore.schedule import Schedule

__all__ = ["coarsen", "fine_bound", "lift"]


def coarsen(
    instance: Instance, *, block_tokens: int, slot_ticks: int, direction: str, headroom_ticks: int | None = None
) -> Instance:
    """Return `instance` in coarse tokens of `block_tokens` tokens and coarse ticks of `slot_ticks` ticks.

    The rounding is sharpest where `block_tokens` and `slot_ticks` are equal; for `restrict` on a machine that evicts,
    where a block is 7/8 of a slot. `headroom_ticks` (`restrict` only): so many decode steps may follow a prefill within
    its slot, for which prefills leave those ticks free (None: 0; on a machine that evicts about 7/8 of the slot).

    Raises:
        BadInput: the direction is none, a size is out of range, or no rounding of such an instance is proved.
    """
    if direction not in ("relax", "restrict"):
        raise BadInput(f"the direction of rounding is relax or restrict, not {direction!r}")
    _check_sizes(block_tokens, slot_ticks, headroom_ticks or 0)
    _check_instance(instance)
    try:
        if direction == "restrict":
            if headroom_ticks is None:
                headroom_ticks = headroom(instance.machine, block_tokens, slot_ticks)
            return restrict(instance, block_tokens, slot_ticks, headroom_ticks)
        if headroom_ticks:
            raise BadInput("headroom_ticks has no meaning for relax; leave it out")
        return relax(instance, block_tokens, slot_ticks)
    except ValidationError as error:
        raise BadInput(f"{instance.name}, coarsened to blocks of {block_tokens}: {first_error(error)}") from None


def fine_bound(coarse: Instance, objective: str, coarse_bound: int) -> int | None:
    """Return the lower bound, in fine ticks, that a lower bound of the coarse instance proves for the fine one.

    None where nothing is proved: for a `restrict` instance, and for objectives other than makespan, total-flow-time,
    weighted-flow-time and max-flow-time. BadInput if the instance was not coarsened, or for an unknown objective.
    """
    check_objective(objective)
    grid = coarse.coarsening
    if grid is None:
        raise BadInput(f"{coarse.name} was not coarsened, so it bounds no finer instance")
    if grid.direction == "restrict":
        return None
    if not {request.id for request in coarse.requests} <= grid.completion_offset.keys() & grid.flow_offset.keys():
        raise BadInput(f"{coarse.name}: its coarsening must give the offsets of every request")
    offsets = {
        "makespan": min(grid.completion_offset.values()),
        "max-flow-time": min(grid.flow_offset.values()),
        "total-flow-time": sum(grid.flow_offset.values()),
        "weighted-flow-time": sum(request.weight * grid.flow_offset[request.id] for request in coarse.requests),
    }
    return grid.slot_ticks * coarse_bound + offsets[objective] if objective in offsets else None


def lift(coarse_schedule: Schedule, fine_instance: Instance, coarse_instance: Instance) -> Schedule:
    """Carry out a schedule of a `restrict` instance on the fine instance that it was made from.

    No request completes later than at `slot_ticks` times its coarse completion. Time: linear in the number of fine
    batches, at most `slot_ticks` per coarse batch.

    Raises:
        BadInput: the coarse instance is not a `restrict` coarsening of `fine_instance`.
        InvalidSchedule: the coarse schedule breaks a rule.
    """
    grid = coarse_instance.coarsening
    if grid is None or grid.direction != "restrict":
        raise BadInput(f"{coarse_instance.name} is no restrict coarsening, so its schedules cannot be lifted")
    made = coarsen(
        fine_instance,
        block_tokens=grid.block_tokens,
        slot_ticks=grid.slot_ticks,
        direction="restrict",
        headroom_ticks=grid.headroom_ticks,
    )
    if made.replace(name=coarse_instance.name) != coarse_instance:
        raise BadInput(f"{coarse_instance.name} is not the coarsening of {fine_instance.name}")
    return schedule_on_fine(coarse_schedule, fine_instance, coarse_instance)


def _check_sizes(block_tokens: int, slot_ticks: int, headroom_ticks: int) -> None:
    for name, value in (("block_tokens", block_tokens), ("slot_ticks", slot_ticks)):
        if not 1 <= value <= 10**9:
            raise BadInput(f"{name} is from 1 to 10^9, not {value}")
    most = min(block_tokens, slot_ticks) - 1
    if not 0 <= headroom_ticks <= most:
        raise BadInput(f"headroom_ticks is from 0 to {most} (below block_tokens and slot_ticks), not {headroom_ticks}")


def _check_instance(instance: Instance) -> None:
    """Refuse what the proofs of both directions leave out."""
    if instance.coarsening is not None:
        raise BadInput(f"{instance.name} is coarse already; coarsen the instance that it was made from")
    if not instance.cost.always_one_tick:
        raise BadInput(f"{instance.name}: only instances whose batches all last one tick (unit cost) can be coarsened")
    for request in instance.requests:
        if request.slo is not None:
            raise BadInput(f"{instance.name}: request {request.id} has SLOs, which have no coarse form; remove them")
