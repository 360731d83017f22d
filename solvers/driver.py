"""Solve an instance: choose formulations and solvers, run them in worker processes, believe only the referee."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import kvcore
from heuristics import BY_COST, Policy, PolicyError, Unsuited, get_policy, trace_policy
from kvcore.certificates import Certificate, InvalidCertificate, recompute
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import DECLINED, BoundKind, Horizon, Result, SolverInfo, number
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.choice import choose
from solvers.dual_bound import rungs
from solvers.messages import (
    NO_TIME_LIMIT,
    Bound,
    Done,
    Failed,
    Found,
    Message,
    Progress,
    Size,
    SolveJob,
    SolveOptions,
    Stop,
    Tried,
)
from solvers.option_names import takes_options
from solvers.packing import name_of, pack, unpack
from solvers.pool import race
from solvers.process import prepare
from solvers.simulate import free_calls
from solvers.ways import BOUND, CERTIFYING, SOLVERS, WAYS, Way


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
    check_objective(objective)
    instance.cost.check_linear()
    instance = free_calls(instance, handling)
    if constraints and not formulation.startswith("batch-bigm"):
        if formulation != "auto":
            raise BadInput(f"constraints are added to batch-bigm, not to {formulation}")
        formulation = "batch-bigm"
    choice = choose(instance, objective, formulation, solver, ways)
    limit = NO_TIME_LIMIT if time_limit is None else time_limit
    first, packed = choice.lanes[0][0], pack(constraints) if constraints else b""
    job = SolveJob(instance, objective, first.formulation, first.solver.name, None, None, None, limit, memory_limit,
                threads, seed, options=options or {}, constraints=packed)  # fmt: skip
    run = _Solve(job, started, gap, target, progress)
    ends: list[Done | Failed] = [Done("interrupted")]
    try:
        run.bound_at_once(choice.named)
        for name, schedule in (known or {}).items():
            run.hold_policy(verify_schedule(instance, schedule), name)
        prepare()
        run.run_policies(warm_start, limit)
        ends = [Done("time limit")]
        if run.guess is not None:
            lanes = [[run.job_of(way, lane, endless=time_limit is None) for way in lane] for lane in choice.lanes]
            head_start = 0.0 if run.policies else choice.head_start  # those that are left run in `improve`
            ends = run.race(lanes, run.decided, head_start)
        if run.guess is not None and Done("interrupted") not in ends and not (choice.named and _declined(ends)):
            run.go_through_policies(started + limit, limit)
        if run.policies and not run.decided() and (choice.named or run.guess is None):
            run.notes.append(f"{len(run.policies)} policies that the machine suits did not end in time")
    except KeyboardInterrupt:
        ends = [Done("interrupted")]
    try:
        result = run.result(ends, choice.why, named=choice.named)
        if certify_limit is None:
            wanted, left = result.status == "claimed", limit - result.seconds
            certify_limit = max(SolveOptions.given().certify, result.seconds) if time_limit is None else left
        else:
            wanted = result.status != "optimal" and (result.bound_kind != "certificate" or result.proved_by == "alone")
        if not wanted or certify_limit <= 0 or result.stopped == "interrupted":
            return result
        run.certify(certify_limit)
    except KeyboardInterrupt:
        run.interrupted = True
    return run.result(ends, choice.why, named=choice.named)


def _declined(ends: Sequence[Done | Failed]) -> bool:
    """Whether no worker could even start on it."""
    failures = [end for end in ends if isinstance(end, Failed)]
    return len(failures) == len(ends) and failures[0].why != "crash"


def _is_short(schedule: Schedule) -> bool:
    return sum(batch.repeat for batch in schedule.batches) <= SolveOptions.given().written_out


@dataclass
class _Solve:
    """What is known while the workers run: the best schedule, the best bound, and where each comes from.

    `job` is what all jobs have in common, with the first of the ways.
    """

    job: SolveJob
    started: float
    gap: float | None = None
    target: Value | None = None
    progress: Progress | None = None
    schedule: Schedule | None = None
    claimed: Value | None = None
    value: Value | None = None
    found_by: str | None = None
    guess: Value | None = None
    """The best value of the schedules that were there before the workers; it bounds the horizon."""
    policies: list[Policy] = field(default_factory=list)
    """Those that have yet to run."""
    ran: list[str] = field(default_factory=list)
    """Those that have run, by name."""
    reported: float = 0.0
    bound: Value | None = None
    bounded_by: SolveJob | None = None
    kind: BoundKind | None = None
    certificate: Certificate | None = None
    certified_by: str | None = None
    claimant: SolveJob | None = None
    """What claimed the value, where a certificate was looked for after that."""
    certifying: dict[str, Any] = field(default_factory=dict)
    """What that came to, for the result."""
    heard: bool = False
    """Whether a bound may decide that was there before the workers; a way that is named has its say first."""
    interrupted: bool = False
    log: list[dict[str, Any]] = field(default_factory=list)
    ladder: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.instance, self.objective = self.job.instance, self.job.objective
        self.horizons = {way.label: Horizon(0, True, way.horizon) for way in WAYS.values() if way.horizon}

    def job_of(self, way: Way, beside: Sequence[Way] = (), *, endless: bool = False) -> SolveJob:
        """Return the job of a way, from what is known on; without a time limit what is endless gets one."""
        left = max(0.1, self.job.time_limit - self.seconds)
        return replace(
            self.job, formulation=way.formulation, solver=way.solver.name, upper_bound=self.guess, start=self._start(),
            time_limit=min(left, SolveOptions.given().endless) if endless and way.endless else left,
            beside=(*(other.formulation for other in beside), *self.ran),
        )  # fmt: skip

    def race(
        self, lanes: Sequence[Sequence[SolveJob]], finished: Callable[[], Stop | None], head_start: float = 0.0
    ) -> list[Done | Failed]:
        """Run jobs in worker processes, and take in what they report."""
        return race(
            lanes, self.receive, finished, tick=self.report, best_known=lambda: self.value, head_start=head_start
        )

    def certify(self, seconds: float) -> None:
        """Let the ladder of bounds go on, until a certificate meets the value that is claimed, or time is up."""
        began, self.claimant, self.ladder = self.seconds, self.bounded_by, []
        limit = min(seconds, NO_TIME_LIMIT)
        job = replace(self.job_of(BOUND), upper_bound=self.value, time_limit=limit, constraints=b"")
        ends = self.race([[job]], lambda: None)
        self.interrupted = Done("interrupted") in ends
        self.notes += [end.message for end in ends if isinstance(end, Failed)]
        self.certifying = {"certifying_seconds": round(self.seconds - began, 3), "ladder": self.ladder}

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def bound_at_once(self, named: bool) -> None:
        """Prove what takes little time: that no request is faster than alone, and, where no way is named, some more."""
        options, limit, self.heard = SolveOptions.given(), self.job.time_limit, not named
        tokens = sum(request.output for request in self.instance.requests)
        # tokens of output for which quick bounds take a second, about
        is_long = tokens > 100_000 * options.policies * limit
        quick = CERTIFYING[:1] if named or is_long else [way for way in CERTIFYING if way.at_once]
        seconds = options.at_once * max(1.0, options.few_joint / len(self.instance.requests))
        for rung in rungs(
            self.instance, self.objective, quick,
            time_limit=min(seconds, options.policies * limit), late=min(options.longest_wait, limit / 2),
        ):  # fmt: skip
            if rung.certificate is not None:
                job = replace(self.job, formulation=rung.method, solver="bounds")
                self.horizons[job.label] = Horizon(0, True, rung.certificate.horizon)
                self.hold_certificate(rung.certificate, job, rung.method)

    def run_policies(self, warm_start: str, limit: float) -> None:
        """Find a schedule to start from; `policies` keeps those that have not ended in their part of the time limit."""
        if warm_start == "none" and self.guess is not None:
            return
        options, holds = SolveOptions.given(), warm_start != "none"
        share = self.started + options.policies * limit
        if warm_start in ("best", "none"):
            self.policies = [policy for policy in BY_COST if policy.why_not(self.instance.machine) is None]
            self.go_through_policies(min(share, self.started + options.longest_wait), limit, holds=holds)
            if not holds:
                self.policies, self.ran = [], []
            return
        named, self.policies = get_policy(warm_start), [get_policy("serial"), get_policy(warm_start)]
        error = self.go_through_policies(share, limit)
        if self.policies:
            self.notes.append(f"{named.name} did not end in its part of the time limit: serial stands in for it")
        elif error is not None:
            raise error
        self.policies = []

    def go_through_policies(self, end: float, limit: float, *, holds: bool = True) -> BadInput | None:
        """Run policies, the fastest first, until `end`, or one has a schedule, or it is decided; why the last failed.

        The limit of the first one is of processor time: on a busy machine, too, there is a schedule.
        """
        share, error = SolveOptions.given().referee, None
        while self.policies and not self.decided():
            began, used = time.monotonic(), time.process_time()

            def in_time(began: float = began, used: float = used) -> bool:
                if self.guess is None:
                    return (1 + share) * (time.process_time() - used) < limit
                self.report()
                return (1 + share) * time.monotonic() - share * began < end

            policy, error = self.policies[0], None
            try:
                self.hold_policy(trace_policy(self.instance, policy, go_on=in_time), policy.name, holds)
            except (PolicyError, Unsuited) as why:
                error = why
                if isinstance(why, PolicyError) and not in_time():
                    break
            self.ran.append(self.policies.pop(0).name)
        return error

    def hold_policy(self, trace: Trace, policy: str, holds: bool = True) -> None:
        """Hold the schedule of a policy, which knows nothing of constraints that a user adds, or only its value."""
        value = objective_value(trace, self.objective)
        self.guess = value if self.guess is None else min(value, self.guess)
        if holds and not self.job.constraints:
            self.hold(trace, policy, expand=_is_short(trace.schedule))

    def hold(self, trace: Trace, by: str, claimed: Value | None = None, *, expand: bool = False) -> None:
        """Keep a schedule, which the referee has executed, if it is the best; `expand`: its batches written out."""
        value = objective_value(trace, self.objective)
        if self.value is None or value < self.value:
            self.schedule = trace.expanded() if expand else trace.schedule
            self.claimed, self.value, self.found_by = claimed, value, by
            self._note("value", value, by)

    def _note(self, what: str, value: Value, by: str) -> None:
        self.log.append({"seconds": round(self.seconds, 3), what: number(value, self.objective), "by": by})

    def _start(self) -> Schedule | None:
        return self.schedule if self.schedule is not None and _is_short(self.schedule) else None

    def receive(self, job: SolveJob, message: Message) -> None:
        """Take in what a worker reports."""
        if isinstance(message, Horizon):
            self.horizons[job.label] = message
        elif isinstance(message, Found):
            if self.job.constraints and not job.formulation.startswith("batch-bigm"):
                return  # a schedule of a way that knows nothing of them
            if message.claimed is not None and self.value is not None and message.claimed >= self.value:
                return
            try:
                self.hold(verify_schedule(self.instance, message.schedule), job.label, message.claimed)
            except InvalidSchedule as broken:
                self.rejected.append(f"{job.label}: {broken}")
        elif isinstance(message, Bound):
            self.take_bound(job, message)
        elif isinstance(message, Size):
            self.sizes[job.formulation] = message
        elif isinstance(message, Tried):
            self.ladder.append(message.row)

    def take_bound(self, job: SolveJob, message: Bound) -> None:
        """Take in a bound; the checker recomputes the certificate that comes with it, if one does."""
        if message.certificate is None:
            self.tighten(message.value, job, message.kind, message.by)
            return
        try:
            recompute(self.instance, self.objective, message.certificate)
        except InvalidCertificate as broken:
            self.rejected.append(f"{job.label}: {broken}")
        else:
            self.hold_certificate(message.certificate, job, message.by or job.label)

    def hold_certificate(self, certificate: Certificate, job: SolveJob, by: str) -> None:
        """Keep a certificate, and its bound, if it is the best."""
        if self.certificate is None or certificate.value > self.certificate.value:
            self.certificate, self.certified_by = certificate, by
        self.tighten(certificate.value, job, "certificate", by)

    def tighten(self, bound: Value, job: SolveJob, kind: BoundKind | None = None, by: str = "") -> None:
        """Keep a bound if it is the best; one with a proved horizon beats any without, any other beats `alone`."""
        new = (self._proves(job), bound)
        old = None if self.bound is None else (self._bound_is_proved(), self.bound)
        is_better = old is None or new > old
        if is_better:
            self._note("bound", bound, by or job.label)
        if is_better or (new == old and (kind == "certificate" or self._is_first())):
            self.bound, self.bounded_by = bound, job
            self.kind = kind or WAYS[job.formulation, job.solver].proves

    def decided(self) -> Stop | None:
        """Return why the workers can stop, if they can."""
        if self.value is None or self.bound is None or not self._bound_is_proved():
            return None
        if self._is_first() and not self.heard and self.bound <= self.value:  # above it is a contradiction
            return None
        if self.bound >= self.value:
            return "proved"
        room = None if self.gap is None or self.bound <= 0 else Fraction(self.gap) * self.bound
        is_close = room is not None and self.value - self.bound <= room
        return "stopped early" if is_close or self.answer() != "unknown" else None

    def answer(self) -> str:
        """Return whether a schedule of at most `target` exists: yes, no or unknown."""
        if self.target is None:
            return "unknown"
        if self.value is not None and self.value <= self.target:
            return "yes"
        return "no" if self._bound_is_proved() and self.bound is not None and self.bound > self.target else "unknown"

    def _bound_is_proved(self) -> bool:
        """Whether the bound holds for schedules of any number of batches."""
        return self.bounded_by is not None and self._proves(self.bounded_by)

    def _proves(self, job: SolveJob) -> bool:
        """Whether the job looks at all schedules."""
        return job.label in self.horizons and self.horizons[job.label].sufficient

    def _is_first(self) -> bool:
        """Whether the bound was there before the workers."""
        return self.bounded_by is not None and self.bounded_by.solver == "bounds"

    def report(self) -> None:
        """Show progress to the caller, ten times a second at the most."""
        if self.progress is not None and self.seconds > self.reported + 0.1:
            self.reported = self.seconds
            self.progress(self.value, self.bound, self.seconds)

    def result(self, ends: list[Done | Failed], why: str, *, named: bool = True) -> Result:
        """Make the result; if no worker could even start on it, raise what the first one said.

        Unless a way was named, a bound that was proved all the same is a result.
        """
        failures = [end for end in ends if isinstance(end, Failed)]
        if _declined(ends) and (named or self.bound is None):
            raise (MissingTool if failures[0].why == "missing tool" else BadInput)(failures[0].message)
        is_proved = self._bound_is_proved() and self.value == self.bound
        failed = DECLINED if _declined(ends) else "solver failure"
        ended = min((end.stop for end in ends if isinstance(end, Done)), key=lambda stop: stop != "time limit",
                    default=failed)  # fmt: skip
        stopped: str = "proved" if is_proved else self.decided() or ended
        job = self.claimant or self.bounded_by or self.job
        certified = self.certificate is not None and self.certificate.value == self.bound
        by_word = None if self.bounded_by is None else self.bounded_by.label
        version = SOLVERS[job.solver].version() if job.solver in SOLVERS else kvcore.__version__
        return Result(
            self.instance,
            self.objective,
            schedule=self.schedule,
            claimed=self.claimed,
            bound=self.bound,
            bound_kind="certificate" if certified else self.kind,
            certificate=self.certificate,
            found_by=self.found_by,
            proved_by=self.certified_by if certified else by_word,
            horizon=self._horizon(self.bounded_by or self.job),
            formulation=job.formulation,
            solver=SolverInfo(job.solver, version, job.threads, job.seed),
            seconds=self.seconds,
            stopped="interrupted" if self.interrupted else stopped,
            extra=self._extra(failures, why),
        )

    def _horizon(self, job: SolveJob) -> Horizon:
        """Return the horizon of the bound; a search has none, so the batches of the schedule stand there."""
        unknown = Horizon(0, False, "there was no time to say how many batches are enough")
        horizon = self.horizons.get(job.label, unknown)
        if horizon.sufficient and not horizon.batches and self.schedule is not None:
            return replace(horizon, batches=len(self.schedule.batches))
        return horizon

    def _extra(self, failures: list[Failed], why: str) -> dict[str, Any]:
        extra: dict[str, Any] = {"chosen": why, "log": self.log, **self.certifying}
        if self.target is not None:
            extra["better_than"] = {"target": str(self.target), "answer": self.answer()}
        if self.sizes:
            extra["model"] = {
                name: {"rows": size.rows, "columns": size.columns, "nonzeros": size.nonzeros}
                for name, size in self.sizes.items()
            }
        if self.job.constraints:
            extra["constraints"] = [name_of(constraint) for constraint in unpack(self.job.constraints)]
        if self.job.options:
            extra["options"] = self.job.options
        if self.rejected:
            extra["rejected"] = self.rejected
        if failures or self.notes:
            extra["failed"] = [*self.notes, *(failure.message for failure in failures)]
        return extra
