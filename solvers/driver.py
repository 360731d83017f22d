"""Solve an instance: choose formulations and solvers, run them in worker processes, believe only the referee."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import kvcore
from heuristics import BY_COST, Policy, PolicyError, Unsuited, get_policy, trace_policy
from kvcore.certificates import InvalidCertificate, recompute
from kvcore.coarsen import fine_bound
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import Horizon, LogEntry, Result, Rung, Size, SolverInfo, Stop
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.choice import Choice, choose
from solvers.dual_bound import rungs
from solvers.incumbent import NO_HORIZON, Bounds, Incumbent
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
from solvers.option_names import takes_options
from solvers.packing import name_of, pack, unpack
from solvers.pool import race
from solvers.process import prepare
from solvers.simulate import free_calls
from solvers.ways import BOUND, CERTIFYING, SOLVERS, WAYS, Way

OPENING = "bounds"
"""The solver, in a result, of what is proved before any worker."""


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
) -> Result:
    """Return the best schedule found and the best bound proved: optimal if a certificate meets the value.

    Where only the word of a search or a solver meets it, the ladder of `bounds` looks for a certificate for
    `certify_limit` seconds: None is what is left of the time limit, or, without one, as long as the claim took and at
    least the option `solve.certify`. A claim that no certificate reaches stays `claimed`. A `certify_limit` that is
    given is spent wherever the best bound is a word.

    `ways` are names of the table of ways (`solvers.ways`), or a formulation and a solver name one of them.
    `handling="free"` frees every call. `time_limit` is in seconds, `memory_limit` in MiB for each worker process.
    `gap` and `target` stop early: at (value - bound) / bound <= gap, or when it is decided whether a schedule of at
    most `target` exists. `warm_start` is "best" (every policy that the machine suits: those that have not run in their
    part of the time run in `improve`, or after the workers), a policy's name (`serial` stands in for one that does not
    end in its part of the time, and the result says so), or "none". `known` are schedules at hand, by name: the referee
    judges them, and what is found is no worse. Ctrl-C ends the solve with what was found so far (`stopped` is
    "interrupted").

    The bound `alone` (see `bounds`), with `shares` and `fresh` where no way is named, and a policy's schedule are there
    before any worker process, so that a limit leaves both whatever becomes of the workers.

    `options` sets numbers that steer the searches, such as `{"speed.step": 0.2}` (`kvbound options`).

    Each of `constraints` is called with the Pyomo model of `batch-bigm` and adds rows to it, or returns them; value and
    bound then belong to the problem with these rows (docs/model.md). cloudpickle pickles them, lambdas too.

    Raises BadInput for an option that makes no sense, MissingTool for a solver that is not there, and InvalidSchedule
    if one of `known` breaks a rule.
    """
    started = time.monotonic()
    limits = Limits(NO_TIME_LIMIT if time_limit is None else time_limit, certify_limit, gap, target, memory_limit,
                    threads, seed)  # fmt: skip
    check_objective(objective)
    instance.cost.check_linear()
    instance = free_calls(instance, handling)
    if constraints and not formulation.startswith("batch-bigm"):
        if formulation != "auto":
            raise BadInput(f"constraints are added to batch-bigm, not to {formulation}")
        formulation = "batch-bigm"
    choice = choose(instance, objective, formulation, solver, ways)
    first, packed = choice.lanes[0][0], pack(constraints) if constraints else b""
    job = SolveJob(instance, objective, first.formulation, first.solver.name, None, None, None, limits.time,
                   limits.memory, threads, seed, options=options or {}, constraints=packed)  # fmt: skip
    return _Solve(job, choice, limits, started, progress).run(known or {}, warm_start)


def _declined(ends: Sequence[Done | Failed]) -> bool:
    """Whether no worker could even start on it."""
    failures = [end for end in ends if isinstance(end, Failed)]
    return len(failures) == len(ends) and failures[0].why != "crash"


def _is_short(schedule: Schedule) -> bool:
    return sum(batch.repeat for batch in schedule.batches) <= SolveOptions.given().written_out


@dataclass
class _Solve:
    """A solve in three steps: an opening, a race, and a certification.

    The *opening* is there before any worker: quick bounds, and the schedules of policies. The *race* is that of the
    workers. It ends when value and bound meet the limits; but a way that is named has its say before a bound of the
    opening decides. The *certification* climbs the ladder of bounds to a value that is met by a word alone; the result
    names what gave its word all the same.
    """

    job: SolveJob
    """What all jobs have in common, with the first of the ways."""
    choice: Choice
    limits: Limits
    started: float
    progress: Progress | None = None
    shown: float = 0.0
    """When progress was shown."""
    bounds: Bounds = field(default_factory=Bounds)
    bounded_by: SolveJob | None = None
    """The job whose word the bound is."""
    policies: list[Policy] = field(default_factory=list)
    """Those that have yet to run."""
    ran: list[str] = field(default_factory=list)
    """Those that have run, by name."""
    ends: list[Done | Failed] = field(default_factory=lambda: [Done(Stop.INTERRUPTED)])
    """How the jobs of the race ended."""
    certifying_seconds: float | None = None
    """What the certification took; None: it has not begun."""
    interrupted: bool = False
    """Whether Ctrl-C ended the certification."""
    log: list[LogEntry] = field(default_factory=list)
    ladder: list[Rung] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.incumbent = Incumbent(self.job.instance, self.job.objective)
        self.opening = replace(self.incumbent)
        """The best schedule of the opening, held or not: its value bounds the horizon."""
        self.horizons = {way.label: Horizon(0, True, way.horizon) for way in WAYS.values() if way.horizon}

    def run(self, known: Mapping[str, Schedule], warm_start: str) -> Result:
        """Return what the steps come to; Ctrl-C ends each with what was found so far."""
        try:
            self.open(known, warm_start)
            self.ends = [Done(Stop.TIME_LIMIT)]
            if self.opening.value is not None:
                self.race()
            if self.policies and not self.decided() and (self.choice.named or self.opening.value is None):
                self.notes.append(f"{len(self.policies)} policies that the machine suits did not end in time")
        except KeyboardInterrupt:
            self.ends = [Done(Stop.INTERRUPTED)]
        try:
            result = self.result()
            if (seconds := self.certify_limit(result)) <= 0 or result.stopped == Stop.INTERRUPTED:
                return result
            self.certify(seconds)
        except KeyboardInterrupt:
            self.interrupted = True
        return self.result()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def report(self) -> None:
        """Show progress to the caller, ten times a second at the most."""
        if self.progress is not None and self.seconds > self.shown + 0.1:
            self.shown = self.seconds
            self.progress(self.incumbent.value, self.bounds.value, self.shown)

    # --- the opening ---------------------------------------------------------------------------------------------

    def open(self, known: Mapping[str, Schedule], warm_start: str) -> None:
        """Prove quick bounds, and hold the best of the schedules that are known and those of policies."""
        self.bound_at_once()
        for name, schedule in known.items():
            self.hold_policy(verify_schedule(self.job.instance, schedule), name)
        prepare()
        self.run_policies(warm_start)

    def bound_at_once(self) -> None:
        """Prove what takes little time: that no request is faster than alone, and, where no way is named, some more."""
        options, limit, instance = SolveOptions.given(), self.limits.time, self.job.instance
        tokens = sum(request.output for request in instance.requests)
        is_long = tokens > options.quick_tokens * options.policies * limit
        quick = CERTIFYING[:1] if self.choice.named or is_long else [way for way in CERTIFYING if way.at_once]
        seconds = options.at_once * max(1.0, options.few_joint / len(instance.requests))
        for rung in rungs(
            instance, self.job.objective, quick,
            time_limit=min(seconds, options.policies * limit), late=min(options.longest_wait, limit / 2),
        ):  # fmt: skip
            if rung.certificate is not None:
                job = replace(self.job, formulation=rung.method, solver=OPENING)
                self.take_bound(job, Bound(rung.certificate.value, "certificate", rung.certificate, rung.method))

    def run_policies(self, warm_start: str) -> None:
        """Find a schedule to start from; `policies` keeps those that have not ended in their part of the time limit."""
        if warm_start == "none" and self.opening.value is not None:
            return
        options, holds = SolveOptions.given(), warm_start != "none"
        share = self.started + options.policies * self.limits.time
        if warm_start in ("best", "none"):
            self.policies = [policy for policy in BY_COST if policy.why_not(self.job.instance.machine) is None]
            self.go_through_policies(min(share, self.started + options.longest_wait), holds=holds)
            if not holds:
                self.policies, self.ran = [], []
            return
        named, self.policies = get_policy(warm_start), [get_policy("serial"), get_policy(warm_start)]
        error = self.go_through_policies(share)
        if self.policies:
            self.notes.append(f"{named.name} did not end in its part of the time limit: serial stands in for it")
        elif error is not None:
            raise error
        self.policies = []

    def go_through_policies(self, end: float, *, holds: bool = True) -> BadInput | None:
        """Run policies, the fastest first, until `end`, or one has a schedule, or it is decided; why the last failed.

        The limit of the first one is of processor time: on a busy machine, too, there is a schedule.
        """
        share, error = SolveOptions.given().referee, None
        while self.policies and not self.decided():
            began, used = time.monotonic(), time.process_time()

            def in_time(began: float = began, used: float = used) -> bool:
                if self.opening.value is None:
                    return (1 + share) * (time.process_time() - used) < self.limits.time
                self.report()
                return (1 + share) * time.monotonic() - share * began < end

            policy, error = self.policies[0], None
            try:
                self.hold_policy(trace_policy(self.job.instance, policy, go_on=in_time), policy.name, holds)
            except (PolicyError, Unsuited) as why:
                error = why
                if isinstance(why, PolicyError) and not in_time():
                    break
            self.ran.append(self.policies.pop(0).name)
        return error

    def hold_policy(self, trace: Trace, policy: str, holds: bool = True) -> None:
        """Hold the schedule of a policy, which knows nothing of constraints that a user adds, or only its value."""
        self.opening.hold(trace, policy)
        if holds and not self.job.constraints and self.hold(trace, policy) and _is_short(trace.schedule):
            self.incumbent.schedule = trace.expanded()

    # --- the race ------------------------------------------------------------------------------------------------

    def race(self) -> None:
        """Run the ways that were chosen, and then the policies that are left."""
        lanes = [[self.job_of(way, lane) for way in lane] for lane in self.choice.lanes]
        head_start = 0.0 if self.policies else self.choice.head_start  # those that are left run in `improve`
        self.ends = self.let_run(lanes, self.decided, head_start)
        if Done(Stop.INTERRUPTED) not in self.ends and not (self.choice.named and _declined(self.ends)):
            self.go_through_policies(self.started + self.limits.time)

    def job_of(self, way: Way, beside: Sequence[Way] = ()) -> SolveJob:
        """Return the job of a way, from what is known on; without a time limit what is endless gets one."""
        left, schedule = max(0.1, self.limits.time - self.seconds), self.incumbent.schedule
        is_endless = way.endless and not self.job.is_limited
        return replace(
            self.job, formulation=way.formulation, solver=way.solver.name, upper_bound=self.opening.value,
            start=schedule if schedule is not None and _is_short(schedule) else None,
            time_limit=min(left, SolveOptions.given().endless) if is_endless else left,
            beside=(*(other.formulation for other in beside), *self.ran),
        )  # fmt: skip

    def let_run(
        self, lanes: Sequence[Sequence[SolveJob]], finished: Callable[[], Stop | None], head_start: float = 0.0
    ) -> list[Done | Failed]:
        """Run jobs in worker processes, and take in what they report."""
        return race(
            lanes, self.receive, finished,
            tick=self.report, best_known=lambda: self.incumbent.value, head_start=head_start,
        )  # fmt: skip

    def receive(self, job: SolveJob, message: Message) -> None:
        """Take in what a worker reports; what the referee or the checker refuses is `rejected`."""
        try:
            if isinstance(message, Found):
                self.take_schedule(job, message)
            elif isinstance(message, Bound):
                if message.certificate is not None:
                    recompute(self.job.instance, self.job.objective, message.certificate)
                self.take_bound(job, message)
        except (InvalidSchedule, InvalidCertificate) as broken:
            self.rejected.append(f"{job.label}: {broken}")
        if isinstance(message, Horizon):
            self.horizons[job.label] = message
        elif isinstance(message, Size):
            self.sizes[job.formulation] = message
        elif isinstance(message, Rung):
            self.ladder.append(message)

    def take_schedule(self, job: SolveJob, found: Found) -> None:
        """Let the referee execute a schedule that may be the best, unless its way knows nothing of constraints."""
        value = self.incumbent.value
        is_blind = bool(self.job.constraints) and not job.formulation.startswith("batch-bigm")
        if not is_blind and (found.claimed is None or value is None or found.claimed < value):
            self.hold(verify_schedule(self.job.instance, found.schedule), job.label, found.claimed)

    def hold(self, trace: Trace, by: str, claimed: Value | None = None) -> bool:
        """Hold a schedule, which the referee has executed, if it is the best; say whether it is."""
        value = self.incumbent.hold(trace, by, claimed)
        if value is not None:
            self.log.append(LogEntry(self.seconds, "value", value, by))
        return value is not None

    def take_bound(self, job: SolveJob, bound: Bound) -> None:
        """Take in a bound: a certificate that was recomputed, or a word on the schedules of the horizon of its job."""
        by, horizon = bound.by or job.label, self.horizons.get(job.label, NO_HORIZON)
        if bound.certificate is not None:
            is_best = self.bounds.certify(bound.certificate, by)
        else:
            kind = bound.kind or WAYS[job.formulation, job.solver].proves
            is_best = self.bounds.take(bound.value, kind, by, horizon)
        if is_best:
            self.log.append(LogEntry(self.seconds, "bound", bound.value, by))
        is_met = self.is_opening and bound.value == self.bounds.value
        if self.certifying_seconds is None and (is_best or is_met):
            self.bounded_by = job

    def decided(self) -> Stop | None:
        """Return why the workers can stop, if they can; where the opening decides, a way that is named goes on."""
        value, bound = self.incumbent.value, self.bounds.of_all
        if value is None or bound is None:
            return None
        has_its_say = self.choice.named and self.is_opening and bound <= value  # above is a contradiction
        return None if has_its_say else self.limits.met(value, bound)

    @property
    def is_opening(self) -> bool:
        """Whether the bound is still that of the opening."""
        return self.bounded_by is not None and self.bounded_by.solver == OPENING

    # --- the certification ---------------------------------------------------------------------------------------

    def certify_limit(self, result: Result) -> float:
        """Return for how many seconds to look for a certificate."""
        if self.limits.certify is not None:
            is_word = result.bound_kind != "certificate" or result.proved_by == "alone"
            return self.limits.certify if is_word and result.status != "optimal" else 0.0
        if result.status != "claimed":
            return 0.0
        least = max(SolveOptions.given().certify, result.seconds)
        return self.limits.time - result.seconds if self.job.is_limited else least

    def certify(self, seconds: float) -> None:
        """Let the ladder of bounds go on, until a certificate meets the value that is claimed, or time is up."""
        began, self.certifying_seconds, self.ladder = self.seconds, 0.0, []
        job = replace(self.job_of(BOUND), upper_bound=self.incumbent.value, time_limit=min(seconds, NO_TIME_LIMIT),
                      constraints=b"")  # fmt: skip
        ends = self.let_run([[job]], lambda: None)
        self.interrupted = Done(Stop.INTERRUPTED) in ends
        self.notes += [end.message for end in ends if isinstance(end, Failed)]
        self.certifying_seconds = round(self.seconds - began, 3)

    # --- the result ----------------------------------------------------------------------------------------------

    def result(self) -> Result:
        """Make the result; if no worker could even start on it, raise what the first one said.

        Unless a way was named, a bound that was proved all the same is a result.
        """
        failures = [end for end in self.ends if isinstance(end, Failed)]
        if _declined(self.ends) and (self.choice.named or self.bounds.value is None):
            raise (MissingTool if failures[0].why == "missing tool" else BadInput)(failures[0].message)
        best, bounds, job = self.incumbent, self.bounds, self.bounded_by or self.job
        version = SOLVERS[job.solver].version() if job.solver in SOLVERS else kvcore.__version__
        info = SolverInfo(job.solver, version, job.threads, job.seed)
        return Result(
            job.instance, job.objective, best.schedule, best.claimed, bounds.value, bounds.kind, bounds.certificate,
            best.by, bounds.by, self._horizon(), job.formulation, info,
            seconds=self.seconds, stopped=self._stopped(), chosen=self.choice.why, log=self.log,
            ladder=None if self.certifying_seconds is None else self.ladder,
            certifying_seconds=self.certifying_seconds, target=self.limits.target, models=self.sizes,
            fine_bound=self._fine_bound(), options=job.options, rejected=self.rejected,
            constraints=[name_of(each) for each in unpack(job.constraints)] if job.constraints else [],
            failed=[*self.notes, *(failure.message for failure in failures)],
        )  # fmt: skip

    def _stopped(self) -> Stop:
        if self.interrupted:
            return Stop.INTERRUPTED
        if self.bounds.value is not None and self.bounds.of_all == self.incumbent.value:
            return Stop.PROVED
        stops = [end.stop for end in self.ends if isinstance(end, Done)]
        failed = Stop.DECLINED if _declined(self.ends) else Stop.SOLVER_FAILURE
        return self.decided() or min(stops, key=lambda stop: stop != Stop.TIME_LIMIT, default=failed)

    def _horizon(self) -> Horizon:
        """Return the horizon of the bound; a search has none, so the batches of the schedule stand there."""
        horizon, schedule = self.bounds.horizon, self.incumbent.schedule
        if horizon.sufficient and not horizon.batches and schedule is not None:
            return replace(horizon, batches=len(schedule.batches))
        return horizon

    def _fine_bound(self) -> int | None:
        """Return what the bound proves of the instance before it was coarsened."""
        instance, bound = self.job.instance, self.bounds.of_all
        if instance.coarsening is None or self.job.constraints or not isinstance(bound, int):
            return None
        return fine_bound(instance, self.job.objective, bound)
