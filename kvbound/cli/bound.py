"""`kvbound bound`: what no schedule can beat, with a certificate that anyone can check."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

import kvcore
from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import (
    CertificateOption,
    HandlingOption,
    InstanceArgument,
    JsonOption,
    ObjectiveOption,
    emit,
    load,
    table,
)
from kvbound.cli.progress import SolveProgress
from kvcore.files import check_writable, write_text
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import Horizon, Result, SolverInfo


def bound(
    instance: InstanceArgument,
    objective: ObjectiveOption = "total-flow-time",
    handling: HandlingOption = "as-given",
    method: Annotated[str, typer.Option(metavar="auto|NAME", help="docs/bounds.md has them all")] = "auto",
    time_limit: Annotated[float, typer.Option(min=0.1, metavar="S", help="seconds, for all methods together")] = 60,
    certificate: CertificateOption = None,
    json: JsonOption = None,
) -> int:
    """Prove a lower bound that scales: a ladder of relaxations, each with a certificate."""
    import solvers

    check_writable(certificate, json)
    loaded = solvers.free_calls(load(instance), handling)
    result = climb(loaded, objective, method=method, time_limit=time_limit)
    if certificate is not None and result.certificate is not None:
        write_text(certificate, result.certificate.to_json())
    emit(json, result.to_json(), lambda console: _show(result, console))
    return EXIT_INTERRUPTED if result.stopped == "interrupted" else 0


def climb(
    instance: Instance,
    objective: str,
    *,
    method: str = "auto",
    time_limit: float,
    upper: Value | None = None,
) -> Result:
    """Return the best bound of the ladder as a result; Ctrl-C ends it with what was proved so far."""
    import bounds

    rungs: list[bounds.Rung] = []
    stopped = "ended"
    with SolveProgress(f"bounding {instance.name}") as progress:
        try:
            for rung in bounds.climb(instance, objective, method=method, time_limit=time_limit, upper=upper):
                rungs.append(rung)
                known = [rung.bound for rung in rungs if rung.bound is not None]
                progress(upper, max(known, default=None), sum(rung.seconds for rung in rungs))
        except KeyboardInterrupt:
            stopped = "interrupted"
    proved = [rung for rung in rungs if rung.bound is not None]
    best = max(proved, key=lambda rung: rung.bound or 0, default=bounds.Rung(method, 0.0))
    return Result(
        instance,
        objective,
        bound=best.bound,
        bound_kind=None if best.certificate is None else "certificate",
        horizon=None if best.certificate is None else Horizon(0, True, best.certificate.horizon),
        formulation=best.method,
        solver=SolverInfo("bounds", kvcore.__version__),
        seconds=sum(rung.seconds for rung in rungs),
        stopped=stopped,
        certificate=best.certificate,
        extra={"ladder": [_rung(rung, objective) for rung in rungs]},
    )


def _rung(rung: Any, objective: str) -> dict[str, Any]:
    import bounds

    value = None if rung.bound is None else str(rung.bound) if objective == "normalized-latency" else int(rung.bound)
    why = rung.why_not if rung.certificate is None else rung.certificate.why
    drops = bounds.METHODS[rung.method].drops
    return {"method": rung.method, "bound": value, "seconds": round(rung.seconds, 3), "drops": drops, "why": why}


def _show(result: Result, console: Console) -> None:
    ladder = result.extra["ladder"]
    cells = [(rung["method"], rung["bound"], f"{rung['seconds']:.2f}", rung["why"]) for rung in ladder]
    console.print(f"{result.instance.name}, {result.objective}: no schedule is below", style="bold", soft_wrap=True)
    console.print(table(("method", "bound", "took, s", "why"), cells, right=(1, 2)))
    if result.bound is not None:
        console.print(f"the best, {result.bound}, is by {result.formulation}; --certificate FILE writes its proof")
