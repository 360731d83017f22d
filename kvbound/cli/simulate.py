"""`kvbound simulate`: run policies on an instance."""

from __future__ import annotations

from typing import Annotated

import typer

from kvbound.cli.common import (
    HandlingOption,
    InstanceArgument,
    JsonOption,
    ObjectiveOption,
    ScheduleOption,
    emit,
    handling_text,
    in_seconds,
    load,
    table,
)
from kvbound.errors import BadInput
from kvbound.files import check_writable, write_text

COLUMNS = ("policy", "value", "mean", "in seconds", "completions", "handling")


def simulate(
    instance: InstanceArgument,
    policy: Annotated[str, typer.Option(metavar="NAME[,NAME..]|all", help="`kvbound policies` lists them")],
    objective: ObjectiveOption = "total-flow-time",
    handling: HandlingOption = "as-given",
    predictions: Annotated[
        str, typer.Option(metavar="TEXT", help="what policies believe: exact, noise:P, types or bins:NxW")
    ] = "exact",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="of the noise")] = 0,
    schedule: ScheduleOption = None,
    json: JsonOption = None,
) -> None:
    """Run schedulers that people use; each schedule is executed by the referee."""
    from solvers import simulate_policy

    check_writable(schedule, json)
    loaded = load(instance)
    names = policy_names(policy)
    if schedule is not None and len(names) > 1:
        raise BadInput(f"--schedule takes the schedule of one policy, {len(names)} are run")
    results = [
        simulate_policy(loaded, name, objective, handling=handling, predictions=predictions, seed=seed)
        for name in names
    ]
    if schedule is not None and results[0].schedule is not None:
        write_text(schedule, results[0].schedule.to_json())
    rows = [result.to_json() for result in results]
    cells = [
        (
            row["policy"], row["value"], row["mean"],
            in_seconds(row["mean"] if row["mean"] is not None else row["value"], row),
            _completions(row["completion"]), handling_text(row),
        )
        for row in rows
    ]  # fmt: skip
    emit(json, {"rows": rows}, lambda console: console.print(table(COLUMNS, cells, right=(1, 2, 3))))


def policy_names(text: str) -> list[str]:
    """Return the policies that a comma-separated list (or `all`) names; BadInput for an unknown one."""
    from heuristics import POLICIES, get_policy

    if text == "all":
        return list(POLICIES)
    return [get_policy(name.strip()).name for name in text.split(",")]


def _completions(completion: dict[str, int]) -> str:
    shown = [f"{id} {tick}" for id, tick in list(completion.items())[:6]]
    return ", ".join(shown) + (" .." if len(completion) > 6 else "")
