"""Solve an instance: choose formulations and solvers, run them in worker processes, believe only the referee."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import kvcore
from heuristics import PolicyError, Unsuited, better_traces, get_policy, run_policy, trace_policy
from heuristics import predictions as believed
from kvcore.certificates import Alone, Certificate, certify
from kvcore.coarsen import fine_bound
from kvcore.cost import Features, OwnCost
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import BoundKind, Horizon, Result, SolverInfo
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.choice import choose
from solvers.packing import name_of, pack, unpack
from solvers.pool import race
from solvers.task import Bound, Done, Failed, Found, Message, Size, Stop, Task
from solvers.ways import SOLVERS, WAYS

NO_TIME_LIMIT = 10.0**9
MEMORY_LIMIT = 8000
"""MiB that one worker process may use unless told otherwise."""

POLICIES = 0.25
"""Of the time limit, what policies may take that are run for a schedule to start from, after the first one."""
WRITTEN_OUT = 50_000
"""Batches up to which the schedule to start from is written out; longer ones are held as the policy gave them."""
SEGMENTS = 100_000
"""Of all requests together, up to which the first bound is computed: it takes seconds then."""

Progress = Callable[[Value | None, Value | None, float], None]
"""Called several times a second with the best value, the best bound, and the seconds since the start."""


def solve(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    formulation: str = "auto",
    solver: str = "auto",
    handling: str = "as-given",
    time_limit: float | None = None,
    gap: float | None = None,
    target: Value | None = None,
    warm_start: str = "best",
    threads: int = 1,
    seed: int = 0,
    memory_limit: int = MEMORY_LIMIT,
    constraints: Sequence[Callable[[Any], Any]] = (),
    progress: Progress | None = None,
) -> Result:
    """Return the best schedule found and the best bound proved, optimal if they meet.

    `handling="free"` frees every call. `time_limit` is in seconds, `memory_limit` in MiB for each worker process.
    `gap` and `target` stop early: at (value - bound) / bound <= gap, or when it is decided whether a schedule of at
    most `target` exists. `warm_start` is "best" (the best policy), a policy's name (`serial` stands in for one that
    does not end in its part of the time, and the result says so), or "none". Ctrl-C ends the solve with what was
    found so far (`stopped` is "interrupted").

    The bound `alone` (see `bounds`) and a policy's schedule are there before any worker process is, so that a limit
    leaves both whatever becomes of the workers.

    Each of `constraints` is called with the Pyomo model of `batch-bigm` and adds rows to it, or returns them; value and
    bound are then those of the problem with these rows (docs/model.md). cloudpickle pickles them, lambdas too.

    Raises BadInput for an option that makes no sense and MissingTool for a solver that is not there.
    """
    started = time.monotonic()
    check_objective(objective)
    instance.cost.check_linear()
    instance = free_calls(instance, handling)
    if constraints and not formulation.startswith("batch-bigm"):
        if formulation != "auto":
            raise BadInput(f"constraints are added to batch-bigm, not to {formulation}")
        formulation = "batch-bigm"
    choice = choose(instance, objective, formulation, solver)
    limit = NO_TIME_LIMIT if time_limit is None else time_limit
    run = _Solve(instance, objective, started, gap, target, progress)
    packed = pack(constraints) if constraints else b""
    task = Task(instance, objective, "", "", None, None, None, limit, memory_limit, threads, seed, constraints=packed)
    run.tasks = [
        replace(task, formulation=way.formulation, solver=way.solver.name, delay=delay) for way, delay in choice.delays
    ]
    ends: list[Done | Failed] = [Done("interrupted", "")]
    with suppress(KeyboardInterrupt):
        run.bound_alone()
        upper_bound, start = run.run_policies(warm_start, lambda: time.monotonic() < started + POLICIES * limit)
        remaining = max(0.1, limit - (time.monotonic() - started))
        tasks = [replace(task, upper_bound=upper_bound, start=start, time_limit=remaining) for task in run.tasks]
        ends = race(tasks, run.receive, run.decided, tick=run.report, best_known=lambda: run.value)
    return run.result(ends, choice.why, named=choice.named)


def simulate_policy(
    instance: Instance,
    policy: str,
    objective: str = "total-flow-time",
    *,
    handling: str = "as-given",
    predictions: str = "exact",
    seed: int = 0,
    cost: Callable[[Features], float | Fraction] | None = None,
) -> Result:
    """Return the schedule of a policy as a result, executed by the referee (no bound).

    `predictions` is what the policy believes of the requests (`heuristics.predictions`), drawn with `seed`. `cost`, in
    place of that of the instance, gives the ticks of a batch from its `Features`, rounded up and at least 1
    (`OwnCost`); the instance of the result has it.
    """
    started = time.monotonic()
    check_objective(objective)
    instance = free_calls(instance if cost is None else instance.replace(cost=OwnCost(cost)), handling)
    chosen = get_policy(policy)
    schedule = run_policy(instance, chosen, believed(predictions, instance, seed))
    seconds = time.monotonic() - started
    info = SolverInfo("policy", kvcore.__version__)
    return Result(
        instance, objective, schedule=schedule, solver=info, policy=chosen.name, seconds=seconds, stopped="ended"
    )


def free_calls(instance: Instance, handling: str) -> Instance:
    """Return the instance with its calls as given or free (`--handling`)."""
    if handling not in ("as-given", "free"):
        raise BadInput(f"handling is as-given or free, not {handling!r}")
    return instance.with_free_calls() if handling == "free" else instance


class _Solve:
    """What is known while the workers run: the best schedule, the best bound, and where each comes from."""

    def __init__(
        self,
        instance: Instance,
        objective: str,
        started: float,
        gap: float | None,
        target: Value | None,
        progress: Progress | None,
    ) -> None:
        self.instance, self.objective = instance, objective
        self.started, self.gap, self.target, self.progress = started, gap, target, progress
        self.tasks: list[Task] = []
        self.horizons = {way.label: Horizon(0, True, way.horizon) for way in WAYS.values() if way.horizon}
        self.schedule: Schedule | None = None
        self.claimed: Value | None = None
        self.value: Value | None = None
        self.found_by: Task | None = None
        self.bound: Value | None = None
        self.bounded_by: Task | None = None
        self.kind: BoundKind | None = None
        self.alone: Certificate | None = None
        self.certificate: Certificate | None = None
        self.notes: list[str] = []
        self.rejected: list[str] = []
        self.sizes: dict[str, Size] = {}

    def bound_alone(self) -> None:
        """Prove what takes no time: that no request is faster than alone."""
        if (segments := sum(len(request.segments) for request in self.instance.requests)) > SEGMENTS:
            self.notes.append(f"no bound before the workers start: {segments} segments are more than {SEGMENTS}")
            return
        self.alone = certify(self.instance, self.objective, Alone())
        task = replace(self.tasks[0], formulation="alone", solver="bounds")
        self.horizons[task.label] = Horizon(0, True, self.alone.horizon)
        self.tighten(self.alone.value, task, "certificate")

    def run_policies(self, warm_start: str, go_on: Callable[[], bool]) -> tuple[Value, Schedule | None]:
        """Return the value of a schedule that bounds the horizon, and the schedule to start from (or none)."""
        best: Trace | None = None
        try:
            for trace in self._traces(warm_start, go_on):
                best = trace
        finally:  # Ctrl-C, too, keeps what is there
            if best is not None and warm_start != "none":
                few = sum(batch.repeat for batch in best.schedule.batches) <= WRITTEN_OUT
                self.accept(best.expanded() if few else best.schedule)
        assert best is not None  # for mypy: there is one, or an error
        return objective_value(best, self.objective), self.schedule if self.schedule and few else None

    def _traces(self, warm_start: str, go_on: Callable[[], bool]) -> Iterator[Trace]:
        """Yield traces, the one to start from last; that of `serial` is first, because it is there at once."""
        if warm_start in ("best", "none"):
            yield from (trace for _, trace in better_traces(self.instance, self.objective, None, go_on))
            return
        named, serial = get_policy(warm_start), None
        with suppress(Unsuited, PolicyError):  # what the named one says counts
            serial = trace_policy(self.instance, get_policy("serial"))
            yield serial
        try:
            yield trace_policy(self.instance, named, go_on=go_on)
        except PolicyError:
            if serial is None or go_on():
                raise
            self.notes.append(f"{named.name} did not end in its part of the time limit: serial stands in for it")

    def receive(self, task: Task, message: Message) -> None:
        """Take in what a worker reports."""
        if isinstance(message, Horizon):
            self.horizons[task.label] = message
        elif isinstance(message, Found):
            try:
                self.accept(message.schedule, message.claimed, task)
            except InvalidSchedule as broken:
                self.rejected.append(f"{task.label}: {broken}")
        elif isinstance(message, Bound):
            self.tighten(message.value, task, message.kind)
            if message.certificate and (not self.certificate or message.value > self.certificate.value):
                self.certificate = message.certificate
        elif isinstance(message, Size):
            self.sizes[task.formulation] = message

    def accept(self, schedule: Schedule, claimed: Value | None = None, task: Task | None = None) -> None:
        """Let the referee execute a schedule and keep it if it is the best so far."""
        if task is None and self.tasks[0].constraints:
            return  # a policy knows nothing of them
        value = objective_value(verify_schedule(self.instance, schedule), self.objective)
        if self.value is None or value < self.value:
            self.schedule, self.claimed, self.value, self.found_by = schedule, claimed, value, task

    def tighten(self, bound: Value, task: Task, kind: BoundKind | None = None) -> None:
        """Keep a bound if it is the best; one with a proved horizon beats any without, any other beats `alone`."""
        new = (self._proves(task), bound)
        old = None if self.bound is None else (self._bound_is_proved(), self.bound)
        if old is None or new > old or (new == old and self._is_alone()):
            self.bound, self.bounded_by = bound, task
            self.kind = kind or ("exhaustive" if WAYS[task.formulation, task.solver].exact else "solver")

    def decided(self) -> Stop | None:
        """Return why the workers can stop, if they can."""
        if self.value is None or self.bound is None or not self._bound_is_proved() or self._is_alone():
            return None
        if self.bound >= self.value:
            return "proved"
        if self.answer() != "unknown":
            return "stopped early"
        if (
            self.gap is not None
            and self.bound > 0
            and Fraction(self.value - self.bound) <= Fraction(self.gap) * self.bound
        ):
            return "stopped early"
        return None

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

    def _proves(self, task: Task) -> bool:
        """Whether the task looks at all schedules."""
        return task.label in self.horizons and self.horizons[task.label].sufficient

    def _is_alone(self) -> bool:
        """Whether the bound is the one that was there before the workers; they are heard before anything is decided."""
        return self.bounded_by is not None and self.bounded_by.formulation == "alone"

    def report(self) -> None:
        """Show progress to the caller."""
        if self.progress is not None:
            self.progress(self.value, self.bound, time.monotonic() - self.started)

    def result(self, ends: list[Done | Failed], why: str, *, named: bool = True) -> Result:
        """Make the result; if no worker could even start on it, raise what the first one said.

        Unless a way was named, a bound that was proved all the same is a result.
        """
        failures = [end for end in ends if isinstance(end, Failed)]
        declined = len(failures) == len(ends) and failures[0].why != "crash"
        if declined and (named or self.bound is None):
            raise (MissingTool if failures[0].why == "missing tool" else BadInput)(failures[0].message)
        is_proved = self._bound_is_proved() and self.value == self.bound
        stopped: str = (
            "proved"
            if is_proved
            else self.decided() or next((end.stop for end in ends if isinstance(end, Done)), "solver failure")
        )
        task = self.bounded_by or self.found_by or self.tasks[0]
        version = SOLVERS[task.solver].version() if task.solver in SOLVERS else kvcore.__version__
        return Result(
            self.instance,
            self.objective,
            schedule=self.schedule,
            claimed=self.claimed,
            bound=self.bound,
            bound_kind=self.kind,
            certificate=self.alone if self._is_alone() else self.certificate,
            horizon=self._horizon(task),
            formulation=task.formulation,
            solver=SolverInfo(task.solver, version, task.threads, task.seed),
            seconds=time.monotonic() - self.started,
            stopped=stopped,
            extra=self._extra(failures, why),
        )

    def _horizon(self, task: Task) -> Horizon:
        """Return the horizon of the bound; a search has none, so the batches of the schedule stand there."""
        unknown = Horizon(0, False, "there was no time to say how many batches are enough")
        horizon = self.horizons.get(task.label, unknown)
        if horizon.sufficient and not horizon.batches and self.schedule is not None:
            return replace(horizon, batches=len(self.schedule.batches))
        return horizon

    def _extra(self, failures: list[Failed], why: str) -> dict[str, Any]:
        extra: dict[str, Any] = {"chosen": why}
        if self.target is not None:
            extra["better_than"] = {"target": str(self.target), "answer": self.answer()}
        if self.sizes:
            extra["model"] = {
                name: {"rows": size.rows, "columns": size.columns, "nonzeros": size.nonzeros}
                for name, size in self.sizes.items()
            }
        if self.tasks[0].constraints:
            extra["constraints"] = [name_of(constraint) for constraint in unpack(self.tasks[0].constraints)]
        elif self.instance.coarsening is not None and isinstance(self.bound, int) and self._bound_is_proved():
            extra["fine_bound"] = fine_bound(self.instance, self.objective, self.bound)
        if self.rejected:
            extra["rejected"] = self.rejected
        if failures or self.notes:
            extra["failed"] = [*self.notes, *(failure.message for failure in failures)]
        return extra
