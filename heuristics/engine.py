"""The one engine: runs a policy batch by batch on an instance, and has the referee look at every batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from heuristics.alone import Alone
from heuristics.job import Job
from heuristics.min_waste import believed_requests, fix_free_calls, with_min_waste_handlings
from heuristics.outlook import Outlook
from heuristics.plan import Plan
from heuristics.policy import Policy
from heuristics.view import View
from kvbound.errors import BadInput
from kvbound.files import first_error
from kvbound.instance import Instance, Request
from kvbound.schedule import Batch, Schedule
from kvbound.trace import Trace
from kvbound.validator import Execution, InvalidSchedule, verify_schedule


class PolicyError(BadInput):
    """A policy made a batch that breaks `rule` (1 to 11), or it raised an error (`rule` None), in `batch` (from 0)."""

    def __init__(self, policy: str, batch: int, rule: int | None, detail: str) -> None:
        self.policy, self.batch, self.rule = policy, batch, rule
        what = "fails" if rule is None else f"breaks R{rule}"
        super().__init__(f"policy {policy} {what} in batch {batch}: {detail}")


def run_policy(instance: Instance, policy: Policy, predictions: Instance | None = None) -> Schedule:
    """Run a policy on an instance and return its schedule, which the referee has passed.

    `predictions` is the instance as the policy believes it to be (None: as it is): the same requests with other
    lengths and call durations. It changes what a `Job` says of its future, and the handlings chosen for free calls.
    The admission test and the budgets take the true sizes: a wrong prediction costs time, never feasibility.

    Raises:
        PolicyError: the policy broke a rule, raised an error, stalled, or goes on without generating anything.
        BadInput: `predictions` has other requests.
    """
    return trace_policy(instance, policy, predictions).schedule


def trace_policy(instance: Instance, policy: Policy, predictions: Instance | None = None) -> Trace:
    """Run a policy as `run_policy` does, and return the trace of its schedule (`Trace.schedule`)."""
    handled = _handled(instance, policy, predictions)
    batches = _Run(handled, policy, believed_requests(handled, predictions)).batches()
    # Free calls allow what the handlings fixed for the run have ordered, so the schedule is one for `instance`.
    return verify_schedule(instance, Schedule(instance_sha256=instance.sha256, batches=tuple(batches)))


def _handled(instance: Instance, policy: Policy, predictions: Instance | None) -> Instance:
    """Return the instance with its free calls fixed as the policy wants them."""
    if policy.free_calls == "own":
        return instance
    if policy.free_calls == "preserve":
        return fix_free_calls(instance, lambda request, k: "preserve")
    return with_min_waste_handlings(instance, predictions)


class _Run:
    """One run. The referee's execution has the exact state; the jobs are the policy's copies of it."""

    def __init__(self, instance: Instance, policy: Policy, believed: list[Request]) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.policy = policy
        self.execution = Execution(instance)
        self.outlooks, ahead = _outlooks(instance, policy, believed)
        self.states = list(self.execution.states.values())
        self.jobs = [Job(state, outlook) for state, outlook in zip(self.states, ahead, strict=True)]
        self.to_come = sorted(self.jobs, key=lambda job: (job.arrival, job.index), reverse=True)
        self.present: list[Job] = []  # arrived and not done, in order of arrival
        self.worked: list[Job] = []  # in the batch before
        self.called: list[Job] = []  # in a call that the batch before has started
        self.now = 0
        self.quiet = 0  # batches since a token was generated

    def batches(self) -> list[Batch]:
        """Run to the end and return the batches."""
        batches: list[Batch] = []
        with self.blaming_the_policy():
            self.policy.start(View(self.machine, self.instance.cost))
        while self.to_come or self.present:
            view = self.look()
            plan = Plan(view, self.free_blocks(), self.outlooks)
            self.make_ordered_moves(plan)
            ordered = set(plan.dropped)
            with self.blaming_the_policy():
                self.policy.decide(view, plan)
            if plan.work or plan.swapped_out or plan.swapped_in or plan.dropped.keys() != ordered:
                batches.append(self.execute(plan))
            else:
                self.wait()
        return batches

    @contextmanager
    def blaming_the_policy(self) -> Iterator[None]:
        """Turn whatever the policy raises into one clear error."""
        try:
            yield
        except Exception as error:
            raise self.fail(None, f"{type(error).__name__}: {error}") from error

    def fail(self, rule: int | None, detail: str) -> PolicyError:
        return PolicyError(self.policy.name, len(self.execution.batches), rule, detail)

    # --- before the batch ----------------------------------------------------------------------------------------

    def look(self) -> View:
        """Let requests arrive and calls end up to the present tick, and return what the policy sees."""
        arrived = []
        while self.to_come and self.to_come[-1].arrival <= self.now:
            arrived.append(self.to_come.pop())
        self.present += arrived
        returned = sorted(position for end, position, _ in self.execution.running_calls if end <= self.now)
        self.execution.end_calls(self.now)
        for position in returned:
            self.jobs[position].refresh(self.states[position], self.now)
        called, self.called = self.called, []
        return View(
            self.machine,
            self.instance.cost,
            now=self.now,
            batch=len(self.execution.batches),
            jobs=tuple(self.present),
            ready=[job for job in self.present if not job.calling],
            must_work=[] if self.machine.pause else [self.jobs[state.position] for state in self.execution.continuing],
            arrived=arrived,
            called=called,
            returned=[self.jobs[position] for position in returned],
        )

    def free_blocks(self) -> int | None:
        """Device blocks that nobody holds before the moves."""
        return None if self.machine.block_limit is None else self.machine.block_limit - self.execution.blocks

    def make_ordered_moves(self, plan: Plan) -> None:
        """Make the moves that R9 orders in this batch: all KV held when the call started is dropped or swapped out."""
        for state in self.execution.due:
            job = self.jobs[state.position]
            job.refresh(state, self.now)  # the plan of an earlier, idle boundary has moved the copy only
            if job.handling == "discard":
                plan.drop(job)
            else:
                plan.swap_out(job)

    def wait(self) -> None:
        """Idle until the next arrival or the next end of a call."""
        events = [end for end, _, _ in self.execution.running_calls[:1]]
        events += [job.arrival for job in self.to_come[-1:]]
        if not events:
            ids = ", ".join(job.id for job in self.present[:5]) + (", .." if len(self.present) > 5 else "")
            raise self.fail(11, f"it waits although nothing is to come, and {ids} are not done")
        self.now = min(events)

    # --- the batch -----------------------------------------------------------------------------------------------

    def execute(self, plan: Plan) -> Batch:
        """Execute the batch under the referee's rules, and bring the copies to the tick of its end."""
        execution = self.execution
        try:
            batch = plan.batch(self.now)
            execution.execute(batch)
        except ValidationError as error:
            raise self.fail(None, first_error(error)) from error
        except InvalidSchedule as broken:
            who = "" if broken.request is None else f"request {broken.request}: "
            raise self.fail(broken.rule, who + broken.detail) from broken
        self.now = execution.end
        self.refresh({**batch.drop, **batch.swap_out, **batch.swap_in, **batch.work})
        for job in self.worked:
            job.worked = False
        self.worked = [self.jobs[execution.states[id].position] for id in batch.work]
        for job in self.worked:
            job.worked = True
        self.check_progress(execution.batches[-1].features.generated)
        return batch

    def refresh(self, touched: Iterable[str]) -> None:
        """Copy the state of the requests that the batch has touched."""
        last, done = len(self.execution.batches) - 1, False
        for id in touched:
            state = self.execution.states[id]
            job = self.jobs[state.position]
            job.refresh(state, self.now)
            done |= state.trace.completion >= 0
            if state.call is not None and state.call.batch == last:
                self.called.append(job)
        if done:
            self.present = [job for job in self.present if self.states[job.index].trace.completion < 0]

    def check_progress(self, generated: int) -> None:
        """Refuse a policy that moves KV in and out for ever.

        Without evictions, each batch between two tokens prefills a token or makes a call's transfer; four times as
        many batches are allowed.
        """
        self.quiet = 0 if generated else self.quiet + 1
        if self.quiet.bit_count() == 1 and self.quiet > 64 + 4 * sum(job.known + 2 for job in self.present):
            raise self.fail(11, f"it loops: the last {self.quiet} batches have generated no token")


def _outlooks(
    instance: Instance, policy: Policy, believed: list[Request]
) -> tuple[list[Outlook] | None, list[Outlook | None]]:
    """Return what truly lies ahead of each request, for the admission test, and what the policy knows of it."""
    if policy.knows == "online":
        return None, [None] * len(believed)
    alone = Alone(instance.machine, instance.cost)
    truth = [Outlook(request, alone) for request in instance.requests]
    ahead = [
        outlook if guess is request else Outlook(guess, alone)
        for request, guess, outlook in zip(instance.requests, believed, truth, strict=True)
    ]
    return truth, list(ahead)
