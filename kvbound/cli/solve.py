"""`kvbound solve`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from fractions import Fraction
from functools import partial
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from kvbound import tables
from kvbound.cli import EXIT_INTERRUPTED, EXIT_UNDECIDED, common, heard, only_writes
from kvbound.cli.common import Output, as_file, emit, option, result_table, table, write_all
from kvbound.cli.config import ConfigOption
from kvbound.cli.progress import LiveLine, SolveProgress, drawing, load_instance
from kvbound.cli.verify import show_invalid
from kvbound.machine_checked import mark
from kvbound.plots import compare_schedules, plot_log
from kvbound.tables import because, between, by_clock, in_words
from kvbound.trace_events import write_trace_events
from kvbound.units import units_of
from kvcore.files import check_writable
from kvcore.referee import InvalidSchedule
from kvcore.result import Result, Stop

if TYPE_CHECKING:
    from kvbound.comparison import Comparison

CERTIFY = 60.0  # seconds for a certificate where no time limit was given


def solve(
    instance: common.InstanceArgument,
    objective: common.ObjectiveOption = "total-flow-time",
    ways: Annotated[str, option("auto|WAY[,WAY..]", "slots, improve, batch-bigm on highs, ..")] = "auto",
    formulation: Annotated[str, typer.Option(metavar="auto|search|NAME", help="batch-bigm, cp-sat, ..")] = "auto",
    solver: Annotated[str, typer.Option(metavar="auto|NAME", help="`kvbound solvers` lists them")] = "auto",
    handling: common.HandlingOption = "as-given",
    time_limit: common.TimeLimitOption = None,
    work: common.WorkOption = None,
    proved: common.ProvedOption = False,
    gap: Annotated[float | None, typer.Option(min=0, metavar="G", help="stop at (value - bound) / bound <= G")] = None,
    better_than: Annotated[
        str | None, option("VALUE|P%:POLICY", "is there a schedule below VALUE, or P % below POLICY's?")
    ] = None,
    warm_start: Annotated[str, typer.Option(metavar="best|POLICY|none")] = "best",
    start: Annotated[
        str | None, typer.Option("--from", metavar="S.json|POLICY", help="a schedule to start from, beside policies")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, metavar="N")] = 1,
    seed: Annotated[int, typer.Option(min=0, metavar="N")] = 0,
    memory_limit: Annotated[int, typer.Option(min=100, metavar="MIB", help="of each worker process")] = 8000,
    option: common.SettingsOption = None,
    schedule: common.ScheduleOption = None,
    certificate: common.CertificateOption = None,
    plot: common.PlotOption = None,
    log: Annotated[str | None, option("FILE", "write every event there as it comes, a JSON line each")] = None,
    curves: Annotated[str | None, common.picture("draw value and bound against time")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="what policies do otherwise, call by call")] = False,
    trace: common.TraceOption = None,
    config: ConfigOption = None,
    json: common.JsonOption = None,
) -> int:
    """Find the best schedule there is, and prove it."""
    check_writable(schedule, certificate, plot, log, curves, trace, json)
    loaded, known = load_instance(instance), common.read_schedules(start if common.is_schedule(start) else None)
    certify_limit = None if certificate is None else time_limit or CERTIFY
    write = partial(units_of(loaded).named, objective=objective)
    try:
        with SolveProgress(f"solving {loaded.name}", write) as progress, events_to(log) as event:
            import solvers
            from solvers.simulate import target_of

            target = None if better_than is None else target_of(better_than, loaded, objective, handling)
            result = solvers.solve(
                loaded, objective, ways=ways.split(","), formulation=formulation, solver=solver, handling=handling,
                time_limit=time_limit, work=work, certify_limit=certify_limit, gap=gap, target=target, known=known,
                warm_start=warm_start if known or start is None else start, threads=threads, seed=seed,
                memory_limit=memory_limit, options=common.settings_of(option), progress=progress, event=event,
            )  # fmt: skip
    except InvalidSchedule as broken:
        return show_invalid(loaded, broken, json)
    only_writes()
    try:  # what runs policies comes last
        write_all((certificate, as_file(result.certificate)), (schedule, as_file(result.schedule)))
    finally:
        others = None
        if proved:
            mark(result)
        if explain and result.trace is not None:
            from kvbound.comparison import beside_policies

            with LiveLine("running policies"):
                others = beside_policies(result)
        row = result.to_json() | ({} if others is None else {"policies": explained_rows(others)})
        emit(json, row, lambda console: show(result, console, others), *pictures(result, plot, curves, trace))
    return exit_code(result, gap)


@contextmanager
def events_to(file: str | None) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Give what writes an event of a solve to a file at once, a line of JSON each."""
    with nullcontext() if file is None else open(file, "w", encoding="utf-8") as lines:

        def write(event: dict[str, Any]) -> None:
            if lines is not None:
                print(dumps(event), file=lines, flush=True)
            heard()

        yield write


def pictures(result: Result, plot: str | None, curves: str | None, trace: str | None) -> list[Output]:
    """Return what draws the schedule, and value and bound against time, and what writes events."""
    log = drawing(lambda file: plot_log(result.to_json(), path=file, units=units_of(result.instance)))
    if result.trace is None:
        return [(curves, log)]
    title, executed = f"{result.standing}: {in_words(result, result.value)}", result.trace
    events = partial(write_trace_events, schedules=[(f"{result.instance.name}, {title}", executed)])
    picture = drawing(lambda file: compare_schedules([(title, executed)], path=file))
    return [(trace, events), (plot, picture), (curves, log)]


def explained_rows(others: Comparison) -> list[dict[str, Any]]:
    """Return a JSON-ready row for each policy that ran: its value, handlings, and parts of its time."""
    why = {found.label: found for found in others.explained()}
    return [
        {key: run.row[key] for key in ("policy", "value", "handling")} | {"explained": why[run.label].to_json()}
        for run in others.policies
        if run.label in why
    ]


def show(result: Result, console: Console, others: Comparison | None = None) -> None:
    """Print the result, and what given policies did otherwise."""
    row = result.to_json()
    console.print(result_table(row, units_of(result.instance)))
    if row["handling"]:
        console.print(f"handling of the calls: {tables.handling_text(row)}")
    if result.status in ("optimal", "claimed"):
        computed = in_words(result, result.value)
        says = "and no schedule is better" if result.status == "optimal" else "but no certificate meets it"
        console.print(f"{result.standing}: the referee computed {computed}, {says} ({because(result)})")
    elif result.horizon is not None and not result.horizon.sufficient:
        console.print(f"not called optimal: {result.horizon.why}")
    elif result.status == "feasible":
        console.print(f"stopped: {result.stopped}{by_clock(result)}; {between(result)}")
        if result.stopped == Stop.DECLINED:
            console.print("`kvbound bound` may prove a higher one")
    if result.certificate is not None:
        took = result.certifying_seconds
        after = "" if took is None else f", in {took:.2f} s of these"
        least = in_words(result, result.certified_bound)
        console.print(f"certified, for anyone to check: at least {least} ({result.certificate.proof.kind}{after})")
        if result.machine_checked:
            console.print("machine-checked: the checker proved in Coq accepts it (docs/verified.md)")
    if result.target is not None:
        console.print(f"a schedule of at most {in_words(result, str(result.target))}: {result.answer}")
    for line in [*result.failed, *result.rejected]:
        console.print(f"note: {line}")
    if others is not None:
        show_others(others, console)


def show_others(others: Comparison, console: Console) -> None:
    """Print the solved schedule's handling of each call, what policies do otherwise, and the cost to the next."""
    units, [*rows, best] = units_of(others.instance), others.rows()
    explained = others.explained()
    console.print()
    console.print(table(*tables.calls_cells(best, rows, units, others.objective)))
    worse = [row for row in rows if row["value"] is not None and Fraction(row["value"]) > Fraction(best["value"])]
    nearest = min(worse, key=lambda row: Fraction(row["value"]), default={"label": None})
    closest = [found for found in explained if found.label == nearest["label"]]
    common.show_explained(explained, closest, units, console)


def exit_code(result: Result, gap: float | None) -> int:
    """Return the exit code of a solve."""
    if result.stopped == Stop.INTERRUPTED:
        return EXIT_INTERRUPTED
    undecided_gap = gap is not None and (result.gap is None or result.gap > gap)
    undecided_target = result.target is not None and result.answer == "unknown"
    undecided = result.status == "unknown" or result.stopped in (Stop.SOLVER_FAILURE, Stop.DECLINED)
    return EXIT_UNDECIDED if undecided or undecided_gap or undecided_target else 0
