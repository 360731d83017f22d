"""Recomputing a context against moving it to the host and back, on the rooflines of listed models and devices."""

from collections.abc import Iterator
from itertools import product

from costmodels import get_cost
from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import Held
from hypotheses.small_instances import paused, placed
from kvcore.instance import Instance
from kvcore.schedule import Batch

MODELS = ("llama-3.2-1b", "gpt-j-6b", "llama-2-7b", "llama-3-8b", "opt-13b", "vicuna-13b")
DEVICES = ("a100-80gb", "h100", "h200")
CONTEXTS = tuple(2**k for k in range(8, 15))  # 256 to 16384 tokens


def contexts_on(model: str, device: str) -> tuple[Instance, ...]:
    """Return a request that pauses at each context, on the published peaks of a device, at a tick of 1 ns."""
    named = get_cost(f"roofline:model={model},device={device},host=64,batch={2 * CONTEXTS[-1]}")
    assert named.machine is not None
    made = (paused(context, 0, [], named.machine.memory or 0, named.machine, named.make()) for context in CONTEXTS)
    return tuple(instance.replace(name=f"{model}-{device}-{instance.requests[0].prompt}") for instance in made)


def family(models: tuple[str, ...]) -> Iterator[tuple[Instance, ...]]:
    """Yield the contexts of each model on each device."""
    for model, device in product(models, DEVICES):
        yield contexts_on(model, device)


def recomputed(case: Case, instance: Instance) -> Held:
    """Return the schedule that drops the KV as the call returns, and recomputes it in the next batch."""
    context = instance.requests[0].prompt
    batches = Batch(start=0, work={"R1": context}), Batch(start=0, work={"R1": context + 1}, drop={"R1": context})
    return case.held(f"recompute-{context}", placed(instance, batches), instance)


def swapped(case: Case, instance: Instance) -> Held:
    """Return the schedule that moves the KV out in its own batch, and back beside the next token."""
    kv = {"R1": instance.requests[0].prompt}
    batches = Batch(start=0, work=kv), Batch(start=0, swap_out=kv), Batch(start=0, work={"R1": 1}, swap_in=kv)
    return case.held(f"swap-{kv['R1']}", placed(instance, batches), instance)


def as_claimed(case: Case) -> Fails | None:
    for instance in case.instances:
        again, moved = recomputed(case, instance), swapped(case, instance)
        context = instance.requests[0].prompt
        if (context <= 2048 and again.value >= moved.value) or (context >= 8192 and again.value < moved.value):
            first, second = (int(held.value) / 10**6 for held in (again, moved))
            times = f"{first:.2f} ms with a recomputation, {second:.2f} ms with a swap"
            return Fails(f"{instance.name}: at {context} tokens {times}", (again, moved))
    return None


def elsewhere(case: Case) -> Fails | None:
    faster = tuple(
        instance.requests[0].prompt
        for instance in case.instances
        if recomputed(case, instance).value < swapped(case, instance).value
    )
    if faster == CONTEXTS[: len(faster)] and (2048 in faster) == (8192 in faster):
        return None
    shown = next(instance for instance in case.instances if instance.requests[0].prompt == 4096)
    return Fails(
        f"{shown.name}: recomputing is faster at {', '.join(map(str, faster))}",
        (recomputed(case, shown), swapped(case, shown)),
    )


HYPOTHESES = {
    "recompute-below-4k": Hypothesis(
        statement="Recomputing a context is faster than moving it to the host and back up to 2048 tokens, and slower "
        "from 8192 on: the crossing is at 4k, within a factor of 2.",
        source="a rule of thumb of serving systems",
        states="refuted",
        family=enumerated(
            "the rooflines of llama-3-8b on a100-80gb, h100 and h200 at their published peaks, contexts of 256, 512 .. "
            "16384 tokens",
            lambda: family(("llama-3-8b",)),
        ),
        predicate=as_claimed,
        note="The times are those of a lone request from its arrival to its end. A swap has a batch of its own to go "
        "out, and comes back beside the next token. On h100 and h200 recomputing is faster at 256 tokens only. Slower "
        "links move the crossing: at a quarter of the peak it is below 512 tokens on a100-80gb, and above 8192 on the "
        "others.",
    ),
    "recompute-crossing-elsewhere": Hypothesis(
        statement="On no roofline at published peaks does swapping overtake recomputing between 2048 and 8192 tokens; "
        "it does once, or is ahead from 256 on.",
        source="what refutes recompute-below-4k, on more models",
        states="proved",
        family=enumerated(
            f"{', '.join(MODELS)} on a100-80gb, h100 and h200, contexts of 256, 512 .. 16384 tokens (for some models "
            "more than they were trained for)",
            lambda: family(MODELS),
        ),
        predicate=elsewhere,
        note="Recomputing is faster up to 8192 tokens for gpt-j-6b and llama-2-7b on h100 and h200, up to 1024 for "
        "opt-13b and 512 for vicuna-13b there, and at 256 at the most for the others.",
    ),
}
