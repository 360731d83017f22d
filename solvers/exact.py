"""The exact searches, whose proofs a checker runs again, in this process: over slots, batch boundaries, or starts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import cache

import bounds.task
import kvcore
from bounds import configurations, events, slot_solver
from bounds.task import Proposal
from heuristics import best_schedule
from kvcore.certificates import Alone, certify
from kvcore.certificates.certificate import HORIZON
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine, Request, Segment
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.result import Horizon, Result, SolverInfo
from kvcore.schedule import Schedule
from solvers.job import SolveOptions

CLIMBS: dict[str, Callable[[bounds.task.Task], Iterator[Proposal | Schedule]]] = {
    "slots": slot_solver.climb,
    "events": events.climb,
    "configurations": configurations.climb,
}
"""The searches by their names, in the order in which `exact` tries them where requests are few."""


def exact(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    start: Schedule | None = None,
    time_limit: float | None = None,
) -> Result:
    """Return the best schedule and the best bound of the exact searches: optimal if the two meet.

    `start` is a schedule to improve on (None: the best of a few policies), `time_limit` in seconds of the processor
    (None: no limit), of which compiling, the first time on a machine, is no part. What declines, or ends at a limit of
    its own, is under `extra["failed"]`. KeyboardInterrupt goes through.

    Raises BadInput for an unknown objective, and InvalidSchedule if `start` breaks a rule.
    """
    compile_searches()
    began, started = time.process_time(), time.monotonic()
    deadline = math.inf if time_limit is None else began + time_limit
    by, schedule = ("start", start) if start is not None else best_schedule(instance, objective)[:2]
    value = objective_value(verify_schedule(instance, schedule), objective)
    proved_by, certificate = "alone", certify(instance, objective, Alone())
    failed: list[str] = []
    many = len(instance.requests) > SolveOptions.given().few_exact
    for name, climb in sorted(CLIMBS.items(), key=lambda each: many and each[0] != "configurations"):
        if value == certificate.value or time.process_time() > deadline:
            break
        try:
            for found in climb(bounds.task.Task(instance, objective, deadline, value)):
                if isinstance(found, Schedule):
                    better = objective_value(verify_schedule(instance, found), objective)
                    if better < value:
                        by, schedule, value = name, found, better
                elif found.value is None or found.value > certificate.value:
                    proved_by, certificate = name, certify(instance, objective, *found)
                if value == certificate.value:
                    break
        except BadInput as error:
            failed.append(str(error))
    stopped = "time limit" if time.process_time() > deadline else "limit of the search"
    return Result(
        instance, objective, schedule, bound=certificate.value, bound_kind="certificate", certificate=certificate,
        found_by=by, proved_by=proved_by, horizon=Horizon(0, True, HORIZON), formulation="exact",
        solver=SolverInfo("exact", kvcore.__version__), seconds=time.monotonic() - started,
        stopped="proved" if value == certificate.value else stopped, extra={"failed": failed} if failed else {},
    )  # fmt: skip


@cache
def compile_searches() -> None:
    """Run the searches on a tiny instance, so that what they need is compiled."""
    rigid = Machine(memory=4, chunked=False, evict=False, pause=False)
    tiny = Instance(machine=rigid, requests=(Request(id="A", prompt=1, segments=(Segment(decode=2),)),))
    for climb in CLIMBS.values():
        list(climb(bounds.task.Task(tiny, "total-flow-time")))
