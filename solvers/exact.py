"""The exact searches, over slots, batch boundaries, or starts, in this process; a checker repeats their proofs."""

from __future__ import annotations

import math
from functools import cache

import kvcore
from bounds.clock import Timer, now
from heuristics import best_schedule
from kvcore.certificates import Alone, Certificate, certify
from kvcore.instance import Instance, Machine, Request, Segment
from kvcore.result import Result, SolverInfo, Stop
from kvcore.schedule import Schedule
from solvers.dual_bound import rungs
from solvers.incumbent import Bounds, Incumbent
from solvers.ways import CONFIGURATIONS, ENUMERATION, EVENTS, SLOTS

EXACT = (SLOTS, EVENTS, ENUMERATION, CONFIGURATIONS)
"""The searches, in order for few requests."""


def exact(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    start: Schedule | None = None,
    time_limit: float | None = None,
) -> Result:
    """Return the best schedule and the best bound of the exact searches: optimal if the two meet.

    `start` is a schedule to improve on (None: the best of a few policies), `time_limit` in processor seconds, without
    compiling. What declines, or ends at a limit of its own, is under `failed`. Raises BadInput for an unknown
    objective, InvalidSchedule if `start` breaks a rule.
    """
    compile_searches()
    began, timer = now(), Timer()
    limit = math.inf if time_limit is None else time_limit
    best, bounds, failed = Incumbent(instance, objective), Bounds(), list[str]()

    def found(way: str, what: Certificate | Schedule) -> None:
        if isinstance(what, Certificate):
            bounds.certify(what, way)
        else:
            best.offer(what, way)

    by, schedule = ("start", start) if start is not None else best_schedule(instance, objective)[:2]
    found(by, schedule)
    found("alone", certify(instance, objective, Alone()))
    many = len(instance.requests) > 8  # requests beyond which `exact` begins with what can run together
    ways = sorted(EXACT, key=lambda way: many and way is not CONFIGURATIONS)
    if best.value != bounds.value:
        for rung in rungs(
            instance, objective, ways, time_limit=max(0.0, limit - (now() - began)), upper=best.value,
            late=math.inf, finds=True, news=lambda: best.value, found=found,
        ):  # fmt: skip
            failed += [rung.why_not] if rung.why_not else []
            if best.value == bounds.value:
                break
    stopped = Stop.TIME_LIMIT if now() > began + limit else Stop.SEARCH_LIMIT
    return Result(
        instance, objective, best.schedule, None, bounds.value, bounds.kind, bounds.certificate, best.by, bounds.by,
        bounds.horizon, "exact", SolverInfo("exact", kvcore.__version__), seconds=timer.seconds,
        clock_seconds=timer.clock,
        stopped=Stop.PROVED if best.value == bounds.value else stopped, failed=failed,
    )  # fmt: skip


@cache
def compile_searches() -> None:
    """Compile the searches, by running them on a tiny instance."""
    rigid = Machine(memory=4, chunked=False, evict=False, pause=False)
    tiny = Instance(machine=rigid, requests=(Request(id="A", prompt=1, segments=(Segment(decode=2),)),))
    list(rungs(tiny, "total-flow-time", EXACT, time_limit=math.inf))
