"""`kvbound instances` and `kvbound show`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console

from kvbound.builtin import BUILTIN
from kvbound.cli.common import InstanceArgument, JsonOption, emit, load, table
from kvbound.instance import Instance
from kvbound.stream import Sizes, sizes_of


def instances(json: JsonOption = None) -> None:
    """List the built-in instances and what each is from."""
    rows = [
        {"name": name, "usage": family.usage(name), "what": family.what, "source": family.source}
        for name, family in BUILTIN.items()
    ]
    cells = [(row["usage"], row["what"], row["source"]) for row in rows]
    emit(json, {"rows": rows}, lambda console: console.print(table(("instance", "what it is", "from"), cells)))


def show(instance: InstanceArgument, json: JsonOption = None) -> None:
    """Say what an instance is, in words and sizes."""
    loaded = load(instance)
    emit(json, facts(loaded), lambda console: show_instance(loaded, console))


def facts(instance: Instance) -> dict[str, Any]:
    """Return the instance with its sizes, JSON-ready."""
    return {
        "instance_sha256": instance.sha256,
        "sizes": asdict(sizes_of(instance)),
        "instance": instance.model_dump(mode="json"),
    }


def show_instance(instance: Instance, console: Console) -> None:
    """Print an instance for people: its machine, its sizes, its first requests."""
    show_head(instance, instance.sha256, sizes_of(instance), console)


def show_head(instance: Instance, sha256: str, sizes: Sizes, console: Console) -> None:
    """Print what `show_instance` does of an instance of which only the first requests are at hand."""
    machine = instance.machine
    console.print(f"[bold]{instance.name}[/bold]  (sha256 {sha256[:16]}..)", soft_wrap=True)
    console.print(
        f"{sizes.requests} requests with {sizes.calls} calls; {sizes.prompt_tokens} prompt, "
        f"{sizes.decode_tokens} decode and {sizes.returned_tokens} returned tokens; "
        f"{sizes.call_ticks} ticks in calls; a tick is {instance.tick_seconds} s",
        soft_wrap=True,
    )
    console.print(
        f"KV memory {_limit(machine.memory)} in blocks of {machine.block}; host {_limit(machine.host_memory)}; "
        f"largest peak {sizes.largest_peak}, all peaks together {sizes.sum_of_peaks}",
        soft_wrap=True,
    )
    console.print(
        f"a batch takes {_limit(machine.batch_tokens)} tokens, {_limit(machine.prefill_limit)} of them prefill, "
        f"{_limit(machine.batch_requests)} requests; {_switches(instance)}",
        soft_wrap=True,
    )
    console.print(f"a batch lasts {_cost(instance)}", soft_wrap=True)
    if instance.coarsening is not None:
        console.print(f"coarsened: {instance.coarsening.model_dump(mode='json')}", soft_wrap=True)
    shown = instance.requests[:20]
    rows = [
        (request.id, request.arrival, request.prompt, _segments(request.segments), request.output, request.peak)
        for request in shown
    ]
    console.print(
        table(("request", "arrival", "prompt", "decode and calls", "output", "peak"), rows, right=(1, 2, 4, 5))
    )
    if sizes.requests > len(shown):
        console.print(f".. and {sizes.requests - len(shown)} more requests")


def _limit(limit: int | None) -> str:
    return "without limit" if limit is None else str(limit)


def _switches(instance: Instance) -> str:
    names = ("hybrid", "chunked", "evict", "partial", "pause")
    return ", ".join(name if getattr(instance.machine, name) else f"no {name}" for name in names)


def _cost(instance: Instance) -> str:
    if instance.cost.always_one_tick:
        return "one tick"
    parts = []
    for function in instance.cost.functions:
        facts = {k: v for k, v in function.model_dump(exclude_defaults=True).items() if k != "divisor"}
        parts.append(f"({' + '.join(f'{v} {k}' for k, v in facts.items()) or 0}) / {function.divisor}")
    return "max(1, " + ", ".join(parts) + ") ticks"


def _segments(segments: Any) -> str:
    parts = []
    for segment in segments:
        parts.append(str(segment.decode))
        if segment.call is not None:
            returns = f" +{segment.call.returns}" if segment.call.returns else ""
            parts.append(f"[{segment.call.duration} ticks{returns}, {segment.call.handling}]")
    text = " ".join(parts).replace("[", "(").replace("]", ")")
    return text if len(text) <= 100 else text[:98] + ".."
