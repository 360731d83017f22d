"""`kvbound compare`."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED, common, only_writes
from kvbound.cli.common import OUT, POLICY, emit, option, read_schedules, show_explained, show_measures, table
from kvbound.cli.config import ConfigOption
from kvbound.cli.progress import LiveLine, SolveProgress, drawing, load_instance
from kvbound.cli.simulate import FEW
from kvbound.cli.verify import show_invalid
from kvbound.comparison import UNMEASURED, Comparison
from kvbound.comparison import compare as compare_policies
from kvbound.explanation import Explained
from kvbound.frames import write_rows
from kvbound.machine_checked import mark
from kvbound.plots.frame import check_drawable
from kvbound.simulation import policy_names
from kvbound.tables import OVER, by_clock
from kvbound.trace_events import write_trace_events
from kvbound.units import units_of
from kvcore.files import check_writable, write_text
from kvcore.parameters import fraction
from kvcore.referee import InvalidSchedule
from kvcore.result import Result


def compare(
    instance: common.InstanceArgument,
    policies: Annotated[
        str, option("NAME[,NAME..]|usual|all", "usual: engines and papers' schedulers; docs/policies.md", *POLICY[::-1])
    ] = "usual",
    schedule: common.SchedulesOption = None,
    objective: common.ObjectiveOption = "total-flow-time",
    handling: common.HandlingOption = "as-given",
    time_limit: common.TimeLimitOption = None,
    work: common.WorkOption = None,
    proved: common.ProvedOption = False,
    threads: Annotated[int, typer.Option(min=1, metavar="N")] = 1,
    optimum: Annotated[
        bool,
        typer.Option(
            "--optimum/--no-optimum", help="look for it, and for the best schedule and bound meanwhile, or for nothing"
        ),
    ] = True,
    window: common.WindowOption = None,
    plot: common.PlotOption = None,
    html: Annotated[
        str | None, option("OUT.html", "write a report: one file, for any browser (docs/report.md)", "--html", *OUT)
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="where the time of each schedule goes, and why")] = False,
    trace: common.TraceOption = None,
    csv: common.TableOption = None,
    wide: common.WideOption = False,
    config: ConfigOption = None,
    json: common.JsonOption = None,
) -> int:
    """Say how far each policy is from the best schedule there is."""
    check_writable(plot, html, trace, csv, json)
    loaded, stop = load_instance(instance), None if window is None else fraction("--window", window)
    if plot is not None:
        check_drawable(loaded)
    names = None if policies == "usual" else policy_names(policies)
    write = partial(units_of(loaded).named, objective=objective)
    try:
        comparison = compare_policies(
            loaded, names, objective, handling, time_limit, threads, work=work, against="optimum" if optimum else None,
            window=stop,
            schedules=read_schedules(schedule), traces=any((plot, html, trace, explain)),
            watch=partial(SolveProgress, write=write),
        )  # fmt: skip
    except InvalidSchedule as broken:
        return show_invalid(loaded, broken, json)
    for found in comparison.optima.values() if proved else ():
        mark(found)
    only_writes()
    with LiveLine("explaining the schedules"):
        explained = comparison.explained() if explain else []
    why = {found.label: {"explained": found.to_json()} for found in explained}
    rows = [row | why.get(row["label"], {}) for row in comparison.rows()]
    emit(
        json, {"rows": rows}, lambda console: show(comparison, console, explained, wide=wide),
        (trace, lambda file: write_trace_events(file, comparison.schedules())),
        (csv, lambda file: write_rows(file, comparison.rows())),
        (plot, drawing(comparison.figure)),
        (html, drawing(lambda file: write_text(file, comparison.report().html()))),
    )  # fmt: skip
    return EXIT_INTERRUPTED if comparison.interrupted else 0


def _took(optimum: Result) -> str:
    certifying = optimum.certifying_seconds
    of_these = "" if certifying is None else f", {certifying:.2f} s of these for a certificate"
    return f" in {optimum.seconds:.2f} s{by_clock(optimum)}{of_these}"


def show(comparison: Comparison, console: Console, explained: Sequence[Explained] = (), *, wide: bool = False) -> None:
    """Print the table, what was proved, and any explanation."""
    rows = comparison.rows()
    console.print(f"{comparison.instance.name}, {comparison.objective}", style="bold", soft_wrap=True)
    console.print(table(*comparison.summary(rows)))
    measured = [(row["label"], row["measures"]) for row in rows if row.get("measures")]
    units = units_of(comparison.instance)
    if len(comparison.instance.requests) > FEW and measured:
        show_measures(measured, units, console, wide=wide)
    console.print(OVER if comparison.optima else UNMEASURED, soft_wrap=True)
    for line in comparison.verdicts(_took):
        console.print(line, soft_wrap=True)
    if explained:
        show_explained(explained, explained, units, console)
