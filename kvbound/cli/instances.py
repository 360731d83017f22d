"""`kvbound instances` and `kvbound show`."""

from dataclasses import asdict
from typing import Annotated, Any

from rich.console import Console

from kvbound.cli.common import InstanceArgument, JsonOption, WideOption, emit, option, table
from kvbound.cli.progress import load_instance
from kvbound.cli.verify import show_invalid
from kvbound.instance_text import facts_in_words, node_cells, request_cells
from kvbound.simulation import match_handling
from kvbound.waste import node_use_cells, wasted, wasted_cells
from kvcore.files import read_schedule
from kvcore.instance import Instance
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.stream import Sizes, sizes_of
from kvcore.trace import Trace
from workloads.builtin import BUILTIN, WORST_OBJECTIVES, WORST_POLICIES, WORST_SIZES

WORST = (
    f"{len(WORST_POLICIES) * len(WORST_OBJECTIVES) * len(WORST_SIZES)} instances on which a policy is far from best: "
    f"POLICY is {', '.join(WORST_POLICIES)}; OBJECTIVE {', '.join(WORST_OBJECTIVES)}; n, the most requests, "
    f"{', '.join(map(str, WORST_SIZES))}"
)
SHOWN = 10  # requests, and nodes of contents, that are listed


def instances(json: JsonOption = None) -> None:
    """List the built-in instances and what each is from."""
    rows = [
        {"name": name, "usage": family.usage(name), "what": family.what, "source": family.source}
        for name, family in BUILTIN.items()
    ]
    cells = [(row["usage"], row["what"], row["source"]) for row in rows if not row["name"].startswith("worst-")]
    cells.append(("worst-POLICY-OBJECTIVE:n=4", WORST, "found by `kvbound search`"))
    emit(json, {"rows": rows}, lambda console: console.print(table(("instance", "what it is", "from"), cells)))


def show(
    instance: InstanceArgument,
    schedule: Annotated[str | None, option("S.json", "say what this schedule wasted")] = None,
    wide: WideOption = False,
    json: JsonOption = None,
) -> int:
    """Say what an instance is, in words and sizes; or what a schedule wasted."""
    loaded = load_instance(instance)
    if schedule is None:
        emit(json, facts(loaded), lambda console: show_instance(loaded, console, wide=wide))
        return 0
    judged = read_schedule(schedule)
    loaded = match_handling(loaded, judged.instance_sha256)
    try:
        trace = verify_schedule(loaded, judged)
    except InvalidSchedule as broken:
        return show_invalid(loaded, broken, json)
    payload = {**facts(loaded), "schedule": wasted(trace)}
    emit(json, payload, lambda console: _show_wasted(trace, console))
    return 0


def _show_wasted(trace: Trace, console: Console) -> None:
    console.print(table(*wasted_cells(trace)))
    if trace.instance.contents:
        console.print()
        console.print(table(*node_use_cells(trace, SHOWN)))


def facts(instance: Instance) -> dict[str, Any]:
    """Return the instance with its sizes, JSON-ready."""
    return {
        "instance_sha256": instance.sha256,
        "sizes": asdict(sizes_of(instance)),
        "instance": instance.model_dump(mode="json"),
    }


def show_instance(instance: Instance, console: Console, *, wide: bool = False) -> None:
    """Print an instance: its machine, its sizes, its first requests."""
    show_head(instance, instance.sha256, sizes_of(instance), console, wide=wide)


def show_head(instance: Instance, sha256: str, sizes: Sizes, console: Console, *, wide: bool = False) -> None:
    """Print the same with only the first requests at hand."""
    console.print(f"{instance.name}  (sha256 {sha256[:16]}..)", style="bold", soft_wrap=True)
    for line in facts_in_words(instance, sizes, wide=wide):
        console.print(line, soft_wrap=True)
    console.print(table(*request_cells(instance, SHOWN)[0]))
    if sizes.requests > SHOWN:
        console.print(f".. and {sizes.requests - SHOWN} more requests")
    if instance.contents:
        console.print(table(*node_cells(instance, SHOWN)[0]))
    if len(instance.contents) > SHOWN:
        console.print(f".. and {len(instance.contents) - SHOWN} more nodes")
