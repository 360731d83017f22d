"""`kvbound simulate`."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED, common, only_writes
from kvbound.cli.common import POLICY, as_file, emit, option, show_measures, table
from kvbound.cli.progress import LiveLine, load_instance
from kvbound.simulation import Simulation, policy_names, simulate_policies
from kvbound.tables import handling_text, value_columns, why_not, without_calls, without_calls_column
from kvbound.trace_events import write_trace_events
from kvbound.units import units_of
from kvcore.errors import BadInput
from kvcore.files import check_writable
from kvcore.instance import Instance
from kvcore.parameters import fraction

FEW = 6  # up to so many requests, each completion is shown; beyond, what is measured of all of them


def simulate(
    instance: common.InstanceArgument,
    policy: Annotated[
        str, option("NAME[,NAME..]|all", "`kvbound policies` lists them; or FILE.py with one's own", *POLICY)
    ],
    objective: common.ObjectiveOption = "total-flow-time",
    handling: common.HandlingOption = "as-given",
    window: common.WindowOption = None,
    predictions: Annotated[str, option("TEXT", "what policies believe: exact, noise:P, types or bins:NxW")] = "exact",
    seed: Annotated[int, option("N", "of the noise", min=0)] = 0,
    schedule: common.ScheduleOption = None,
    trace: common.TraceOption = None,
    csv: common.TableOption = None,
    wide: common.WideOption = False,
    json: common.JsonOption = None,
) -> int:
    """Run schedulers that people use; each schedule is executed by the referee."""
    check_writable(schedule, trace, csv, json)
    loaded = load_instance(instance)
    names = policy_names(policy)
    stop = None if window is None else fraction("--window", window)
    if schedule is not None and len(names) > 1:
        raise BadInput(f"--schedule takes the schedule of one policy, {len(names)} are run")
    runs, interrupted = simulate_policies(
        loaded, names, objective, handling,
        window=stop, strict=len(names) == 1, predictions=predictions, seed=seed, watch=LiveLine,
    )  # fmt: skip
    only_writes()
    traced = [(run.row["policy"], run.trace) for run in runs if run.trace is not None]
    emit(
        json, {"rows": [run.row for run in runs]}, lambda console: show_runs(console, runs, loaded, wide=wide),
        (schedule, as_file(runs[0].schedule if runs else None)), (trace, partial(write_trace_events, schedules=traced)),
        (csv, partial(_write_rows, rows=[run.row for run in runs])),
    )  # fmt: skip
    return EXIT_INTERRUPTED if interrupted else 0


def _write_rows(file: str, rows: list[dict[str, Any]]) -> None:
    from kvbound.frames import write_rows  # which loads sweeps and plots

    write_rows(file, rows)


def show_runs(console: Console, runs: Sequence[Simulation], instance: Instance, *, wide: bool = False) -> None:
    """Print the values, and more measures unless requests are few."""
    few, units = len(instance.requests) <= FEW, units_of(instance)
    objective = runs[0].row["objective"] if runs else ""
    columns = ["policy", *(value_columns(units, objective, "value", "mean") if runs else ())]
    columns += without_calls_column(instance, objective)
    numbers = range(1, len(columns))
    failed, calls = any("error" in run.row for run in runs), any(request.calls for request in instance.requests)
    columns += [f"completions, {units.time}", *["handling"] * calls] * few + ["why not"] * failed
    cells = [
        (
            row["policy"], *(units.value(row[name], objective) for name in ("value", "mean")),
            *without_calls(row["value"], instance, objective),
            *([", ".join(f"{id} {units.text(tick)}" for id, tick in row["completion"].items())] if few else ()),
            *([handling_text(row)] if few and calls else ()),
            *([why_not(row)] if failed else ()),
        )
        for row in (run.row for run in runs)
    ]  # fmt: skip
    console.print(table(columns, cells, right=numbers))
    measured = [(run.row["policy"], run.row["measures"]) for run in runs if "measures" in run.row]
    if not few and measured:
        show_measures(measured, units, console, wide=wide)
