"""Which instances the method takes, and which relaxation it begins with."""

from __future__ import annotations

from formulations.arc_flow.setting import make_setting
from kvbound.errors import BadInput
from kvbound.instance import Instance

OBJECTIVES = ("total-flow-time", "weighted-flow-time")
"""Sums over requests of a rate times the time up to the end."""


def check(instance: Instance, objective: str) -> None:
    """Raise BadInput unless a schedule is a way for each request, within the limits of each slot, and nothing else."""
    reason = why_not(instance, objective)
    if reason is not None:
        raise BadInput(f"lagrange {reason}; use the search, or arc-flow on highs")


def why_not(instance: Instance, objective: str) -> str | None:
    """Say why the method does not apply (None: it does)."""
    machine = instance.machine
    if objective not in OBJECTIVES:
        return f"does {', '.join(OBJECTIVES)}, not {objective}"
    if not instance.cost.always_one_tick:
        return "needs batches that all last one tick"
    for switch, wanted in (("hybrid", True), ("evict", False), ("partial", False)):
        if getattr(machine, switch) != wanted:
            return f"needs a machine {'with' if wanted else 'without'} `{switch}`"
    if not machine.pause and not _no_budgets(instance):
        return "needs a machine with `pause`, or without budgets of tokens and requests"
    instance = with_pause(instance)
    if not make_setting(instance, objective).early_swaps:
        return "needs a host with room for all contexts where calls order swaps"
    return None


def with_pause(instance: Instance) -> Instance:
    """Allow breaks, which are of no use without budgets (docs/lagrange.md, Late segments)."""
    return instance.replace(machine=instance.machine.replace(pause=True))


def _no_budgets(instance: Instance) -> bool:
    machine = instance.machine
    return machine.batch_tokens is None and machine.prefill_tokens is None and machine.batch_requests is None


def late_segments(instance: Instance) -> bool:
    """Whether the relaxation to segments that run without a break up to their end is used."""
    machine = instance.machine
    limit = machine.prefill_limit
    fits = limit is None or limit >= max(request.peak for request in instance.requests)
    return machine.batch_requests is None and fits
