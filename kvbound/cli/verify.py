"""`kvbound verify`."""

from typing import Annotated

from rich.console import Console

from kvbound.cli import EXIT_FAILED
from kvbound.cli.common import InstanceArgument, JsonOption, PlotOption, ProvedOption, emit, option, table
from kvbound.cli.progress import LiveLine, drawing, load_instance
from kvbound.machine_checked import OBJECTIVES as VALUES
from kvbound.machine_checked import judge, verify_certificate
from kvbound.plots import compare_schedules
from kvbound.simulation import match_handling
from kvbound.units import units_of
from kvcore import InvalidSchedule, Trace, handlings, measures, verify_schedule
from kvcore.certificates import InvalidCertificate, read_certificate
from kvcore.errors import BadInput
from kvcore.files import check_writable, read_schedule
from kvcore.instance import Instance
from kvcore.metrics import OBJECTIVES, TAILS

CHECKED = ", machine-checked"


def verify(
    instance: InstanceArgument,
    schedule: Annotated[str | None, option("S.json", "a schedule file")] = None,
    certificate: Annotated[str | None, option("C.json", "the certificate of a bound")] = None,
    proved: ProvedOption = False,
    plot: PlotOption = None,
    json: JsonOption = None,
) -> int:
    """Execute a schedule exactly, or recompute what a certificate proves; no solver is called."""
    check_writable(plot, json)
    if (schedule is None) == (certificate is None):
        raise BadInput("verify takes --schedule S.json or --certificate C.json, one of them")
    if certificate is not None:
        return _certificate(instance, certificate, plot, json, proved)
    assert schedule is not None
    judged = read_schedule(schedule)
    loaded = match_handling(load_instance(instance), judged.instance_sha256)
    try:
        with LiveLine(f"executing {schedule}"):
            trace = verify_schedule(loaded, judged)
    except InvalidSchedule as broken:
        return show_invalid(loaded, broken, json)
    measured = measures(trace)
    if proved and (said := judge(loaded, judged)) != {name: measured[name] for name in VALUES}:
        raise AssertionError(f"the referee proved in Coq differs: {said}")
    payload = {"valid": True, "instance": loaded.name, "instance_sha256": loaded.sha256, **measured}
    payload |= {"machine_checked": True} if proved else {}
    drawn = drawing(lambda file: compare_schedules([(loaded.name, trace)], path=file))
    emit(json, {**payload, "handling": handlings(trace)}, lambda console: _show(trace, console, proved), (plot, drawn))
    return 0


def show_invalid(instance: Instance, broken: InvalidSchedule, json: str | None, hint: str = "") -> int:
    """Say which rule a schedule breaks, and return the exit code; `hint` is for people only."""
    facts = {"rule": f"R{broken.rule}", "batch": broken.batch, "request": broken.request, "detail": broken.detail}
    bare = broken.rule > 2 or instance.tick_seconds == 1  # the first two are about times
    tick = "" if bare else f" (in ticks of {float(instance.tick_seconds):g} s)"
    line = f"invalid: {broken}{tick}{hint}"
    emit(
        json, {"valid": False, "instance": instance.name, **facts}, lambda console: console.print(line, soft_wrap=True)
    )
    return EXIT_FAILED


def _certificate(instance: str, file: str, plot: str | None, json: str | None, proved: bool) -> int:
    if plot is not None:
        raise BadInput("--plot draws a schedule; a certificate has none")
    judged = read_certificate(file)
    loaded = match_handling(load_instance(instance), judged.instance_sha256)
    facts = {"instance": loaded.name, "objective": judged.objective, "claimed": judged.bound}
    try:
        with LiveLine(f"checking {file}"):
            bound = verify_certificate(loaded, judged, proved=proved)
    except InvalidCertificate as broken:
        line = f"invalid: {broken}"
        emit(json, {"valid": False, **facts, "detail": str(broken)}, lambda console: console.print(line))
        return EXIT_FAILED
    payload = {"valid": True, **facts, "bound": str(bound), "kind": judged.proof.kind, "why": judged.proof.why}
    payload |= {"machine_checked": True} if proved else {}
    least = units_of(loaded).named(bound, judged.objective)
    valid = f"valid{CHECKED if proved else ''}"
    line = f"{valid}: {judged.objective} of {loaded.name} is at least {least} ({judged.proof.why})"
    emit(json, payload, lambda console: console.print(line, soft_wrap=True))
    return 0


def _show(trace: Trace, console: Console, proved: bool) -> None:
    measured = measures(trace)
    console.print(f"valid{CHECKED if proved else ''}: {len(trace.batches)} batches, every request done")
    units = units_of(trace.instance)
    rows = [(f"{name}, {units.of(name)}", units.value(measured[name], name)) for name in (*OBJECTIVES, *TAILS)]
    names = ("peak_memory", "tokens_processed", "tokens_recomputed", "tokens_swapped_out", "tokens_swapped_in")
    rows += [(f"{name.replace('_', ' ')}, {units.kv}", f"{measured[name]:,}") for name in names]
    waste = f"memory waste, {units.kv} x {units.time}"
    rows += [(f"{waste}: {part}", units.text(ticks)) for part, ticks in measured["waste"].items()]
    console.print(table(("measure", "value"), rows, right=(1,)))
