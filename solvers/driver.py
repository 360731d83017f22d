"""Solve an instance: choose formulations and solvers, run them in worker processes, believe only the referee."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import kvcore
from formulations.horizon import sufficient_batches
from heuristics import best_schedule, get_policy, run_policy, trace_policy
from heuristics.predictions import predictions as believed
from kvcore.certificates import Certificate
from kvcore.coarsen import fine_bound
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.result import BoundKind, Horizon, Result, SolverInfo
from kvcore.schedule import Schedule
from solvers.choice import choose
from solvers.pool import race
from solvers.registry import solver_version
from solvers.task import Bound, Done, Failed, Found, Message, Size, Stop, Task

WITHOUT_HORIZON = {
    "search": "the search goes through states, whatever the number of batches",
    "start-time on highs": "some optimal schedule ends within the ticks looked at (docs/start_time.md, Horizon)",
    "arc-flow on repair": "its bound is that of the first prices, and counts ways of any length",
    "arc-flow on lagrange": "the bound counts ways of any length, and what is fixed leaves no way beyond the slots",
}
"""Tasks, by their labels, that look at all schedules, and why."""

NO_TIME_LIMIT = 10.0**9
MEMORY_LIMIT = 8000
"""MiB that one worker process may use unless told otherwise."""

EXACT = ("search", "arc-flow on lagrange", "arc-flow on repair")
"""Tasks whose bounds are exact integers of kvbound's own."""

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
    progress: Progress | None = None,
) -> Result:
    """Return the best schedule found and the best bound proved, optimal if they meet.

    `handling="free"` frees every call. `time_limit` is in seconds, `memory_limit` in MiB for each worker process.
    `gap` and `target` stop early: at (value - bound) / bound <= gap, or when it is decided whether a schedule of at
    most `target` exists. `warm_start` is "best" (the best policy), a policy's name, or "none". Ctrl-C ends the solve
    with what was found so far (`stopped` is "interrupted").

    Raises BadInput for an option that makes no sense and MissingTool for a solver that is not there.
    """
    started = time.monotonic()
    check_objective(objective)
    instance = free_calls(instance, handling)
    choice = choose(instance, objective, formulation, solver)
    reference, start = _starting_schedules(instance, objective, warm_start)
    upper_bound = objective_value(verify_schedule(instance, reference), objective)
    run = _Run(instance, objective, started, gap, target, progress)
    if start is not None:
        run.accept(start)
    limit = NO_TIME_LIMIT if time_limit is None else max(0.1, time_limit - (time.monotonic() - started))
    for (name, backend), delay in choice.delays:
        task = Task(instance, objective, name, backend, None, upper_bound, start, limit, memory_limit, threads, seed)
        run.horizons[task.label] = _horizon(task, upper_bound)
        run.tasks.append(replace(task, batches=run.horizons[task.label].batches, delay=delay))
    ends = race(run.tasks, run.receive, run.decided, tick=run.report, best_known=lambda: run.value)
    return run.result(ends, choice.why, named=choice.named)


def simulate_policy(
    instance: Instance,
    policy: str,
    objective: str = "total-flow-time",
    *,
    handling: str = "as-given",
    predictions: str = "exact",
    seed: int = 0,
) -> Result:
    """Return the schedule of a policy as a result, executed by the referee (no bound).

    `predictions` is what the policy believes of the requests (`heuristics.predictions`), drawn with `seed`.
    """
    started = time.monotonic()
    check_objective(objective)
    instance = free_calls(instance, handling)
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


def _starting_schedules(instance: Instance, objective: str, warm_start: str) -> tuple[Schedule, Schedule | None]:
    """Return a schedule that bounds the horizon, and the one to start from (or none)."""
    if warm_start in ("best", "none"):
        _, schedule, _ = best_schedule(instance, objective)
        return schedule, schedule if warm_start == "best" else None
    schedule = trace_policy(instance, get_policy(warm_start)).expanded()
    return schedule, schedule


def _horizon(task: Task, upper_bound: Value) -> Horizon:
    if task.label in WITHOUT_HORIZON:
        return Horizon(0, True, WITHOUT_HORIZON[task.label])
    return sufficient_batches(task.instance, task.objective, upper_bound)


class _Run:
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
        self.horizons: dict[str, Horizon] = {}  # by the label of the task
        self.schedule: Schedule | None = None
        self.claimed: Value | None = None
        self.value: Value | None = None
        self.found_by: Task | None = None
        self.bound: Value | None = None
        self.bounded_by: Task | None = None
        self.kind: BoundKind | None = None
        self.certificate: Certificate | None = None
        self.rejected: list[str] = []
        self.sizes: dict[str, Size] = {}

    def receive(self, task: Task, message: Message) -> None:
        """Take in what a worker reports."""
        if isinstance(message, Found):
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
        value = objective_value(verify_schedule(self.instance, schedule), self.objective)
        if self.value is None or value < self.value:
            self.schedule, self.claimed, self.value, self.found_by = schedule, claimed, value, task

    def tighten(self, bound: Value, task: Task, kind: BoundKind | None = None) -> None:
        """Keep a bound if it is the best; one with a proved horizon beats any without."""
        old = self.bounded_by
        proved = self.horizons[task.label].sufficient
        old_proved = old is not None and self.horizons[old.label].sufficient
        if self.bound is None or (proved and not old_proved) or (proved == old_proved and bound > self.bound):
            self.bound, self.bounded_by = bound, task
            self.kind = kind or ("exhaustive" if task.label in EXACT else "solver")

    def decided(self) -> Stop | None:
        """Return why the workers can stop, if they can."""
        if self.value is None or self.bound is None or not self._bound_is_proved():
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
        return self.bounded_by is not None and self.horizons[self.bounded_by.label].sufficient

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
        stopped: str = self.decided() or next((end.stop for end in ends if isinstance(end, Done)), "solver failure")
        task = self.bounded_by or self.found_by or self.tasks[0]
        return Result(
            self.instance,
            self.objective,
            schedule=self.schedule,
            claimed=self.claimed,
            bound=self.bound,
            bound_kind=self.kind,
            certificate=self.certificate,
            horizon=self._horizon(task),
            formulation=task.formulation,
            solver=SolverInfo(task.solver, solver_version(task.solver), task.threads, task.seed),
            seconds=time.monotonic() - self.started,
            stopped=stopped,
            extra=self._extra(failures, why),
        )

    def _horizon(self, task: Task) -> Horizon:
        """Return the horizon of the bound; a search has none, so the batches of the schedule stand there."""
        horizon = self.horizons[task.label]
        if task.label in WITHOUT_HORIZON and self.schedule is not None:
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
        if self.instance.coarsening is not None and isinstance(self.bound, int) and self._bound_is_proved():
            extra["fine_bound"] = fine_bound(self.instance, self.objective, self.bound)
        if self.rejected:
            extra["rejected"] = self.rejected
        if failures:
            extra["failed"] = [failure.message for failure in failures]
        return extra
