"""An instance in words: its machine, the cost of a batch, the segments of a request."""

from __future__ import annotations

from collections.abc import Sequence

from kvcore.cost import Cost, OwnCost
from kvcore.instance import Instance, Machine, Segment
from kvcore.stream import Sizes

SWITCHES = ("hybrid", "chunked", "evict", "partial", "pause")
LONGEST = 100
"""The most letters of the segments of a request."""


def facts_in_words(instance: Instance, sizes: Sizes) -> list[str]:
    """Return the lines that say what an instance is; its first requests may be all that is at hand."""
    machine = instance.machine
    lines = [
        f"{sizes.requests} requests with {sizes.calls} calls; {sizes.prompt_tokens} prompt, "
        f"{sizes.decode_tokens} decode and {sizes.returned_tokens} returned tokens; "
        f"{sizes.call_ticks} ticks in calls; a tick is {instance.tick_seconds} s",
        f"KV memory {_limit(machine.memory)} in blocks of {machine.block}; host {_limit(machine.host_memory)}; "
        f"largest peak {sizes.largest_peak}, all peaks together {sizes.sum_of_peaks}",
        f"a batch takes {_limit(machine.batch_tokens)} tokens, {_limit(machine.prefill_limit)} of them prefill, "
        f"{_limit(machine.batch_requests)} requests; {_switches(machine)}",
        f"a batch lasts {_cost(instance.cost)}",
    ]
    if instance.coarsening is not None:
        lines.append(f"coarsened: {instance.coarsening.model_dump(mode='json')}")
    return lines


def segments_in_words(segments: Sequence[Segment]) -> str:
    """Write tokens to decode and calls, as in `3 (2 ticks +1, swap) 4`."""
    parts = []
    for segment in segments:
        parts.append(str(segment.decode))
        if segment.call is not None:
            returns = f" +{segment.call.returns}" if segment.call.returns else ""
            parts.append(f"({segment.call.duration} ticks{returns}, {segment.call.handling})")
    text = " ".join(parts)
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + ".."


def _limit(limit: int | None) -> str:
    return "without limit" if limit is None else str(limit)


def _switches(machine: Machine) -> str:
    return ", ".join(name if getattr(machine, name) else f"no {name}" for name in SWITCHES)


def _cost(cost: Cost) -> str:
    if cost.always_one_tick:
        return "one tick"
    if isinstance(cost, OwnCost):
        return f"what {cost.name} says"
    parts = []
    for function in cost.functions:
        facts = {k: v for k, v in function.model_dump(exclude_defaults=True).items() if k != "divisor"}
        parts.append(f"({' + '.join(f'{v} {k}' for k, v in facts.items()) or 0}) / {function.divisor}")
    return "max(1, " + ", ".join(parts) + ") ticks"
