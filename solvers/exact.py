"""The exact searches, whose proofs a checker runs again, in this process: over slots, batch boundaries, or starts."""

from __future__ import annotations

import math
import time
from functools import cache

import kvcore
from heuristics import best_schedule
from kvcore.certificates import Alone, Certificate, certify
from kvcore.certificates.certificate import HORIZON
from kvcore.instance import Instance, Machine, Request, Segment
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.result import Horizon, Result, SolverInfo
from kvcore.schedule import Schedule
from solvers.dual_bound import rungs
from solvers.ways import CONFIGURATIONS, EVENTS, SLOTS

EXACT = (SLOTS, EVENTS, CONFIGURATIONS)
"""The searches, in the order in which `exact` tries them where requests are few."""


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
    limit = math.inf if time_limit is None else time_limit
    by, schedule = ("start", start) if start is not None else best_schedule(instance, objective)[:2]
    value = objective_value(verify_schedule(instance, schedule), objective)
    proved_by, certificate = "alone", certify(instance, objective, Alone())
    failed: list[str] = []

    def found(way: str, what: Certificate | Schedule) -> None:
        nonlocal by, schedule, value, proved_by, certificate
        if isinstance(what, Certificate):
            if what.value > certificate.value:
                proved_by, certificate = way, what
        elif (better := objective_value(verify_schedule(instance, what), objective)) < value:
            by, schedule, value = way, what, better

    many = len(instance.requests) > 8  # requests beyond which `exact` begins with what can run together
    ways = sorted(EXACT, key=lambda way: many and way is not CONFIGURATIONS)
    if value > certificate.value:
        for rung in rungs(
            instance, objective, ways, time_limit=max(0.0, limit - (time.process_time() - began)), upper=value,
            late=math.inf, finds=True, news=lambda: value, found=found,
        ):  # fmt: skip
            failed += [rung.why_not] if rung.why_not else []
            if value == certificate.value:
                break
    stopped = "time limit" if time.process_time() > began + limit else "limit of the search"
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
    list(rungs(tiny, "total-flow-time", EXACT, time_limit=math.inf))
