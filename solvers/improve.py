"""Better schedules for any instance and objective: policies with other parameters and priorities.

The index rule is tuned first: one R0, then what `solvers.steering` adds; where a function of the cost can become longer
than the one that pays, `knee`; for late requests, `on-time`; with contents, `solvers.orders`. Few requests with calls
have `solvers.epochs`. Destroy and repair (`solvers.neighbourhoods`) goes on from the best, where it applies. The
referee passes every schedule that is kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import kvcore
from bounds.clock import Timer, is_late, limited, now
from bounds.tuning import Options, option
from heuristics import BY_COST, SHARING, Policy, PolicyError, Unsuited, get_policy, trace_policy
from heuristics.engine.policy import Point, Tuning, rounded
from heuristics.engine.sharing import Foresight
from heuristics.policies.deadline import Deadline
from heuristics.policies.figure_1 import Listed
from heuristics.policies.index import MEANS, Index, mean_work
from heuristics.policies.knee import Knee, has_knee
from heuristics.policies.on_time import OnTime
from heuristics.policies.refill import Refill
from heuristics.policies.staggered import Staggered
from kvcore.cost import OwnCost
from kvcore.features import Feature
from kvcore.instance import Instance
from kvcore.metrics import SUMS, Value, check_objective, completions, objective_value, spared_by, tail_of
from kvcore.referee import verify_schedule
from kvcore.result import Result, SolverInfo, Start, Stop
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers import epochs
from solvers.messages import Done, Found, Progress, Send, SolveJob, SolveOptions
from solvers.neighbourhoods import improve as repair
from solvers.neighbourhoods import why_not
from solvers.option_names import takes_options
from solvers.orders import ordered
from solvers.simulate import free_calls
from solvers.steering import Runs, applies, steer

FIRST = ("index", "sjf", "serial")
"""Policies for a start, after `first_policies`."""
OTHERS = ("infermax", "vllm-v1", "mc-sf", "srpt", "sjf-api", "mars-order")
"""Run before all other policies."""
WITH_CALLS = ("refill", "infercept-heuristic")
"""Run before those where requests call: each was the best of all on a workload."""


@dataclass(frozen=True)
class ImproveOptions(Options):
    """The search among policies."""

    restarts: int = option(4, "runs of destroy and repair, from different seeds")
    first: float = option(1.0, "processor seconds for a first policy, or half of all if that is more", least=0)

    moves = 2_000  # moves of destroy and repair that count as a round
    epochs = 4_000  # schedules of `solvers.epochs` that count as a round
    patterns = 40  # ... and patterns of `solvers.amounts`
    aside = 100  # requests set aside for a percentile, one after another
    runs = 200  # compiled runs of the index rule that count as a round
    patience = 0.25, 1.0, 4.0  # tried where requests share contents


Tries = Generator[Policy, Value | float, None]
"""Yields policies, and is sent the value of each (infinite: it could not run)."""


@takes_options
def improve(
    instance: Instance,
    objective: str = "total-flow-time",
    *,
    start: Schedule | str | None = None,
    handling: str = "as-given",
    seconds: float = 60.0,
    work: int | None = None,
    rounds: int | None = None,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    found: Callable[[Schedule], None] = lambda schedule: None,
) -> Result:
    """Return the best schedule found, never worse than that of `start`: a schedule, a policy, or None for our choice.

    It takes `seconds` of the processor, or `work` (as in `solve`), or makes `rounds` runs of policies; Ctrl-C ends it.
    The result names the schedule's policy, if a name makes it again. `found` is called with each better schedule;
    `options` are as in `solve`. The result is `unknown` where no policy ends in its part of the seconds
    (`improve.first`).

    Raises:
        BadInput: the objective or the policy is unknown, or the start is for another instance.
        Unsuited, PolicyError: the policy to start from cannot run.
        InvalidSchedule: the schedule to start from breaks a rule.
    """
    check_objective(objective)
    instance = free_calls(instance, handling)
    stopped = Stop.ROUNDS if rounds is not None else Stop.TIME_LIMIT if work is None else Stop.WORK_LIMIT
    known, timer = Start(start if isinstance(start, str) else None), Timer()
    with limited(seconds if rounds is None else math.inf, work) as limit:
        search = _Improvement(instance, objective, limit, rounds, progress, found)
        with suppress(_OverError):
            search.start(start)
            known = Start(known.policy, search.value)
            try:
                search.go_on(seed)
            except KeyboardInterrupt:
                stopped = Stop.INTERRUPTED
        if stopped == Stop.TIME_LIMIT and is_late() and timer.seconds < limit:
            stopped = Stop.CLOCK_LIMIT
    result = Result(
        instance, objective, formulation="improve", solver=SolverInfo("policies", kvcore.__version__, seed=seed),
        seconds=timer.seconds, clock_seconds=timer.clock, stopped=stopped, options=options or {}, start=known,
        rounds=search.made,
    )  # fmt: skip
    if known.value is None:
        return result
    by = search.name or "improve"
    return replace(result, schedule=search.schedule, claimed=search.value, policy=search.name, found_by=by)


def run(job: SolveJob, send: Send) -> Done:
    """Carry out a job in a worker process; send schedules as they come."""
    search = _Improvement(
        job.instance, job.objective, job.time_limit, None, None, lambda schedule: send(Found(schedule, None))
    )
    with suppress(_OverError):
        search.start(job.start, job.beside)
        search.go_on(job.seed, job.beside)
    return Done(Stop.TIME_LIMIT)


class _OverError(Exception):
    """The rounds or the seconds are over."""


@dataclass
class _Improvement:
    instance: Instance
    objective: str
    seconds: float
    rounds: int | None
    progress: Progress | None
    found: Callable[[Schedule], None]
    began: float = field(init=False)
    options: ImproveOptions = field(default_factory=ImproveOptions.given)
    made: int = 0
    took: float = 0.0
    r0: float | None = None
    runs: Runs | None = None
    best: Index | None = None
    turned_best: Callable[[Any], Policy] | None = None
    """The best schedule so far, and the rounds or seconds left."""
    turned_value: Value | float = math.inf
    aside: Any = None
    foresight: Foresight | None = None
    schedule: Schedule = field(init=False)
    value: Value = field(init=False)
    name: str | None = field(init=False)

    def start(self, given: Schedule | str | None, ran: Collection[str] = ()) -> None:
        self.began = now()
        if isinstance(given, Schedule):
            self._keep(verify_schedule(self.instance, given), None)
            return
        part = self.seconds / (1 + SolveOptions.given().referee)  # the referee has the rest
        limit = math.inf if self.rounds is not None else max(self.options.first, part)
        suited = (each.name for each in BY_COST if ran and each.why_not(self.instance.machine) is None)
        fast = [name for name in suited if name not in ran][:1]
        for name in (*fast, *first_policies(self.instance, self.objective)) if given is None else (given,):
            end = now() + limit
            try:
                policy = get_policy(name)
                policy = policy if given else self.sharing(policy)
                trace = trace_policy(self.instance, policy, go_on=lambda: now() < end)  # noqa: B023
                self._keep(trace, name if given or self.has_name(policy) else None)
                return
            except (PolicyError, Unsuited) as error:
                is_last = name in (given, FIRST[-1])
                if is_last and isinstance(error, PolicyError) and now() >= end:
                    raise _OverError from None
                if is_last:
                    raise

    def go_on(self, seed: int, ran: Collection[str] = ()) -> None:
        draw, instance, objective, ran = random.Random(seed), self.instance, self.objective, {*ran}
        if ran:
            ran.add(str(self.name))
            self.follow(self.quick(ran))
        if instance.contents:
            self.follow(self.shared(ran))
            self.follow(self.patient())
            self.follow(ordered(self.listed_places(), instance.requests, self.ticks, draw, self.half_left()))
        if epochs.applies(instance, objective):
            self.few(seed)
        first = [self.turned(), self.due() if tail_of(objective) else self.tuned()]
        if self.spared is not None:
            first = [self.set_aside(), self.due(), self.turned()]
        for tries in (_staggered(self), self.refilled(draw, ran), *first):
            self.follow(tries)
        self.follow(self.steered(draw), named=False)
        self.follow(other_policies(instance, objective, ran))
        if why_not(instance, objective) is None:
            self.repair(seed)
        self.follow(self.perturbed(draw), named=False)

    def quick(self, ran: set[str]) -> Tries:
        end = now() + 0.2 * self.seconds
        for policy in (get_policy(first_policies(self.instance, self.objective)[0]), *BY_COST):
            if policy.name not in ran and now() < end:
                ran.add(policy.name)
                yield policy

    def sharing(self, policy: Policy) -> Policy:
        own = not self.instance.contents or (Feature.SHARED in policy.takes.features and not policy.shares)
        return policy if own or policy.foresight else policy.sharing(self.foresight)

    def has_name(self, policy: Policy) -> bool:
        if getattr(policy, "factors", None) is not None or policy.foresight is not None:
            return False
        return not self.instance.contents or Feature.SHARED in type(policy).takes.features

    def shared(self, ran: set[str]) -> Tries:
        for name, policy in SHARING.items():
            if name not in ran:
                yield policy

    def patient(self) -> Tries:
        value: Value | float = math.inf
        self.foresight, best = Foresight(0.0), "sjf"
        for name in ("fcfs", "sjf", "index"):
            if (other := (yield get_policy(name))) < value:
                value, best = other, name
        for patience in self.options.patience:
            foresight = Foresight(patience)
            if (other := (yield get_policy(best).sharing(foresight))) < value:
                value, self.foresight = other, foresight

    def ticks(self) -> list[int]:
        return [batch.start for batch in self.schedule.batches]

    def listed_places(self) -> Any:
        requests = self.instance.requests
        ends = completions(verify_schedule(self.instance, self.schedule))
        places = np.zeros(len(requests))
        places[sorted(range(len(requests)), key=lambda i: ends[requests[i].id])] = np.arange(len(requests))
        return places

    def _keep(self, trace: Trace, name: str | None) -> None:
        self.schedule, self.value, self.name = trace.schedule, objective_value(trace, self.objective), name
        self.found(self.schedule)

    def in_time(self) -> bool:
        return self.rounds is not None or now() - self.began < self.seconds

    def count(self) -> None:
        if self.made == self.rounds or not self.in_time():
            raise _OverError
        self.made += 1
        if self.progress is not None:
            self.progress(self.value, None, now() - self.began)

    def follow(self, tries: Tries, *, named: bool = True) -> None:
        if self.made == self.rounds or not self.in_time():  # before what it prepares
            raise _OverError
        policy = next(tries, None)
        while policy is not None:
            policy = self.sharing(policy)
            self.count()
            value: Value | float = math.inf
            began = now()
            try:
                trace = trace_policy(self.instance, policy, go_on=self.in_time)
            except (PolicyError, Unsuited):
                pass
            else:
                value = objective_value(trace, self.objective)
                if value < self.value:
                    self._keep(trace, policy.name if named and self.has_name(policy) else None)
            self.took = now() - began
            try:
                policy = tries.send(value)
            except StopIteration:
                return

    def few(self, seed: int) -> None:
        """Try an order and switches for each epoch; from the best schedule on, patterns of work."""
        given, patterns = (self.instance, self.objective), import_module("solvers.amounts")  # not beside ortools
        most = (None, None) if self.rounds is None else (self.options.epochs, self.options.patterns)
        self.count()
        self.keep_better(epochs.search(*given, self.left / 6, seed, most[0]))
        self.count()
        self.keep_better(patterns.improve(*given, 0.8 * self.left, seed, most[1], self.schedule))

    @property
    def left(self) -> float:
        return self.seconds - (now() - self.began)

    def repair(self, seed: int) -> None:
        share = self.left / self.options.restarts
        for k in range(self.options.restarts):
            self.count()
            moves = None if self.rounds is None else self.options.moves
            given = Schedule(instance_sha256=self.instance.sha256, batches=self.schedule.batches)
            found = repair(self.instance, self.objective, given, seconds=share, seed=seed + k, rounds=moves)
            self.keep_better(found)

    def keep_better(self, found: Schedule | None) -> None:
        trace = found and verify_schedule(self.instance, found)
        if trace and objective_value(trace, self.objective) < self.value:
            self._keep(trace, None)

    def climb(
        self, make: Callable[..., Policy], tuning: Tuning, below: Value | float = math.inf,
        quick: Callable[..., float] | None = None,
    ) -> Generator[Policy, Value | float, tuple[Point, Value | float]]:  # fmt: skip
        """Search by coordinates, if a start is `below`; return the best numbers and their value.

        `quick` gives values without a run.
        """
        best, step, tried = tuning.starts[0], tuning.step, set(tuning.starts)
        value: Value | float = math.inf
        for point in tuning.starts:
            other = quick(*point) if quick else (yield make(*point))
            if other < value:
                best, value = point, other
        while value < below and step > tuning.finest and self.in_time():
            for point in tuning.near(best, step):
                if point in tried:
                    continue
                tried.add(point)
                other = quick(*point) if quick else (yield make(*point))
                if other < value:
                    best, value = point, other
                    break
            else:
                step = math.sqrt(step)
        return best, value

    def tuned(self) -> Tries:
        if isinstance(self.instance.cost, OwnCost):
            return  # its marginal costs are not known
        self.r0, runs = rounded(MEANS * mean_work(self.instance)), None
        if applies(self.instance, self.objective):
            runs = self.runs = Runs(self.instance, self.objective)
        starts = [(rounded(self.r0 / 4.0**k),) for k in range(10 if runs else 1)]
        tuning, quick = Index.tuning._replace(starts=tuple(starts)), (lambda r0: runs.once(r0)[0]) if runs else None
        (self.r0,), _ = yield from self.climb(Index, tuning, quick=quick)
        if runs:
            yield Index(r0=self.r0)

    def turned(self) -> Tries:
        """Search for the parameters of `knee` or `on-time`; for the largest flow time and percentiles, the time too."""
        name, tail = first_policies(self.instance, self.objective)[0], tail_of(self.objective)
        policy = Knee if name == "knee" else OnTime
        make: Callable[..., Policy] = policy
        tuning = policy.tuning
        if tail or self.objective == "max-flow-time":
            make = partial(_within, "ttft" if tail and tail.of_first else "latency")
            flow = rounded(float(self.value * self.instance.tick_seconds))
            tuning = tuning._replace(
                starts=tuple((flow, *start) for start in tuning.starts), finest=Deadline.tuning.finest
            )
        elif name not in ("knee", "on-time"):
            return
        point, value = yield from self.climb(make, tuning)
        if value < self.turned_value:
            self.turned_value, self.turned_best = value, lambda factors: make(*point, factors=factors)

    def refilled(self, draw: random.Random, ran: set[str]) -> Tries:
        known = self.value
        if Refill().why_not(self.instance.machine) or not any(request.calls for request in self.instance.requests):
            return
        ran.add(Refill.name)
        (patience,), value = yield from self.climb(Refill, Refill.tuning, known)
        if value < known:
            yield from self._shaken(lambda logs: Refill(patience, np.exp(logs)), value, draw, self.half_left())

    def half_left(self) -> Callable[[int], bool]:
        end = (now() + self.began + self.seconds) / 2
        return lambda made: made < self.options.runs if self.rounds is not None else now() < end

    @property
    def spared(self) -> int | None:
        own = isinstance(self.instance.cost, OwnCost)
        return None if own else spared_by(self.objective, len(self.instance.requests))

    def due(self) -> Tries:
        if isinstance(self.instance.cost, OwnCost):
            return
        target, factors = rounded(float(self.value * self.instance.tick_seconds)), self.aside

        def make(token: float, flow: float = target) -> Policy:
            return Deadline(flow, token, factors)

        # up to the knee the flow time is of no use
        more = () if has_knee(self.instance.cost) else (target,)
        starts = tuple((rounded(target / 1000 * 2.0**-k), *more) for k in range(4))
        point, value = yield from self.climb(make, Deadline.tuning._replace(starts=starts))
        if value <= self.value:
            token, flow = (*point, target)[:2]
            aside = 1.0 if self.aside is None else self.aside
            self.turned_value, self.turned_best = value, lambda shaken: Deadline(flow, token, aside * shaken)

    def set_aside(self) -> Tries:
        """Let some be late for good (Moore, 1968): the most work beside the latest of the others, one after another."""
        requests, factors = self.instance.requests, np.ones(len(self.instance.requests))
        work = np.array([request.prompt + request.output for request in requests])
        arrivals = np.array([float(request.arrival) for request in requests])
        tried = factors == 0
        yield Deadline()
        for _ in range(min(self.options.aside, self.spared or 0)):
            known = completions(verify_schedule(self.instance, self.schedule))
            ends = np.array([float(known[request.id]) for request in requests])
            latest = int(np.argmax((ends - arrivals) * (factors > 0)))
            beside = (arrivals < ends[latest]) & (ends > arrivals[latest]) & ~tried
            if not beside.any():
                return
            chosen = int(np.argmax(work * beside))
            tried[chosen], factors[chosen], before = True, 0.0, self.value
            if (yield Deadline(factors=factors.copy())) > before:
                factors[chosen] = 1.0
            else:
                self.aside = factors.copy()

    def steered(self, draw: random.Random) -> Tries:
        if self.runs is None or self.r0 is None:
            return
        begun = now()
        left = self.began + self.seconds - begun
        # twice the last run of the engine is kept free for the next one
        end = begun + min(left / 2, left - 2.0 * self.took)

        def go_on(made: int) -> bool:
            return made < self.options.runs if self.rounds is not None else now() < end

        policy = steer(self.runs, self.r0, draw, go_on)
        if (yield policy) <= self.value:
            self.best = policy

    def perturbed(self, draw: random.Random) -> Tries:
        requests, machine = self.instance.requests, self.instance.machine
        n, places = len(requests), 0.1 * self.listed_places()

        def listed(keys: Any) -> Policy:
            return Listed(keys.tolist())

        def indexed(logs: Any) -> Policy:
            best = self.best or Index(r0=self.r0)
            factors = np.exp(logs) * (1.0 if best.factors is None else best.factors)
            return Index(r0=best.r0, factors=factors, steps=best.steps, chunks=best.chunks)

        make: Callable[[Any], Policy] = listed
        logs = places
        value = yield listed(places)
        if self.r0 is not None and Index().why_not(machine) is None:
            other = yield indexed(np.zeros(n))
            if other < value:
                make, logs, value = indexed, np.zeros(n), other
        turned = self.turned_best
        if turned is not None and self.turned_value <= value:
            make, logs, value = lambda logs: turned(np.exp(logs)), np.zeros(n), self.turned_value
        yield from self._shaken(make, value, draw, lambda made: True, logs)

    def _shaken(
        self, make: Callable[[Any], Policy], value: Value | float, draw: random.Random, go_on: Callable[[int], bool],
        logs: Any = None,
    ) -> Tries:  # fmt: skip
        n = len(self.instance.requests)
        by_arrival = sorted(range(n), key=lambda i: self.instance.requests[i].arrival)
        logs = np.zeros(n) if logs is None else logs
        low, high = 50, 200  # requests, one after another by arrival, that get other priorities
        made = 0
        while go_on(made):
            made += 1
            size = min(n, draw.randint(low, max(low, high)), max(2, n // 2))
            first = draw.randint(0, n - size)
            changed = logs.copy()
            for i in by_arrival[first : first + size]:
                changed[i] += draw.gauss(0.0, 0.3)
            other = yield make(changed)
            if other <= value:
                value, logs = other, changed


def _within(
    what: str, seconds: float, share: float, pace: float, short: float, wait: float, factors: Any = None
) -> Policy:
    return OnTime(share, pace, short, wait, factors=factors, **{what: seconds})


def first_policies(instance: Instance, objective: str) -> tuple[str, ...]:
    """Return policies for a start, the first that the machine suits."""
    if not isinstance(instance.cost, OwnCost):
        if objective == "late-requests":
            return ("on-time", *FIRST)
        if spared_by(objective, 1) is not None:
            return ("deadline", *FIRST)
    return ("knee", *FIRST) if objective in (*SUMS, "makespan") and has_knee(instance.cost) else FIRST


def other_policies(instance: Instance, objective: str, ran: Collection[str] = ()) -> Tries:
    """Run the policies that have not run, roughly the fastest first."""
    early: tuple[str, ...] = WITH_CALLS if any(len(request.segments) > 1 for request in instance.requests) else ()
    early += ("first-tokens",) * objective.endswith("ttft")
    for name in dict.fromkeys((*early, *OTHERS, *(policy.name for policy in BY_COST))):
        if name not in ran:
            yield get_policy(name)


def _staggered(search: _Improvement) -> Tries:
    requests, memory = search.instance.requests, search.instance.machine.memory
    if memory is None or len({(r.arrival, r.prompt, r.segments) for r in requests}) > 1:
        return
    yield Staggered()
    size = max(1, math.isqrt(len(requests)) // 4)
    held = (requests[0].prompt + requests[0].peak) / 2
    start = size, math.ceil(size * requests[0].output * held / memory)
    yield from search.climb(Staggered, Staggered.tuning._replace(starts=(start,)))
