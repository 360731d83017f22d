"""The driver: chooses ways, runs them in worker processes, believes only the referee and the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import kvcore
from bounds.clock import is_late, limited
from kvcore.certificates import InvalidCertificate, recompute
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import Horizon, Result, Rung, Size, SolverInfo, Stop
from kvcore.schedule import Schedule
from solvers.choice import Choice, choose
from solvers.dual_bound import ladder
from solvers.incumbent import NO_HORIZON, Held, Incumbent
from solvers.messages import (
    NO_TIME_LIMIT,
    Bound,
    Done,
    Failed,
    Found,
    Limits,
    Message,
    Progress,
    SolveJob,
    SolveOptions,
)
from solvers.opening import Opening, is_short
from solvers.option_names import takes_options
from solvers.packing import name_of, pack, unpack
from solvers.pool import race
from solvers.simulate import free_calls
from solvers.ways import BOUND, SOLVERS, WAYS, Way


@takes_options
def solve(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    ways: Sequence[str] = ("auto",),
    formulation: str = "auto",
    solver: str = "auto",
    handling: str = "as-given",
    time_limit: float | None = None,
    work: int | None = None,
    certify_limit: float | None = None,
    gap: float | None = None,
    target: Value | None = None,
    warm_start: str = "best",
    known: Mapping[str, Schedule] | None = None,
    threads: int = 1,
    seed: int = 0,
    memory_limit: int = 8000,
    constraints: Sequence[Callable[[Any], Any]] = (),
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    event: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Result:
    """Return the best schedule found and the best bound proved: optimal if a certificate meets the value.

    Where a word alone meets the value, the ladder of `bounds` looks for a certificate for `certify_limit` seconds.
    None: the rest of the time limit or, without one, as long as the claim took and at least the option `solve.certify`.

    `ways` are names of the table of ways (`solvers.ways`), or a formulation and a solver name one. `time_limit` is in
    seconds of the processor, of this process or its busiest worker, and by the clock four times as long. `work` limits
    counted work instead (docs/solving.md): then all but the times is the same on every machine. `memory_limit` is in
    MiB for each worker. `gap` and `target` stop early: at (value - bound) / bound <= gap, or when a schedule of at most
    `target` is found or excluded. `warm_start` is "best" (every policy that the machine suits, as time allows), a
    policy's name (`serial` replaces one that is late), or "none". `known` are schedules by name: the referee judges
    them, and the result is no worse. Ctrl-C returns what was found so far, or the fastest policy's schedule (`stopped`
    is "interrupted").

    `event` is called with each better value and bound, and each start and end of a way, as a row for JSON.

    `options` sets numbers that steer the searches, such as `{"speed.step": 0.2}` (`kvbound options`).

    Each of `constraints` is called with the Pyomo model of `batch-bigm` and adds rows to it, or returns them
    (docs/model.md).

    Raises BadInput for an option that makes no sense, MissingTool for a solver that is not there, and InvalidSchedule
    if one of `known` breaks a rule.
    """
    check_objective(objective)
    instance.cost.check_linear()
    instance = free_calls(instance, handling)
    if constraints and not formulation.startswith("batch-bigm"):
        if formulation != "auto":
            raise BadInput(f"constraints are added to batch-bigm, not to {formulation}")
        formulation = "batch-bigm"
    held = Held(Incumbent(instance, objective), Limits(), named=True, progress=progress, event=event)
    with limited(NO_TIME_LIMIT if time_limit is None else time_limit, work) as limit:
        held.limits = Limits(limit, work is not None, certify_limit, gap, target, memory_limit, threads, seed)
        choice = choose(instance, objective, formulation, solver, ways)
        first, packed = choice.lanes[0][0], pack(constraints) if constraints else b""
        job = SolveJob(instance, objective, first.formulation, first.solver.name, None, None, None, limit, memory_limit,
                       threads, seed, options=options or {}, constraints=packed, counted=work is not None)  # fmt: skip
        held.named = choice.named
        return _Solve(job, choice, held).run(known or {}, warm_start)


def _declined(ends: Sequence[Done | Failed]) -> bool:
    failures = [end for end in ends if isinstance(end, Failed)]
    return len(failures) == len(ends) and failures[0].why != "crash"


@dataclass
class _Solve:
    """A solve in three steps.

    The *opening* has quick bounds and the schedules of policies. The *race* ends when value and bound meet the limits;
    a named way has its say first. The *certification* climbs the ladder to a value that a word alone meets.
    """

    job: SolveJob
    choice: Choice
    held: Held
    ends: list[Done | Failed] = field(default_factory=lambda: [Done(Stop.INTERRUPTED)])
    certifying_seconds: float | None = None
    interrupted: bool = False
    ladder: dict[str, Rung] = field(default_factory=dict)
    rejected: list[str] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opening, self.limits = Opening(self.job, self.held), self.held.limits
        self.horizons = {way.label: Horizon(0, True, way.horizon) for way in WAYS.values() if way.horizon}

    def run(self, known: Mapping[str, Schedule], warm_start: str) -> Result:
        try:
            self.opening.run(known, warm_start)
            self.ends = [Done(Stop.TIME_LIMIT)]
            if self.opening.best.value is not None:
                self.race()
            self.opening.close()
        except KeyboardInterrupt:
            self.ends = [Done(Stop.INTERRUPTED)]
            if warm_start != "none":
                self.opening.finish()
        try:
            result = self.result()
            if (seconds := self.certify_limit(result)) <= 0 or result.stopped == Stop.INTERRUPTED:
                return result
            self.certify(seconds)
        except KeyboardInterrupt:
            self.interrupted = True
        return self.result()

    # --- the race ------------------------------------------------------------------------------------------------

    def race(self) -> None:
        head_start = 0.0 if self.opening.policies else self.choice.head_start  # those that are left run in `improve`
        if self.limits.counted:
            self.ends = [*self.one_by_one()]
        else:
            lanes = [[self.job_of(way, lane) for way in lane] for lane in self.choice.lanes]
            self.ends = self.let_run(lanes, self.held.decided, head_start)
        if Done(Stop.INTERRUPTED) not in self.ends and not (self.choice.named and _declined(self.ends)):
            self.opening.go_through(self.held.left)

    def one_by_one(self) -> Iterator[Done | Failed]:
        """Run what finds, then what proves, each to the end of its part of the work."""
        left = self.held.left
        for lane in reversed(self.choice.lanes):
            for k, way in enumerate(lane):
                part = 1.0 if len(lane) == 1 else 2 / 3 if k == 0 else 1 / (3 * (len(lane) - 1))
                if not way.counts:
                    yield Failed(f"{way.label} is not tried: its work cannot be counted", "bad input")
                elif k == 0 or not self.held.decided():
                    yield from self.let_run([[replace(self.job_of(way, lane), time_limit=part * left)]], lambda: None)

    def job_of(self, way: Way, beside: Sequence[Way] = ()) -> SolveJob:
        left, schedule = max(0.1, self.held.left), self.held.incumbent.schedule
        is_endless = way.endless and not self.job.is_limited
        return replace(
            self.job, formulation=way.formulation, solver=way.solver.name, upper_bound=self.opening.best.value,
            start=schedule if schedule is not None and is_short(schedule) else None,
            time_limit=min(left, SolveOptions.given().endless) if is_endless else left,
            beside=(*(other.formulation for other in beside), *self.opening.ran),
        )  # fmt: skip

    def let_run(
        self, lanes: Sequence[Sequence[SolveJob]], finished: Callable[[], Stop | None], head_start: float = 0.0
    ) -> list[Done | Failed]:
        self.held.race()
        return race(
            lanes, self.receive, finished,
            tick=self.held.report, told=self.held.tell, best_known=lambda: self.held.incumbent.value,
            head_start=head_start,
        )  # fmt: skip

    def receive(self, job: SolveJob, message: Message) -> None:
        """Take a worker's report; what the referee or the checker refuses is `rejected`."""
        try:
            if isinstance(message, Found):
                self.take_schedule(job, message)
            elif isinstance(message, Bound):
                if message.certificate is not None:
                    recompute(self.job.instance, self.job.objective, message.certificate)
                self.held.take(job, message, self.horizons.get(job.label, NO_HORIZON))
        except (InvalidSchedule, InvalidCertificate) as broken:
            self.rejected.append(f"{job.label}: {broken}")
        if isinstance(message, Horizon):
            self.horizons[job.label] = message
        elif isinstance(message, Size):
            self.sizes[job.formulation] = message
        elif isinstance(message, Rung):
            self.ladder[message.method] = message

    def take_schedule(self, job: SolveJob, found: Found) -> None:
        value = self.held.incumbent.value
        is_blind = bool(self.job.constraints) and not job.formulation.startswith("batch-bigm")
        if not is_blind and (found.claimed is None or value is None or found.claimed < value):
            self.held.hold(verify_schedule(self.job.instance, found.schedule), job.label, found.claimed)

    # --- the certification ---------------------------------------------------------------------------------------

    def certify_limit(self, result: Result) -> float:
        if self.limits.certify is not None:
            is_word = result.bound_kind != "certificate" or result.proved_by == "alone"
            return self.limits.certify if is_word and result.status != "optimal" else 0.0
        if result.status != "claimed":
            return 0.0
        least = max(SolveOptions.given().certify, result.seconds)
        return self.held.left if self.job.is_limited else least

    def certify(self, seconds: float) -> None:
        began, claimant = self.held.seconds, self.held.bounded_by
        self.ladder = {}
        job = replace(self.job_of(BOUND), upper_bound=self.held.incumbent.value, time_limit=min(seconds, NO_TIME_LIMIT),
                      constraints=b"")  # fmt: skip
        with limited(seconds):
            ends = self.let_run([[job]], lambda: Stop.CLOCK_LIMIT if is_late() else None)
        self.interrupted = Done(Stop.INTERRUPTED) in ends
        self.opening.notes += [end.message for end in ends if isinstance(end, Failed)]
        self.held.bounded_by = claimant  # the result names it
        self.certifying_seconds = round(self.held.seconds - began, 3)

    # --- the result ----------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """If no worker could start, raise the first error; unless no way is named and there is a bound."""
        failures = [end for end in self.ends if isinstance(end, Failed)]
        if _declined(self.ends) and (self.choice.named or self.held.bounds.value is None):
            raise (MissingTool if failures[0].why == "missing tool" else BadInput)(failures[0].message)
        best, bounds, job = self.held.incumbent, self.held.bounds, self.held.bounded_by or self.job
        version = SOLVERS[job.solver].version() if job.solver in SOLVERS else kvcore.__version__
        info = SolverInfo(job.solver, version, job.threads, job.seed)
        return Result(
            self.job.instance, self.job.objective, best.schedule, best.claimed, bounds.value, bounds.kind,
            bounds.certificate, best.by, bounds.by, self._horizon(), job.formulation, info,
            seconds=self.held.seconds, clock_seconds=self.held.timer.clock, stopped=self._stopped(),
            chosen=self.choice.why, log=self.held.log,
            ladder=list(self.ladder.values()) or None,
            certifying_seconds=self.certifying_seconds, target=self.limits.target,
            models=self.sizes, options=self.job.options, rejected=self.rejected,
            constraints=[name_of(each) for each in unpack(self.job.constraints)] if self.job.constraints else [],
            failed=[*self.opening.notes, *(failure.message for failure in failures), *self._not_tried()],
        )  # fmt: skip

    def _not_tried(self) -> Iterator[str]:
        if self._stopped() in (Stop.PROVED, Stop.EARLY) or all(BOUND not in lane for lane in self.choice.lanes):
            return
        if not self.ladder:
            yield f"not tried: {BOUND.what} (its turn did not come)"
            return
        for way in ladder(self.job.instance, [each.formulation for lane in self.choice.lanes for each in lane]):
            rung = self.ladder.get(way.formulation)
            if way.formulation in self.opening.proved:
                continue
            if rung is None and way.takes.why_not(way.formulation, self.job.instance, self.job.objective) is None:
                yield f"not tried: {way.formulation} (its turn did not come)"
            elif rung is not None and rung.more:
                yield f"not tried: {way.formulation} ({ceil(rung.more)} s more)"

    def _stopped(self) -> Stop:
        if self.interrupted:
            return Stop.INTERRUPTED
        if self.held.bounds.value is not None and self.held.bounds.of_all == self.held.incumbent.value:
            return Stop.PROVED
        stops = [end.stop for end in self.ends if isinstance(end, Done)]
        failed = Stop.DECLINED if _declined(self.ends) else Stop.SOLVER_FAILURE
        stop = self.held.decided() or min(stops, key=lambda stop: stop != Stop.TIME_LIMIT, default=failed)
        return Stop.WORK_LIMIT if stop == Stop.TIME_LIMIT and self.limits.counted else stop

    def _horizon(self) -> Horizon:
        """A search has no horizon: take the batches of the schedule."""
        horizon, schedule = self.held.bounds.horizon, self.held.incumbent.schedule
        if horizon.sufficient and not horizon.batches and schedule is not None:
            return replace(horizon, batches=len(schedule.batches))
        return horizon
