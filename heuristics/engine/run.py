"""The engine: runs a policy batch by batch; the referee checks every batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf
from typing import Any

from heuristics.engine.demand import Demand, SoloEstimate
from heuristics.engine.guarded import alarmed, guarded, too_long, without_exit
from heuristics.engine.job import Job
from heuristics.engine.min_waste import believed_requests, fix_free_calls, with_min_waste_handlings
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.sharing import Sharing
from heuristics.engine.view import View
from kvcore.decode_stream import StreamExecution
from kvcore.errors import BadInput, in_one_line
from kvcore.instance import LIMIT, Instance, Request
from kvcore.referee import garbage_collection_paused, verify_schedule
from kvcore.rules import RULES, InvalidSchedule
from kvcore.schedule import Batch, Schedule
from kvcore.state import DONE
from kvcore.trace import Trace


class Unsuited(BadInput):
    """A policy cannot run on this machine or these requests, or gave up KV that the machine cannot compute again.

    `start` and `decide` raise it with the reason alone.
    """


class PolicyError(BadInput):
    """A policy made a batch that breaks `rule` (1 to 11), or it raised an error (`rule` None), in `batch` (from 0)."""

    def __init__(self, policy: str, batch: int, rule: int | None, detail: str) -> None:
        self.policy, self.batch, self.rule = policy, batch, rule
        what = "fails" if rule is None else f"breaks the {RULES[rule]} rule R{rule}"
        super().__init__(f"policy {policy} {what} in batch {batch}: {detail}")


def run_policy(instance: Instance, policy: Policy, predictions: Instance | None = None) -> Schedule:
    """Run a policy on an instance and return its schedule, which the referee has passed.

    `predictions` is the instance as the policy believes it to be (None: as it is): the same requests with other lengths
    and call durations. It changes the future that a `Job` shows, and the handlings chosen for free calls. The admission
    test and the budgets take the true sizes: a wrong prediction costs time, never feasibility.

    Raises:
        Unsuited: the policy cannot run on this machine, or says in the run that it cannot go on.
        PolicyError: the policy broke a rule, raised an error, stalled, or goes on without generating anything.
        BadInput: `predictions` has other requests.
    """
    return trace_policy(instance, policy, predictions).schedule


def trace_policy(
    instance: Instance,
    policy: Policy,
    predictions: Instance | None = None,
    *,
    compress: bool = True,
    go_on: Callable[[], bool] = lambda: True,
) -> Trace:
    """Run a policy as `run_policy` does, and return the trace of its schedule (`Trace.schedule`).

    With `compress`, batches of decodes for which the policy would decide the same again (`Policy.steady`) become one
    repeated batch; written out, the schedule is the same. Where `go_on`, asked before every decision, says no, the run
    ends with a PolicyError.
    """
    with guarded(_file_of(policy), partial(PolicyError, policy.name, 0, None)):
        reason = policy.declines(instance)
    if reason is not None:
        raise Unsuited(f"policy {policy.name} cannot run on {instance.name}: {reason}")
    handled = _handled(instance, policy, predictions)
    run = _Simulation(handled, policy, believed_requests(handled, predictions), compress, go_on)
    with garbage_collection_paused(), alarmed(run.look_at_decision), without_exit():
        batches = run.batches()
    schedule = Schedule.model_construct(instance_sha256=instance.sha256, batches=tuple(batches))
    if handled is instance:
        return run.execution.trace(schedule)
    # Free calls allow what the handlings fixed for the run have ordered, so the schedule is one for `instance`.
    return verify_schedule(instance, schedule)


def _handled(instance: Instance, policy: Policy, predictions: Instance | None) -> Instance:
    if policy.free_calls == "own":
        return instance
    if policy.free_calls == "preserve":
        return fix_free_calls(instance, lambda request, k: "preserve")
    return with_min_waste_handlings(instance, predictions)


class _Simulation:
    def __init__(
        self,
        instance: Instance,
        policy: Policy,
        believed: list[Request],
        compress: bool,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.policy = policy
        self.compress, self.go_on = compress, go_on
        self.execution = StreamExecution(instance)
        self.demands, predicted = _demands(instance, policy, believed)
        self.jobs = [
            Job(self.execution, state, demand)
            for state, demand in zip(self.execution.states.values(), predicted, strict=True)
        ]
        shares = policy.shares and instance.contents
        self.sharing = Sharing(self.execution, self.jobs, policy.foresight) if shares else None
        self.to_come = sorted(self.jobs, key=lambda job: (job.arrival, job.index), reverse=True)
        self.present: dict[int, Job] = {}  # arrived and not done, by index, in order of arrival
        self.called: list[Job] = []  # in a call that the batch before has started
        self.ended: list[Job] = []  # done in the batch before
        self.decisions, self.looked = 0, -1  # so far, and when the alarm came last
        self.deciding = False
        self.now = 0
        self.quiet = 0  # batches since a token was generated
        blocks = 1 if instance.coarsening is None else instance.coarsening.block_tokens
        self.grid: dict[str, Any] = {"tick_seconds": instance.tick_seconds, "block_tokens": blocks}

    def batches(self) -> list[Batch]:
        batches: list[Batch] = []
        self.ask(self.policy.start, View(self.machine, self.instance.cost, **self.grid))
        while self.to_come or self.present:
            if not self.go_on():
                raise self.fail(None, "its time is over")
            view = self.look()
            plan = Plan(view, self.execution, self.demands, self.sharing)
            self.make_ordered_moves(plan)
            self.ask(self.policy.decide, view, plan)
            if plan.work or plan.swapped_out or plan.swapped_in or not self.can_wait(plan):
                batches.append(self.execute(view, plan))
                if self.compress and self.policy.drains and self.sharing is None:
                    batches += self.drain()
            else:
                self.wait(plan)
        return batches

    def ask(self, question: Callable[..., Any], *given: Any) -> Any:
        """Return the policy's answer; turn any error into one clear line."""
        self.decisions += 1
        self.deciding = True
        try:
            return question(*given)
        except Unsuited as error:
            raise Unsuited(f"policy {self.policy.name} cannot run on {self.instance.name}: {error}") from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.fail(None, in_one_line(error, _file_of(self.policy))) from error
        finally:
            self.deciding = False

    def look_at_decision(self, *_: object) -> None:
        """Raise if the decision of the last alarm still runs."""
        if self.deciding and self.looked == self.decisions:
            too_long("decided")
        self.looked = self.decisions

    def fail(self, rule: int | None, detail: str) -> PolicyError:
        return PolicyError(self.policy.name, self.execution.count, rule, detail)

    # --- before the batch ----------------------------------------------------------------------------------------

    def look(self) -> View:
        arrived = []
        while self.to_come and self.to_come[-1].arrival <= self.now:
            arrived.append(self.to_come.pop())
        for job in arrived:
            self.present[job.index] = job
        calls = self.execution.running_calls
        returned = []
        if calls and calls[0][0] <= self.now:
            returned = sorted(position for end, position, _ in calls if end <= self.now)
            self.execution.end_calls(self.now)
        called, self.called = self.called, []
        ended, self.ended = self.ended, []
        return View(
            self.machine,
            self.instance.cost,
            now=self.now,
            batch=self.execution.count,
            arrived=arrived,
            called=called,
            returned=[self.jobs[position] for position in returned],
            ended=ended,
            present=self.present.values(),
            to_come=lambda: [*self.to_come] if self.policy.knows == "clairvoyant" else [],
            continuing=lambda: [self.jobs[state.position] for state in self.execution.continuing],
            **self.grid,
        )

    def make_ordered_moves(self, plan: Plan) -> None:
        """Drop or swap out all KV held when the call started, as R9 orders."""
        for state in self.execution.due:
            job = self.jobs[state.position]
            if job.handling == "discard":
                plan.drop(job)
            else:
                plan.swap_out(job)

    def can_wait(self, plan: Plan) -> bool:
        """Whether all drops may as well happen later; a drop alone is no batch."""
        states = (self.execution.states[id] for id in plan.dropped)
        return all(state in self.execution.due or (state.window and state.handling == "free") for state in states)

    def next_event(self) -> float:
        calls = self.execution.running_calls
        return min(calls[0][0] if calls else inf, self.to_come[-1].arrival if self.to_come else inf)

    def wait(self, plan: Plan) -> None:
        """Idle until the next arrival or end of a call, if there is one.

        Raises:
            Unsuited: a request has more to prefill than any batch takes.
            PolicyError: otherwise.
        """
        event = self.next_event()
        if event == inf:
            jobs = list(self.present.values())
            self.check_prefills(jobs, plan)
            ids = ", ".join(job.id for job in jobs[:5]) + (", .." if len(jobs) > 5 else "")
            stuck = "" if self.machine.evict else " (the machine does not evict)"
            raise self.fail(11, f"it waits although nothing is to come, and {ids} are not done{stuck}")
        plan.undo()
        self.now = int(event)

    def check_prefills(self, jobs: Iterable[Job], plan: Plan) -> None:
        """Refuse a machine that does not split prefills, if one of these requests never gets a batch."""
        for job in jobs:
            if plan.never_takes(job):
                refill = " as its KV is dropped" if job.generated or job.segment else ""
                raise Unsuited(
                    f"policy {self.policy.name} cannot run on {self.instance.name}: request {job.id} has to prefill "
                    f"{job.missing} tokens{refill}, no batch takes more than {plan.longest_prefill}, and the machine "
                    f"does not split prefills (chunked)"
                )

    # --- the batch -----------------------------------------------------------------------------------------------

    def execute(self, view: View, plan: Plan) -> Batch:
        execution = self.execution
        if self.sharing is not None:
            self.ask(plan.forget)
        batch: Batch = self.ask(plan.batch, self.now)
        try:
            execution.execute_some(batch, 1)
        except InvalidSchedule as broken:
            who = "" if broken.request is None else f"request {broken.request}: "
            raise self.fail(broken.rule, who + broken.detail) from broken
        plan.undo()  # from now on the jobs show the state
        self.note_ends()
        repeats = self.repeat(view, plan) if self.compress and not (self.called or self.ended or plan.moves()) else 0
        self.now = execution.end
        self.check_progress(execution.runs[-1].features.generated)
        vars(batch).update(repeat=1 + repeats)
        return batch

    def repeat(self, view: View, plan: Plan) -> int:
        """Repeat a batch of decodes up to the next event, as long as the policy would; return how often."""
        if not self.execution.streams or self.execution.runs[-1].features.any_prefill:
            return 0  # a prefill's last token alone, which the rules call a decode, is none that goes on
        most = self.ask(self.policy.steady, view, plan) - 1
        return self.stretch(plan.work, most, self.next_event()) if most > 0 else 0

    def drain(self) -> Iterator[Batch]:
        """Let all decode up to the next event, if all that are ready do, and yield a batch for each that ends."""
        execution, event = self.execution, self.next_event()
        decodes = execution.stream.members
        while not self.called and len(decodes) == len(self.present) - len(execution.running_calls):
            batch = Batch.unchecked(execution.end, work=dict.fromkeys(decodes, 1))
            if not (repeats := self.stretch(batch.work, LIMIT, event)):
                break
            vars(batch).update(repeat=repeats)
            self.quiet, self.now = 0, execution.end
            yield batch

    def stretch(self, work: dict[str, int], most: int, event: float) -> int:
        """Let decodes go on, up to the next event; return for how many batches."""
        done = 0 if event <= self.execution.end else self.execution.stretch(work, most, event)
        if done:
            self.note_ends()
        return done

    def note_ends(self) -> None:
        for state in self.execution.ended:
            job = self.jobs[state.position]
            if state.status == DONE:
                self.ended.append(job)
                del self.present[job.index]
            else:
                self.called.append(job)

    def check_progress(self, generated: int) -> None:
        """Refuse a policy that moves KV in and out for ever.

        Without evictions, each batch between two tokens prefills a token or makes a call's transfer; four times as many
        may.
        """
        self.quiet = 0 if generated else self.quiet + 1
        if self.quiet.bit_count() == 1 and self.quiet > 64:
            most = 64 + 4 * sum(job.known + 2 for job in self.present.values())
            if self.quiet > most:
                raise self.fail(11, f"it loops: the last {self.quiet} batches have generated no token")


def _file_of(policy: Policy) -> str:
    return getattr(sys.modules.get(type(policy).__module__), "__file__", None) or ""


def _demands(
    instance: Instance, policy: Policy, believed: list[Request]
) -> tuple[list[Demand] | None, list[Demand | None]]:
    if policy.knows == "online":
        return None, [None] * len(believed)
    estimate = SoloEstimate(instance.machine, instance.cost)
    true_demands = [Demand(request, estimate) for request in instance.requests]
    predicted = [
        demand if guess is request else Demand(guess, estimate)
        for request, guess, demand in zip(instance.requests, believed, true_demands, strict=True)
    ]
    return true_demands, list(predicted)
