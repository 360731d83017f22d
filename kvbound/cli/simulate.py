"""`kvbound simulate`: run policies on an instance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import (
    HandlingOption,
    InstanceArgument,
    JsonOption,
    ObjectiveOption,
    ScheduleOption,
    TraceOption,
    emit,
    handling_text,
    in_seconds,
    load,
    table,
)
from kvbound.cli.measures import WindowOption, times_table, work_table
from kvbound.cli.progress import working
from kvbound.trace_events import write_trace_events
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.instance import Instance
from kvcore.parameters import fraction
from kvcore.result import Result
from kvcore.schedule import Schedule
from kvcore.summary import summary
from kvcore.trace import Trace

COLUMNS = ("policy", "value", "mean", "in seconds", "completions", "handling")
FEW = 6
"""Up to so many requests, each completion is shown; beyond, what is measured of all of them."""


def simulate(
    instance: InstanceArgument,
    policy: Annotated[
        str, typer.Option(metavar="NAME[,NAME..]|all", help="`kvbound policies` lists them; or FILE.py with one's own")
    ],
    objective: ObjectiveOption = "total-flow-time",
    handling: HandlingOption = "as-given",
    window: WindowOption = None,
    predictions: Annotated[
        str, typer.Option(metavar="TEXT", help="what policies believe: exact, noise:P, types or bins:NxW")
    ] = "exact",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="of the noise")] = 0,
    schedule: ScheduleOption = None,
    trace: TraceOption = None,
    json: JsonOption = None,
) -> int:
    """Run schedulers that people use; each schedule is executed by the referee."""
    check_writable(schedule, trace, json)
    loaded = load(instance)
    names = policy_names(policy)
    stop = None if window is None else fraction("--window", window)
    if schedule is not None and len(names) > 1:
        raise BadInput(f"--schedule takes the schedule of one policy, {len(names)} are run")
    runs, interrupted = until_interrupted(
        run_one(loaded, name, objective, handling, stop, strict=policy != "all", predictions=predictions, seed=seed)
        for name in names
    )
    if schedule is not None and runs and runs[0].schedule is not None:
        write_text(schedule, runs[0].schedule.to_json())
    if trace is not None:
        write_trace_events(trace, [(run.row["policy"], run.trace) for run in runs if run.trace is not None])
    emit(json, {"rows": [run.row for run in runs]}, lambda console: show_runs(console, runs, len(loaded.requests)))
    return EXIT_INTERRUPTED if interrupted else 0


@dataclass(frozen=True)
class Simulation:
    """One policy on one instance: its row, and its schedule (None: it could not run)."""

    row: dict[str, Any]
    schedule: Schedule | None = None
    trace: Trace | None = None


def run_one(
    instance: Instance,
    policy: str,
    objective: str,
    handling: str,
    window: Fraction | None,
    *,
    strict: bool,
    predictions: str = "exact",
    seed: int = 0,
) -> Simulation:
    """Run a policy; what keeps it from running is raised if `strict`, and else stands in its row under `error`."""
    from heuristics import PolicyError, Unsuited
    from solvers import simulate_policy

    try:
        with working(f"{policy} on {instance.name}"):
            result = simulate_policy(instance, policy, objective, handling=handling, predictions=predictions, seed=seed)
    except (PolicyError, Unsuited) as error:
        if strict:
            raise
        freed = instance.with_free_calls() if handling == "free" else instance
        row = Result(freed, objective, policy=policy, extra={"error": str(error)}).to_json()
        return Simulation(row)
    assert result.trace is not None  # for mypy: a policy ends with a schedule or an error
    row = {**result.to_json(), "measures": summary(result.trace, window)}
    return Simulation(row, result.schedule, result.trace)


def until_interrupted(runs: Iterable[Simulation]) -> tuple[list[Simulation], bool]:
    """Return what comes until Ctrl-C (or SIGTERM), and whether that came."""
    made: list[Simulation] = []
    try:
        for run in runs:
            made.append(run)
    except KeyboardInterrupt:
        return made, True
    return made, False


def show_runs(console: Console, runs: Sequence[Simulation], requests: int) -> None:
    """Print the values, and what is measured if there are more than a few requests."""
    few = requests <= FEW
    cells = [
        (
            row["policy"], row["value"], row["mean"] if few else decimal(row["mean"]),
            in_seconds(row["mean"] if row["mean"] is not None else row["value"], row),
            *([row.get("error") or _completions(row["completion"]), handling_text(row)] if few else [row.get("error")]),
        )
        for row in (run.row for run in runs)
    ]  # fmt: skip
    console.print(table(COLUMNS if few else (*COLUMNS[:4], ""), cells, right=(1, 2, 3)))
    measured = [(run.row["policy"], run.row["measures"]) for run in runs if "measures" in run.row]
    if not few and measured:
        for made in (times_table(measured), work_table(measured)):
            console.print()
            console.print(made)


def decimal(text: str | None) -> str | None:
    """Write a fraction for people."""
    return None if text is None else f"{float(Fraction(text)):.4g}"


def policy_names(text: str) -> list[str]:
    """Return the policies that a comma-separated list (or `all`) names; BadInput for an unknown one."""
    from heuristics import POLICIES, get_policy

    if text == "all":
        return list(POLICIES)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        get_policy(name)
    return names


def _completions(completion: dict[str, int]) -> str:
    return ", ".join(f"{id} {tick}" for id, tick in completion.items())
