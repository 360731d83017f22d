"""`kvbound verify`: the referee."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from kvbound import InvalidSchedule, Trace, handlings, measures, verify_schedule
from kvbound.cli import EXIT_FAILED
from kvbound.cli.common import InstanceArgument, JsonOption, PlotOption, emit, load, table
from kvbound.files import check_writable, read_schedule
from kvbound.instance import Instance
from kvbound.metrics import OBJECTIVES
from kvbound.schedule import Schedule


def verify(
    instance: InstanceArgument,
    schedule: Annotated[str, typer.Option(metavar="S.json", help="the schedule file")],
    plot: PlotOption = None,
    json: JsonOption = None,
) -> int:
    """Execute a schedule exactly: the first rule broken, or everything that is measured."""
    check_writable(plot, json)
    judged = read_schedule(schedule)
    loaded = match_handling(load(instance), judged)
    try:
        trace = verify_schedule(loaded, judged)
    except InvalidSchedule as broken:
        facts = {"rule": f"R{broken.rule}", "batch": broken.batch, "request": broken.request, "detail": broken.detail}
        line = f"invalid: {broken}"
        emit(json, {"valid": False, "instance": loaded.name, **facts}, lambda console: console.print(line))
        return EXIT_FAILED
    if plot is not None:
        from kvbound.plots import compare_schedules

        compare_schedules([(loaded.name, trace)], path=plot)
    payload = {"valid": True, "instance": loaded.name, "instance_sha256": loaded.sha256, **measures(trace)}
    emit(json, {**payload, "handling": handlings(trace)}, lambda console: _show(trace, console))
    return 0


def match_handling(instance: Instance, schedule: Schedule) -> Instance:
    """Return the instance with free calls if that is the one for which the schedule was made (`--handling free`)."""
    free = instance.with_free_calls()
    return free if schedule.instance_sha256 == free.sha256 else instance


def _show(trace: Trace, console: Console) -> None:
    measured = measures(trace)
    console.print(f"valid: {len(trace.batches)} batches, every request done")
    rows = [(name, measured[name]) for name in OBJECTIVES]
    names = ("peak_memory", "tokens_processed", "tokens_recomputed", "tokens_swapped_out", "tokens_swapped_in")
    rows += [(name.replace("_", " "), measured[name]) for name in names]
    rows += [(f"memory waste: {part}", ticks) for part, ticks in measured["waste"].items()]
    console.print(table(("measure", "exact value"), rows, right=(1,)))
