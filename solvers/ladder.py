"""The ladder of bounds as a result, and what a certificate adds to the result of a solve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bounds
import kvcore
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import Horizon, Result, SolverInfo
from solvers.task import Bound, Done, Progress, Send, Task

CERTIFY = 10.0
"""The fewest seconds that a certificate of a claim gets where there is no time limit."""


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; certificates are sent as they come."""
    rungs = bounds.climb(
        task.instance, task.objective, time_limit=task.time_limit, upper=task.upper_bound, without=task.beside,
        found=lambda certificate: send(Bound(certificate.value, "certificate", certificate)),
    )  # fmt: skip
    list(rungs)
    return Done("time limit", kvcore.__version__)


def climb(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = bounds.ladder.TIME_LIMIT,
    upper: Value | None = None,
    progress: Progress | None = None,
) -> Result:
    """Return the best bound of the ladder as a result; Ctrl-C ends it with what was proved so far.

    `upper` is the value of a schedule, which some methods use; `time_limit` is in seconds, for all methods together.
    """
    rungs: list[bounds.Rung] = []
    stopped = "ended"
    try:
        for rung in bounds.climb(instance, objective, method=method, time_limit=time_limit, upper=upper):
            rungs.append(rung)
            known = [rung.bound for rung in rungs if rung.bound is not None]
            if progress is not None:
                progress(upper, max(known, default=None), sum(rung.seconds for rung in rungs))
    except KeyboardInterrupt:
        stopped = "interrupted"
    proved = [rung for rung in rungs if rung.bound is not None]
    best = max(proved, key=lambda rung: rung.bound or 0, default=bounds.Rung(method, 0.0))
    gone = bounds.GONE.get(method)
    chosen = {} if gone is None else {"chosen": f"{method} is no method any more; {gone} stands for it"}
    return Result(
        instance,
        objective,
        bound=best.bound,
        bound_kind=None if best.certificate is None else "certificate",
        horizon=None if best.certificate is None else Horizon(0, True, best.certificate.horizon),
        proved_by=None if best.certificate is None else best.method,
        formulation=best.method,
        solver=SolverInfo("bounds", kvcore.__version__),
        seconds=sum(rung.seconds for rung in rungs),
        stopped=stopped,
        certificate=best.certificate,
        extra={"ladder": [_rung(rung, objective) for rung in rungs], **chosen},
    )


def with_certificate(result: Result, time_limit: float, progress: Progress | None = None) -> Result:
    """Return the result with the best certificate that the ladder finds in the time, and its bound if that is as good.

    Nothing is tried where the value is certified, or the bound by more than `alone`. `extra["certifying_seconds"]` says
    what it took, of all `seconds`. Raises Contradiction if a certificate is above the value.
    """
    if result.status == "optimal" or (result.bound_kind == "certificate" and result.proved_by != "alone"):
        return result
    climbed = climb(result.instance, result.objective, time_limit=time_limit, upper=result.value, progress=progress)
    best = max((r for r in (result, climbed) if r.certificate), key=lambda r: r.certified_bound or 0, default=climbed)
    took = {"certifying_seconds": round(climbed.seconds, 3), "ladder": climbed.extra["ladder"]}
    certified = replace(
        result, certificate=best.certificate, seconds=result.seconds + climbed.seconds, extra=result.extra | took,
        stopped="interrupted" if climbed.stopped == "interrupted" else result.stopped,
    )  # fmt: skip
    if (
        best is not climbed
        or climbed.bound is None
        or (result.bound_of_all is not None and climbed.bound < result.bound_of_all)
    ):
        return certified
    bound, horizon, by = climbed.bound, climbed.horizon, climbed.proved_by
    return replace(certified, bound=bound, bound_kind="certificate", horizon=horizon, proved_by=by)


def _rung(rung: bounds.Rung, objective: str) -> dict[str, Any]:
    value = None if rung.bound is None else str(rung.bound) if objective == "normalized-latency" else int(rung.bound)
    why = rung.why_not if rung.certificate is None else rung.certificate.why
    drops = bounds.METHODS[rung.method].drops
    return {"method": rung.method, "bound": value, "seconds": round(rung.seconds, 3), "drops": drops, "why": why}
