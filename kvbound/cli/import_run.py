"""`kvbound import run`."""

import sys
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from heuristics import get_policy, trace_policy
from heuristics.as_logged import TOLERATED, LoggedRun, read_run
from kvbound.cli.common import OUT, JsonOption, TimeLimitOption, emit, option, table
from kvbound.cli.instances import show_instance
from kvbound.cli.progress import LiveLine, SolveProgress, load_instance
from kvbound.cli.setting import NO_COST, CostSetting, takes_setting
from kvbound.cli.verify import show_invalid
from kvbound.units import units_of
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.metrics import evictions, makespan, measures, objective_value, total_flow_time
from kvcore.parameters import optional_fraction
from kvcore.referee import InvalidSchedule
from workloads.importers import Selection, read_map, read_requests
from workloads.importers.azure import MACHINE as TRACE_MACHINE
from workloads.importers.measured import FORMS, MeasuredRun, form_of, read_measured
from workloads.importers.run_log import PRESETS

IN_TICKS = ("early", "late")  # the differences whose size is a time; that of others is in tokens


@takes_setting
def run(
    log: Annotated[str, typer.Argument(metavar="LOG", help="CSV or JSON lines, .gz too; docs/runs.md")],
    out: Annotated[str, option("S.json", "the schedule to write, of times the instance (-: standard output)", *OUT)],
    setting: CostSetting,
    instance: Annotated[str | None, option("I.json", "what it was run on: a file or a name")] = None,
    requests: Annotated[
        str | None, option("FILE", "instead: its requests, CSV or .jsonl, read as by import csv")
    ] = None,
    map_: Annotated[str | None, option("KEY=COLUMN,..", "its columns", "--map")] = None,
    instance_out: Annotated[str | None, option("I.json", "write the instance of --requests")] = None,
    take: Annotated[int | None, option("N", "the first N of --requests or of times (default: all)", min=1)] = None,
    slo_latency: Annotated[str | None, option("S", "of each of --requests: seconds to its last token")] = None,
    slo_ttft: Annotated[str | None, option("S", "the same: seconds to its first token")] = None,
    slo_tpot: Annotated[str | None, option("S", "the same: seconds a token after the first")] = None,
    preset: Annotated[
        str | None, option("|".join((*PRESETS, *FORMS)), "who wrote the log (default: by its columns)")
    ] = None,
    tolerate: Annotated[
        bool, typer.Option("--tolerate", help="count differences, and time the batches by the cost model")
    ] = False,
    time_limit: TimeLimitOption = 60,
    json: JsonOption = None,
) -> int:
    """Read what another scheduler did, iteration by iteration, as a schedule; or name the first rule that is broken.

    Of a simulator's times of requests: say how far they are above certified bounds.
    """
    check_writable(out, json, instance_out)
    slos = {"latency": slo_latency, "ttft": slo_ttft, "tpot": slo_tpot}
    if form := preset if preset in FORMS else form_of(log) if preset is None else None:
        if instance or requests or map_ or instance_out or tolerate or any(slos.values()):
            raise BadInput(f"{log} has times of requests ({form}): give only --take, --time-limit and the machine")
        with LiveLine(f"reading {log}"):
            machine = setting.machine(TRACE_MACHINE)
            measured = read_measured(log, form, machine=machine, take=take, tick=setting.tick, cost=setting.cost)
        return _bound(measured, out, time_limit or 60, setting, json)
    if instance is not None:
        if requests or map_ or instance_out or setting.given or take or any(slos.values()):
            raise BadInput(
                "--instance says all: leave out --requests, --map, --take, --slo-.., --instance-out and the machine"
            )
        loaded = load_instance(instance)
    elif requests is None or map_ is None:
        raise BadInput("say what it was run on: --instance I.json, or --requests FILE with --map")
    else:
        kind = "jsonl" if requests.removesuffix(".gz").endswith(".jsonl") else "csv"
        latency, ttft, tpot = (optional_fraction(f"--slo-{name}", value) for name, value in slos.items())
        selection = Selection(take=take, slo_latency=latency, slo_ttft=ttft, slo_tpot=tpot)
        trace = read_requests(requests, read_map(map_), kind=kind, selection=selection, tick=setting.tick)
        loaded = trace.instance(setting.machine(TRACE_MACHINE), setting.tick, setting.cost)
        if instance_out is not None:
            write_text(instance_out, loaded.to_json())
    try:
        with LiveLine(f"reading {log}"):
            found = read_run(loaded, log, preset, tolerate=tolerate)
    except InvalidSchedule as broken:
        hint = "" if tolerate else "; --tolerate counts such differences, unless a limit of the machine is broken"
        return show_invalid(loaded, broken, json, hint)
    write_text(out, found.schedule.to_json())
    largest, last = map(float, found.start_differences)
    payload = {
        "valid": True, "instance": loaded.name, "instance_sha256": loaded.sha256, "schedule": out,
        "tick_seconds": str(loaded.tick_seconds), "tolerated": {k: asdict(v) for k, v in found.differences.items()},
        "evictions": evictions(found.trace), "evictions_from_restarts": found.restarts,
        "start_difference_seconds": {"largest": largest, "last": last}, **measures(found.trace),
    }  # fmt: skip
    if out != "-":
        emit(json, payload, lambda console: _show(found, console))
    return 0


def _bound(run: MeasuredRun, out: str, time_limit: float, setting: CostSetting, json: str | None) -> int:
    from solvers.dual_bound import best_bound

    instance, rows = run.instance, list[dict[str, Any]]()
    write_text(out, instance.to_json())
    simple = trace_policy(instance, get_policy("fcfs"))  # a bound that reaches it need not rise
    for objective, seconds in run.seconds.items():
        with SolveProgress(f"bounding {objective}", partial(units_of(instance).named, objective=objective)) as progress:
            found = best_bound(
                instance, objective, time_limit=time_limit / len(run.seconds), progress=progress,
                upper=objective_value(simple, objective),
            )  # fmt: skip
        least = (found.certified_bound or 0) * instance.tick_seconds
        rows.append({
            "objective": objective, "measured_seconds": float(seconds), "certified_bound_seconds": float(least),
            "above": float(seconds / least - 1) if least else None, "proved_by": found.proved_by,
        })  # fmt: skip
    payload = {
        "instance": instance.name, "instance_sha256": instance.sha256, "requests": len(instance.requests),
        "rows": rows, "notes": run.notes,
    }  # fmt: skip
    if out != "-":
        emit(json, payload, lambda console: _show_gaps(run, rows, console))
    for note in [*run.notes, *[NO_COST] * setting.assumed]:
        print(f"kvbound: {note}", file=sys.stderr)
    return 0


MEANS = {"total-flow-time": "mean latency", "total-ttft": "mean TTFT"}


def _show_gaps(run: MeasuredRun, rows: list[dict[str, Any]], console: Console) -> None:
    count = len(run.instance.requests)
    show_instance(run.instance, console)
    for row in rows:
        measured, least = (row[key] / count for key in ("measured_seconds", "certified_bound_seconds"))
        console.print(f"{MEANS[row['objective']]} {measured:.6g} s: {_gap(row['above'], least)}", soft_wrap=True)


def _gap(above: float | None, least: float) -> str:
    if above is None:
        return "no bound is proved"
    if above < 0:
        return f"below the certified bound of the model, {least:.6g} s: the run has faster batches or another machine"
    return f"{100 * above:,.1f} % above a certified bound: no schedule of the model is below {least:.6g} s"


def _show(found: LoggedRun, console: Console) -> None:
    instance, trace = found.instance, found.trace
    read = f", read from restarts: {found.restarts}" if found.restarts else ""
    done = f"{len(trace.batches)} batches, every request done; evictions: {evictions(trace)}"
    console.print(f"{instance.name}: {done}{read}", soft_wrap=True)
    tick, mean = instance.tick_seconds, Fraction(total_flow_time(trace), len(instance.requests))
    console.print(f"mean latency {float(mean * tick):.6g} s, makespan {float(makespan(trace) * tick):.6g} s")
    if not found.differences:
        return
    rows = [
        (
            what,
            one.count,
            one.first_batch,
            f"{float(one.largest * tick):.6g} s" if kind in IN_TICKS else one.largest or None,
        )
        for kind, what in TOLERATED.items()
        if (one := found.differences.get(kind)) is not None
    ]
    console.print(table(("tolerated", "times", "first batch", "largest"), rows, right=(1, 2, 3)))
    largest, last = map(float, found.start_differences)
    console.print(f"starts in the log and the schedule are at most {largest:.3g} s apart, the last {last:.3g} s")
