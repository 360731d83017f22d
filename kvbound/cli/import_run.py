"""`kvbound import run`."""

from dataclasses import asdict
from fractions import Fraction
from typing import Annotated

import typer
from rich.console import Console

from heuristics.as_logged import TOLERATED, LoggedRun, read_run
from kvbound.cli.common import OUT, JsonOption, emit, option, table
from kvbound.cli.progress import LiveLine, load_instance
from kvbound.cli.setting import CostSetting, takes_setting
from kvbound.cli.verify import show_invalid
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.metrics import evictions, makespan, measures, total_flow_time
from kvcore.parameters import optional_fraction
from kvcore.referee import InvalidSchedule
from workloads.importers import Selection, read_map, read_requests
from workloads.importers.azure import MACHINE as TRACE_MACHINE
from workloads.importers.run_log import PRESETS

IN_TICKS = ("early", "late")  # the differences whose size is a time; that of others is in tokens


@takes_setting
def run(
    log: Annotated[str, typer.Argument(metavar="LOG", help="CSV or JSON lines, .gz too; docs/runs.md")],
    out: Annotated[str, option("S.json", "the schedule file to write (-: standard output)", *OUT)],
    setting: CostSetting,
    instance: Annotated[str | None, option("I.json", "what it was run on: a file or a name")] = None,
    requests: Annotated[
        str | None, option("FILE", "instead: its requests, CSV or .jsonl, read as by import csv")
    ] = None,
    map_: Annotated[str | None, option("KEY=COLUMN,..", "its columns", "--map")] = None,
    instance_out: Annotated[str | None, option("I.json", "write the instance of --requests")] = None,
    take: Annotated[int | None, option("N", "the first N of --requests (default: all)", min=1)] = None,
    slo_latency: Annotated[str | None, option("S", "of each of --requests: seconds to its last token")] = None,
    slo_ttft: Annotated[str | None, option("S", "the same: seconds to its first token")] = None,
    slo_tpot: Annotated[str | None, option("S", "the same: seconds a token after the first")] = None,
    preset: Annotated[
        str | None, option("|".join(PRESETS), "who wrote the log (default: the form of docs/runs.md)")
    ] = None,
    tolerate: Annotated[
        bool, typer.Option("--tolerate", help="count differences, and time the batches by the cost model")
    ] = False,
    json: JsonOption = None,
) -> int:
    """Read what another scheduler did, iteration by iteration, as a schedule; or name the first rule that is broken."""
    check_writable(out, json, instance_out)
    slos = {"latency": slo_latency, "ttft": slo_ttft, "tpot": slo_tpot}
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
