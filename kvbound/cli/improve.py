"""`kvbound improve`."""

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from kvbound.cli import common, only_writes
from kvbound.cli.common import as_file, emit, result_table, settings_of
from kvbound.cli.progress import SolveProgress, load_instance
from kvbound.cli.solve import exit_code
from kvbound.tables import by_clock, in_words
from kvbound.units import units_of
from kvcore.files import check_writable, read_schedule
from kvcore.result import Result


def improve(
    instance: common.InstanceArgument,
    objective: common.ObjectiveOption = "total-flow-time",
    time_limit: common.TimeLimitOption = 60,
    work: common.WorkOption = None,
    handling: common.HandlingOption = "as-given",
    start: Annotated[
        str | None, typer.Option("--from", metavar="S.json|POLICY", help="what to improve; else a policy of our choice")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    option: common.SettingsOption = None,
    schedule: common.ScheduleOption = None,
    json: common.JsonOption = None,
) -> int:
    """Improve a schedule of any size: only what the referee accepts, never worse than the start."""
    check_writable(schedule, json)
    loaded = load_instance(instance)
    given = read_schedule(start) if start is not None and common.is_schedule(start) else start
    with SolveProgress(f"improving {loaded.name}", partial(units_of(loaded).named, objective=objective)) as progress:
        from solvers.improve import improve as search

        result = search(
            loaded, objective, start=given, handling=handling, seconds=time_limit or 60, work=work, seed=seed,
            options=settings_of(option), progress=progress,
        )  # fmt: skip
    only_writes()
    emit(json, result.to_json(), lambda console: _show(result, console), (schedule, as_file(result.schedule)))
    return exit_code(result, None)


def _show(result: Result, console: Console) -> None:
    console.print(result_table(result.to_json(), units_of(result.instance)))
    if result.schedule is None or result.start is None:
        console.print("no policy has ended in that time: give more --time-limit, or a schedule with --from")
        return
    console.print(
        f"from {in_words(result, result.start.value)}{' by ' + result.start.policy if result.start.policy else ''}, "
        f"{result.rounds} rounds; stopped: {result.stopped}{by_clock(result)}"
    )
