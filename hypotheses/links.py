"""Recomputing a context against moving it to the host and back, on the rooflines of listed models and devices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from costmodels import get_cost
from hypotheses.case import Case, Held
from hypotheses.pauses import paused, placed
from kvcore.instance import Instance
from kvcore.schedule import Batch

DEVICES = ("a100-80gb", "h100", "h200")
CONTEXTS = tuple(2**k for k in range(8, 15))
"""256 to 16384 tokens."""


def contexts_on(model: str, device: str) -> tuple[Instance, ...]:
    """Return a request that pauses at each of the contexts, on the published peaks of a device, a tick of 1 ns."""
    named = get_cost(f"roofline:model={model},device={device},host=64,batch={2 * CONTEXTS[-1]}")
    assert named.machine is not None
    made = (paused(context, 0, [], named.machine.memory or 0, named.machine, named.make()) for context in CONTEXTS)
    return tuple(instance.replace(name=f"{model}-{device}-{instance.requests[0].prompt}") for instance in made)


def family(models: tuple[str, ...]) -> Iterator[tuple[Instance, ...]]:
    """Yield the contexts of each model on each device."""
    for model, device in product(models, DEVICES):
        yield contexts_on(model, device)


def recomputed(case: Case, instance: Instance) -> Held:
    """Return the schedule that drops the KV when the call returns at once, and recomputes it in the next batch."""
    context = instance.requests[0].prompt
    batches = Batch(start=0, work={"R1": context}), Batch(start=0, work={"R1": context + 1}, drop={"R1": context})
    return case.held(f"recompute-{context}", placed(instance, batches), instance)


def swapped(case: Case, instance: Instance) -> Held:
    """Return the schedule that moves the KV out in a batch of its own, and back beside the next token."""
    kv = {"R1": instance.requests[0].prompt}
    batches = Batch(start=0, work=kv), Batch(start=0, swap_out=kv), Batch(start=0, work={"R1": 1}, swap_in=kv)
    return case.held(f"swap-{kv['R1']}", placed(instance, batches), instance)


def crossing(case: Case) -> tuple[int, ...]:
    """Return the contexts at which recomputing is faster."""
    return tuple(
        instance.requests[0].prompt
        for instance in case.instances
        if recomputed(case, instance).value < swapped(case, instance).value
    )
