"""The ladder of bounds: as a way of the driver, and as a result of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bounds
import kvcore
from kvcore.certificates import Certificate
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import Horizon, Result, SolverInfo, number
from kvcore.schedule import Schedule
from solvers.option_names import takes_options
from solvers.task import NEWS, Bound, Done, Found, Progress, Send, Task, Tried


def run(task: Task, send: Send) -> Done:
    """Carry out a task in a worker process; certificates are sent as they come, and what each method came to."""

    def found(method: str, what: Certificate | Schedule) -> None:
        send(Found(what, None) if isinstance(what, Schedule) else Bound(what.value, "certificate", what, method))

    rungs = bounds.climb(
        task.instance, task.objective, time_limit=task.time_limit, upper=task.upper_bound, without=task.beside,
        news=lambda: NEWS.value, found=found,
    )  # fmt: skip
    for rung in rungs:
        send(Tried(_rung(rung, task.objective)))
    return Done("time limit")


@takes_options
def climb(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    method: str = "auto",
    time_limit: float = 60.0,
    upper: Value | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Return the best bound of the ladder as a result; Ctrl-C ends it with what was proved so far.

    `upper` is the value of a schedule, which some methods use; `time_limit` is in seconds, for all methods together.
    `options` are as in `solve`.
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
    named = {"options": options} if options else {}
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
        extra={"ladder": [_rung(rung, objective) for rung in rungs], **chosen, **named},
    )


def _rung(rung: bounds.Rung, objective: str) -> dict[str, Any]:
    why = rung.why_not if rung.certificate is None else rung.certificate.why
    bound, drops = number(rung.bound, objective), bounds.METHODS[rung.method].drops
    return {"method": rung.method, "bound": bound, "seconds": round(rung.seconds, 3), "drops": drops, "why": why}
