"""`kvbound bound`."""

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED, common, only_writes
from kvbound.cli.common import OUT, as_file, emit, option, settings_of, table
from kvbound.cli.progress import SolveProgress, load_instance
from kvbound.machine_checked import mark
from kvbound.tables import by_clock, in_words, value_columns
from kvbound.units import units_of
from kvcore.files import check_writable
from kvcore.result import Result, Stop


def bound(
    instance: common.InstanceArgument,
    objective: common.ObjectiveOption = "total-flow-time",
    handling: common.HandlingOption = "as-given",
    method: Annotated[str, typer.Option(metavar="auto|NAME", help="docs/bounds.md has them all")] = "auto",
    time_limit: common.TimeLimitOption = 60,
    work: common.WorkOption = None,
    proved: common.ProvedOption = False,
    option: common.SettingsOption = None,
    certificate: Annotated[
        str | None, option("OUT.json", "write the certificate of the bound there", "--certificate", *OUT)
    ] = None,
    json: common.JsonOption = None,
) -> int:
    """Prove a lower bound that scales: a ladder of relaxations, each with a certificate."""
    check_writable(certificate, json)
    loaded = load_instance(instance)
    write = partial(units_of(loaded).named, objective=objective)
    with SolveProgress(f"bounding {loaded.name}", write) as progress:
        from solvers import free_calls
        from solvers.dual_bound import best_bound

        result = best_bound(
            free_calls(loaded, handling), objective, method=method, time_limit=time_limit or 60, work=work,
            options=settings_of(option), progress=progress,
        )  # fmt: skip
    if proved:
        mark(result)
    only_writes()
    emit(json, result.to_json(), lambda console: _show(result, console), (certificate, as_file(result.certificate)))
    return EXIT_INTERRUPTED if result.stopped == Stop.INTERRUPTED else 0


def _show(result: Result, console: Console) -> None:
    units, objective = units_of(result.instance), result.objective
    cells = [
        (rung["method"], units.value(rung["bound"], objective), f"{rung['seconds']:.2f}", rung["why"])
        for rung in (each.row(objective) for each in result.ladder or ())
    ]
    console.print(f"{result.instance.name}, {result.objective}: no schedule is below", style="bold", soft_wrap=True)
    console.print(table(("method", *value_columns(units, objective, "bound"), "took, s", "why"), cells, right=(1, 2)))
    if result.chosen:
        console.print(f"note: {result.chosen}")
    if result.bound is not None:
        console.print(
            f"the best, {in_words(result, result.bound)}, is by {result.formulation}{by_clock(result)}; "
            "--certificate FILE writes its proof"
        )
