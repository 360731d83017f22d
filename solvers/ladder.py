"""The ladder of bounds as a result, and what a certificate adds to the result of a solve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import bounds
import kvcore
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import Horizon, Result, SolverInfo
from solvers.driver import Progress


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


def with_certificate(result: Result, time_limit: float, progress: Progress | None = None) -> Result:
    """Return the result with the best certificate of its bound that the ladder of `bounds` finds in the time."""
    if result.certificate is not None and result.certificate.value == result.bound and result.formulation != "alone":
        return result
    climbed = climb(result.instance, result.objective, time_limit=time_limit, upper=result.value, progress=progress)
    return stronger(result, climbed)


def stronger(result: Result, climbed: Result) -> Result:
    """Return the result with the bound of `climbed` where that is better, and the better certificate."""
    known = [r.certificate for r in (result, climbed) if r.certificate is not None]
    best = max(known, key=lambda certificate: certificate.value, default=None)
    if best is not None and result.value is not None and best.value > result.value:
        raise RuntimeError(
            f"a certificate of {best.value} and a schedule of {result.value} contradict: please report it"
        )
    if climbed.stopped == "interrupted":
        result = replace(result, stopped="interrupted")
    extra = result.extra | {"ladder": climbed.extra["ladder"]}
    if best is None or (result.bound is not None and best.value < result.bound):
        return replace(result, certificate=best, extra=extra)
    horizon = Horizon(0, True, best.horizon)
    return replace(result, bound=best.value, bound_kind="certificate", horizon=horizon, certificate=best, extra=extra)


def _rung(rung: bounds.Rung, objective: str) -> dict[str, Any]:
    value = None if rung.bound is None else str(rung.bound) if objective == "normalized-latency" else int(rung.bound)
    why = rung.why_not if rung.certificate is None else rung.certificate.why
    drops = bounds.METHODS[rung.method].drops
    return {"method": rung.method, "bound": value, "seconds": round(rung.seconds, 3), "drops": drops, "why": why}
