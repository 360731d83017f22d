"""Another scheduler's run as a schedule: on the log's clock, or on the model's."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.run import PolicyError, trace_policy
from heuristics.engine.view import View
from kvcore.decode_stream import StreamExecution
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.rules import InvalidSchedule
from kvcore.schedule import Batch, Schedule
from kvcore.state import RequestState
from kvcore.trace import Trace
from workloads.importers.run_log import MOVES, LoggedBatch, Restarts, RunLog, find_restarts, read_log

TOLERATED = {
    "early": "batches that start before the cost model says that the one before ends (rule R1)",
    "late": "batches that start later than the schedule's, which waits for nothing but arrivals and calls",
    "arrival": "work before the instance says that the request arrives: it waits (rule R2)",
    "done": "work on a request that has generated all its tokens: left out (rule R2)",
    "tokens": "work of more tokens than are to be processed: cut (rule R3)",
    "moves": "moves of more KV than is there: cut or left out (rule R10)",
    "empty": "batches with neither work nor a transfer: left out (rule R10)",
    "unfinished": "requests that are not done when the log ends: finished after it (rule R11)",
}
"""Differences allowed between a log and its schedule. A broken limit or switch of the machine is not."""


@dataclass
class LoggedDifference:
    """How often something differs, in which batch first, and the most ticks or tokens of one."""

    count: int
    first_batch: int
    largest: int = 0


@dataclass
class LoggedRun:
    """A scheduler's run: the schedule, its trace, the evictions read from the log, the differences by kind."""

    instance: Instance
    trace: Trace
    restarts: int  # evictions that the log does not name, read from requests that start again from their whole context
    differences: dict[str, LoggedDifference] = field(default_factory=dict)
    start_differences: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    """Seconds from the schedule's starts to the log's, counted from the first batch: the most, and the last."""

    @property
    def schedule(self) -> Schedule:
        """The schedule, which the referee has passed."""
        return self.trace.schedule


def read_run(instance: Instance, path: str | Path, preset: str | None = None, *, tolerate: bool = False) -> LoggedRun:
    """Read the log of another scheduler's run on `instance` as a schedule.

    Starts are the log's, to the nearest tick; with `tolerate`, each batch starts as early as the one before, arrivals
    and calls let it on the model's clock, and differences are counted. In a log without evictions restarts show them:
    KV was then dropped right after the request's last work, or the end of a call that keeps it; and the moves that a
    call's handling orders are made.

    Raises:
        InvalidSchedule: the first rule that it breaks; with `tolerate`, the first that is not tolerated.
        BadInput: the log is none, does not say enough, or names unknown requests.
    """
    log = _of_instance(instance, read_log(path, preset))
    found = Restarts({}, {}) if log.moves else find_restarts(instance, log.batches)
    count = sum(map(len, found.drops.values()))
    if not tolerate:
        return LoggedRun(instance, _execute(instance, log, found.drops), count)
    replayed = AsLogged(instance, log.batches, found)
    try:
        trace = trace_policy(instance, replayed)
    except PolicyError as error:
        raise error.__cause__ if isinstance(error.__cause__, InvalidSchedule) else error from None
    replayed.note_rest()
    starts = replayed.note_times(trace)
    return LoggedRun(instance, trace, count, replayed.differences, starts)


def _of_instance(instance: Instance, log: RunLog) -> RunLog:
    ids = [request.id for request in instance.requests]
    names = {str(k): id for k, id in enumerate(ids)} if log.numbered else {id: id for id in ids}
    batches = []
    for j, batch in enumerate(log.batches):
        parts = {name: getattr(batch, name) for name in ("work", *MOVES)}
        for part in parts.values():
            if not part.keys() <= names.keys():
                unknown = next(id for id in part if id not in names)
                known = ", ".join(list(names)[:3])
                raise BadInput(
                    f"{log.source}: batch {j} has a request {unknown!r} that {instance.name} does not have; its "
                    f"{len(ids)} requests are {known}, .."
                )
        named = {name: {names[id]: tokens for id, tokens in part.items()} for name, part in parts.items()}
        batches.append(batch.replace(**named) if log.numbered else batch)
    return log.replace(batches=tuple(batches))


# --- on the log's clock ----------------------------------------------------------------------------------------------


def _execute(instance: Instance, log: RunLog, dropped: dict[int, list[str]]) -> Trace:
    execution, made, pending = StreamExecution(instance), list[Batch](), set[str]()
    for j, logged in enumerate(log.batches):
        start = round(logged.start_s / instance.tick_seconds)
        asked: dict[str, dict[str, int | None]] = {name: dict(getattr(logged, name)) for name in MOVES}
        if not log.moves:
            states, due = execution.states, execution.due
            pending.update(dropped.get(j, ()))
            gone = {id for id in pending if not _kept(states[id], start, due)}
            pending -= gone
            asked["drop"] = dict.fromkeys(sorted(gone))
            for state in due:
                asked["drop" if state.handling == "discard" else "swap_out"][state.request.id] = None
            returning = {state.request.id for state in due if state.handling == "swap"}
            asked["swap_in"] = dict.fromkeys(id for id in logged.work if states[id].host or id in returning)
        amounts: dict[str, Any] = {
            name: {id: _held(execution, execution.states[id], name) if k is None else k for id, k in part.items()}
            for name, part in asked.items()
        }
        made.append(Batch(start=start, work=logged.work, **amounts))
        execution.execute(made[-1])
    return execution.trace(Schedule(instance_sha256=instance.sha256, batches=tuple(made)))


def _kept(state: RequestState, start: int, due: list[RequestState]) -> bool:
    if not state.window or state.handling == "free":
        return False
    return state in due or (state.call is not None and state.call.end > start)


def _held(execution: StreamExecution, state: RequestState, move: str) -> int:
    decoded = 0 if state.joined < 0 else execution.stream.steps - state.joined
    device = state.device + decoded
    back = device if state in execution.due and state.handling == "swap" else state.host  # out and in again
    return {"drop": device + state.host, "swap_out": device, "swap_in": back}[move]


# --- on the model's clock --------------------------------------------------------------------------------------------


class AsLogged(Policy):
    """The batches of a log, in its order; what is not done then is finished without further evictions where it can be.

    Running time: O(k) for a batch of k requests.
    """

    name = "as logged"
    source = "kvbound import run"
    knows = "clairvoyant"
    free_calls = "own"

    def __init__(self, instance: Instance, batches: tuple[LoggedBatch, ...], found: Restarts) -> None:
        self.instance, self.batches, self.found = instance, batches, found
        self.pending: set[str] = set()  # those whose KV, as their restart shows, is dropped before they work again
        self.to_come = {request.id for request in instance.requests}
        self.jobs: dict[str, Job] = {}
        self.ahead = Fraction(0)  # seconds by which the log's clock is ahead of the model's
        self.returns: dict[str, Fraction] = {}  # of the latest calls, in seconds on the log's clock
        self.next = 0
        self.places: dict[int, int] = {}  # the batch of the schedule that each batch of the log became
        self.differences: dict[str, LoggedDifference] = {}

    def differ(self, kind: str, batch: int, size: int = 0, count: int = 1) -> None:
        """Count a difference."""
        found = self.differences.setdefault(kind, LoggedDifference(0, batch))
        found.count += count
        found.largest = max(found.largest, size)

    def decide(self, view: View, plan: Plan) -> None:
        """Take the next batch of the log, once all its requests are there."""
        self.jobs.update((job.id, job) for job in view.arrived)
        self.to_come.difference_update(job.id for job in view.arrived)
        for job in view.ended:
            del self.jobs[job.id]
        tick = self.instance.tick_seconds
        self.returns.update((job.id, (job.call_end or 0) * tick + self.ahead) for job in view.called)
        while self.next < len(self.batches):
            logged = self.batches[self.next]
            self.pending.update(self.found.drops.get(self.next, ()))
            if self.waits(logged, plan):
                return
            self.next += 1
            self.ahead = logged.start_s - view.now * tick
            self.take(logged, plan)
            if plan.work or plan.swapped_out or plan.swapped_in:
                self.places[self.next - 1] = view.batch
                return
            self.differ("empty", self.next - 1)
        self.finish(view, plan)

    def waits(self, logged: LoggedBatch, plan: Plan) -> bool:
        """Whether one that works is to arrive or return, or one that is evicted had returned on the log's clock."""
        if not self.to_come.isdisjoint(logged.work):
            return True
        evicted = {*logged.drop, *logged.swap_out, *self.pending} - {*plan.dropped, *plan.swapped_out}
        jobs = [self.jobs[id] for id in evicted.union(logged.work) if id in self.jobs]
        slack = self.instance.tick_seconds  # the log's times are rounded
        return any(
            job.calling
            and (job.id in logged.work or (job.handling != "free" and self.returns[job.id] <= logged.start_s + slack))
            for job in jobs
        )

    def take(self, logged: LoggedBatch, plan: Plan) -> None:
        """Make a batch of the log, as far as possible."""
        j = self.next - 1
        ordered = set(plan.dropped) | set(plan.swapped_out)  # by the handling of a call, whatever the log says
        for id in sorted(self.pending - ordered):
            job = self.jobs[id]
            if not job.calling or job.handling == "free":
                plan.drop(job)
                self.pending.remove(id)
        for name, move in (("drop", plan.drop), ("swap_out", plan.swap_out), ("swap_in", plan.swap_in)):
            for id, asked in getattr(logged, name).items():
                if name != "swap_in" and id in ordered:
                    continue
                held = self.jobs.get(id)
                parts = (0, 0) if held is None else (held.device, held.host)
                there = {"drop": sum(parts), "swap_out": parts[0], "swap_in": parts[1]}[name]
                if there < (asked or 1):
                    self.differ("moves", j, (asked or 0) - there)
                if held is not None and there:
                    move(held, min(there, asked or there))
        self.make_room(logged, plan)
        for id, tokens in logged.work.items():
            if id not in self.jobs:
                self.differ("done", j, tokens)
                continue
            job = self.jobs[id]
            if tokens > job.missing:
                self.differ("tokens", j, tokens - job.missing)
            if logged.start_s < job.arrival * self.instance.tick_seconds:
                self.differ("arrival", j)
            plan.take(job, min(tokens, job.missing))

    def make_room(self, logged: LoggedBatch, plan: Plan) -> None:
        """If the batch does not fit, drop the KV of those that work no more and are not done, the last first.

        The log ends before their restart, which would show the eviction.
        """
        working = [(self.jobs[id], tokens) for id, tokens in logged.work.items() if id in self.jobs]
        growth = sum(job.growth(min(tokens, job.missing)) for job, tokens in working)
        left = [self.jobs[id] for id, last in self.found.left.items() if last < self.next - 1 and id in self.jobs]
        while left and plan.free_blocks is not None and plan.free_blocks < growth:
            job = left.pop()
            if job.blocks and not job.calling:
                plan.drop(job)

    def finish(self, view: View, plan: Plan) -> None:
        """Let the rest work in order of arrival; if none is admitted, the last holder of KV gives way."""
        if "unfinished" not in self.differences:
            self.differ("unfinished", self.next, count=len(self.jobs) + len(self.to_come))
        plan.fill(view.ready)
        holders = [job for job in view.ready if job.device or job.host]
        while not plan.work and len(holders) > 1 and not any(job.calling for job in view.jobs):
            plan.drop(holders.pop())
            plan.fill(job for job in view.ready if job.id not in plan.dropped)

    def note_rest(self) -> None:
        """Count what the log still does when every request is done."""
        for j in range(self.next, len(self.batches)):
            for tokens in self.batches[j].work.values():
                self.differ("done", j, tokens)
            self.differ("empty", j)

    def note_times(self, trace: Trace) -> tuple[Fraction, Fraction]:
        """Count the batches that the log starts early or late; return `LoggedRun.start_differences`."""
        tick, largest, last = self.instance.tick_seconds, Fraction(0), Fraction(0)
        places, starts = list(self.places.items()), [batch.start for batch in trace.batches]
        for (i, a), (j, b) in pairwise(places):
            logged = round(self.batches[j].start_s / tick) - round(self.batches[i].start_s / tick)
            lasts, passes = trace.batches[b - 1].end - starts[a], starts[b] - starts[a]
            if logged < lasts:
                self.differ("early", j, lasts - logged)
            elif logged > passes:
                self.differ("late", j, logged - passes)
        if places:
            i, a = places[0]
            for j, b in places:
                last = (self.batches[j].start_s - self.batches[i].start_s) - (starts[b] - starts[a]) * tick
                largest = max(largest, abs(last))
        return largest, last
