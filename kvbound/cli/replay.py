"""`kvbound replay`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from costmodels import get_cost
from costmodels.cost_files import read_cost
from costmodels.models import Model, get_model
from costmodels.retime import with_cost
from kvbound.cli import EXIT_FAILED, EXIT_INTERRUPTED, common
from kvbound.cli.calibrate import capacity_of, choose_points
from kvbound.cli.common import emit, option, table
from kvbound.cli.gpu import BackendOption, DeviceOption, DtypeOption, get_backend, get_dtype
from kvbound.cli.progress import LiveLine, drawing, load_instance
from kvbound.plots import plot_replay
from kvbound.simulation import match_handling
from kvbound.tables import percent, title
from kvcore.cost_file import CostFile
from kvcore.errors import BadInput
from kvcore.files import check_writable, read_schedule
from kvcore.instance import Instance
from kvcore.metrics import check_objective
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import Stop
from kvcore.trace import Trace

if TYPE_CHECKING:
    from gpu_validation.calibration import Timings
    from gpu_validation.engine import Engine

TIMES = ("makespan", "busy-time", "total-flow-time", "weighted-flow-time", "max-flow-time", "total-ttft")
OPTIMUM = "optimum"
ROUNDS = {"cuda": (7, 3), "cpu": (5, 1)}  # rounds that are measured, and rounds before them, by device


def replay(
    instance: common.InstanceArgument,
    schedules: Annotated[
        list[str], typer.Argument(metavar="SCHEDULE..", help="files, policies, `optimum`; NAME@OTHER: on another one")
    ],
    objective: common.ObjectiveOption = "total-flow-time",
    handling: common.HandlingOption = "as-given",
    cost: Annotated[str | None, option("COST", "predict by this cost, not the instance's")] = None,
    model: Annotated[str | None, option("NAME", "(default: of the cost file, or 1B; CPU: small)")] = None,
    device: DeviceOption = "cuda",
    backend: BackendOption = None,
    dtype: DtypeOption = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="predict by batches timed in turn with the schedules")
    ] = False,
    repeats: Annotated[int | None, option("N", "measured rounds (default: 7, CPU: 5)", min=1, max=1000)] = None,
    warm_up: Annotated[int | None, option("N", "rounds before them (default: 3, CPU: 1)", min=0, max=1000)] = None,
    time_limit: Annotated[float, option("S", "seconds to find `optimum` in", min=0.1)] = 60.0,
    seed: Annotated[int, option("N", "of the weights and the prompts", min=0)] = 0,
    plot: common.PlotOption = None,
    json: common.JsonOption = None,
) -> int:
    """Execute schedules batch by batch on an engine; compare what was predicted with what was measured."""
    check_writable(plot, json)
    if check_objective(objective) not in TIMES:
        raise BadInput(f"replay measures times, not {objective}; choose one of {', '.join(TIMES)}")
    file = None if cost is None or not cost.endswith(".json") else read_cost(cost)
    shape = shape_of(model, file, cost, device)
    opened, kernels = get_backend(device, backend)
    from gpu_validation.measure import facts, watched

    given = load_instance(instance)
    loaded = given
    if cost is not None:
        chosen = get_cost(cost)
        loaded = with_cost(given, chosen.make(), chosen.tick)
    where = facts(opened.device)
    if not calibrate and (fitted := fitted_on(cost, file)) != where["device"]:
        typer.echo(f"note: the predicted times are of {fitted}, and this is {where['device']}: calibrate it", err=True)
    traces: dict[str, Trace] = {}
    for name in schedules:
        try:
            label, trace = named(name, given, loaded, objective, handling, time_limit)
        except InvalidSchedule as broken:
            return refuse(name, broken, json)
        if label in traces:
            raise BadInput(f"the schedule {label} is given twice")
        traces[label] = trace

    if not calibrate:
        for note in notes(cost, file, traces):
            typer.echo(f"note: {note}", err=True)
    from gpu_validation.engine import Engine
    from gpu_validation.replay import execute, report

    engine = Engine(shape, opened, dtype=get_dtype(dtype, opened.device), seed=seed)
    with LiveLine("replaying") as line:
        rounds = (repeats or ROUNDS[device][0], ROUNDS[device][1] if warm_up is None else warm_up)
        timings = timed_beside(engine, loaded.machine.block, seed) if calibrate else None
        with watched(opened.device) as clocks:
            replays, runs = execute(engine, traces, loaded.cost, loaded.tick_seconds, *rounds, timings, line.part)
    payload = {
        "instance": loaded.name, "model": shape.name, "backend": kernels,
        "dtype": str(engine.dtype).removeprefix("torch."), **where, **clocks,
        **report(replays, objective, runs),
    }  # fmt: skip
    batches = {r.name: ([float(p) for p in r.predicted], r.measured.tolist()) for r in replays}
    drawn = drawing(lambda file: plot_replay(payload, batches, path=file))
    emit(json, payload, lambda console: show(console, payload), (plot, drawn))
    return EXIT_INTERRUPTED if len(replays[0].rounds) < rounds[0] else 0


def shape_of(model: str | None, file: CostFile | None, cost: str | None, device: str) -> Model:
    """Return the named model, or that of the cost file, or the usual one of the device.

    BadInput where the cost file is of another model than the one named.
    """
    measured = None if file is None else file.model
    if model is not None and measured not in (None, model):
        raise BadInput(f"{cost} was measured with {measured}, not with {model}; leave --model out, or calibrate it")
    return get_model(model or measured or ("small" if device == "cpu" else "llama-3.2-1b"))


def fitted_on(cost: str | None, file: CostFile | None) -> str:
    """Return the device of a fitted cost, or what else the cost is."""
    if file is None:
        return f"the cost {cost}" if cost else "the instance's own cost"
    return str((file.device or {}).get("device", f"{cost}, which names no device"))


def notes(cost: str | None, file: CostFile | None, traces: Mapping[str, Trace]) -> Iterator[str]:
    """Say where batches differ from those of a fitted cost: larger ones, or in other blocks."""
    if file is None or not file.observations:
        return
    from gpu_validation.replay import beyond

    seen = [one.features for one in file.observations]
    for name, trace in traces.items():
        if outside := beyond(trace, seen):
            yield f"{name}: {outside} of {len(trace.batches)} batches are larger than any that {cost} was fitted to"
    blocks = {trace.instance.machine.block for trace in traces.values()}
    if file.machine is not None and blocks != {file.machine.block}:
        asked = f"--block {min(blocks - {file.machine.block})}"
        yield f"{cost} was fitted in blocks of {file.machine.block} tokens: calibrate with {asked}"


def timed_beside(engine: Engine, block: int, seed: int) -> Timings:
    """Return the grid of the device (on a GPU the coarser one) to be timed in turn with schedules."""
    from gpu_validation.calibration import Timings

    quick = engine.device.type == "cuda"
    return Timings(engine, choose_points(engine, capacity_of(engine, None, block), quick, block), 1, seed, block)


def refuse(name: str, broken: InvalidSchedule, json: str | None) -> int:
    """Say which rule a schedule file breaks; return the exit code."""
    facts = {"valid": False, "schedule": name, "detail": str(broken)}
    emit(json, facts, lambda console: console.print(f"invalid: {name}: {broken}", soft_wrap=True))
    return EXIT_FAILED


def named(
    name: str, given: Instance, loaded: Instance, objective: str, handling: str, time_limit: float
) -> tuple[str, Trace]:
    """Return a schedule by file, by policy, or the best there is, executed by the referee, and its label.

    A file is for the instance as `given`, or at the cost of the prediction (`loaded`). NAME@OTHER is another instance's
    schedule, taken at that cost.
    """
    from solvers import simulate_policy, solve

    name, _, other = name.partition("@")
    if other:
        theirs = with_cost(load_instance(other), loaded.cost, loaded.tick_seconds)
        label, trace = named(name, theirs, theirs, objective, handling, time_limit)
        return f"{label}@{other}", trace
    if Path(name).is_file():
        schedule = read_schedule(name)
        matching = match_handling(loaded, schedule.instance_sha256)
        if matching.sha256 != schedule.instance_sha256:
            matching = match_handling(given, schedule.instance_sha256)
        return Path(name).stem, verify_schedule(matching, schedule)
    with LiveLine(f"{name} on {loaded.name}"):
        if name != OPTIMUM:
            result = simulate_policy(loaded, name, objective, handling=handling)
            assert result.trace is not None  # for mypy: a policy ends with a schedule or an error
            return name, result.trace
        result = solve(loaded, objective, handling=handling, time_limit=time_limit)
        if result.stopped == Stop.INTERRUPTED:
            raise KeyboardInterrupt
    if result.trace is None:
        raise BadInput(f"optimum: no schedule was found in {time_limit:g} s; give --time-limit")
    return title(result), result.trace


def show(console: Console, payload: Mapping[str, Any]) -> None:
    """Print a line for each schedule, then the ranking and the gains."""
    console.print(
        f"{payload['instance']} on {payload['device']}: {payload['model']}, {payload['dtype']}, {payload['backend']}"
    )
    columns = ("schedule", "batches", "predicted, s", "measured, s", "error", "a batch: mean", "p95", "worst", "tokens")
    cells = [
        [
            row["schedule"], row["batches"], f"{row['predicted']:.6g}", f"{row['measured']:.6g}",
            *(percent(share, 2) for share in (row["error"], row["mape"], row["p95"], row["worst"]["error"])),
            "same" if row["same_tokens"] else "differ",
        ]
        for row in payload["rows"]
    ]  # fmt: skip
    console.print(table(columns, cells, right=range(1, 8)))
    console.print(f"{payload['objective']}; error: (predicted - measured) / measured; a batch: its absolute errors")
    ranking = payload["ranking"]
    if ranking["pairs"]:
        console.print(
            f"the order is the predicted one in {ranking['right']} of {len(ranking['pairs'])} pairs of the "
            f"{ranking['distinct']} distinct schedules (Kendall's tau {payload['kendall_tau']:.2f}); the one predicted "
            f"to be best takes {percent(payload['regret'], 2)} more than the best"
        )
    for gain in payload["gains"]:
        if gain["schedule"] != gain["over"]:
            console.print(
                f"{gain['schedule']} takes {gain['predicted']:.3f} times as long as {gain['over']} by the model, "
                f"{gain['measured']:.3f} times as measured"
            )
