"""A solve before any worker: quick bounds, and schedules of policies."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from bounds.clock import Timer, now
from heuristics import BY_COST, SHARING, Policy, PolicyError, Unsuited, get_policy, trace_policy
from heuristics.engine.forgetting import forgetting, without_contents
from kvcore.errors import BadInput
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.dual_bound import rungs
from solvers.incumbent import OPENING, Held, Incumbent
from solvers.messages import Bound, SolveJob, SolveOptions
from solvers.process import prepare
from solvers.ways import CERTIFYING


def is_short(schedule: Schedule) -> bool:
    """Whether its batches are written out for workers."""
    return sum(batch.repeat for batch in schedule.batches) <= SolveOptions.given().written_out


class Opening:
    """The opening of a solve: `policies` have yet to run, `ran` have run.

    `proved` are methods of bounding. `best` is the best schedule, held or not: its value bounds the horizon.
    """

    def __init__(self, job: SolveJob, held: Held) -> None:
        self.job, self.held, self.best = job, held, Incumbent(job.instance, job.objective)
        self.policies: list[Policy] = []
        self.ran: list[str] = []
        self.proved: set[str] = set()
        self.notes: list[str] = []

    def run(self, known: Mapping[str, Schedule], warm_start: str) -> None:
        """Prove quick bounds, and hold the best of the known and the policies' schedules."""
        self.bound_at_once()
        for name, schedule in known.items():
            self.hold(verify_schedule(self.job.instance, schedule), name)
        prepare()
        self.run_policies(warm_start)

    def bound_at_once(self) -> None:
        """Prove that no request is faster than alone, and, where no way is named, some more."""
        options, limit, instance = SolveOptions.given(), self.held.limits.time, self.job.instance
        tokens = sum(request.output for request in instance.requests)
        # tokens of output for which quick bounds take a second, about
        is_long = tokens > 100_000 * options.policies * limit
        quick = CERTIFYING[:1] if self.held.named or is_long else [way for way in CERTIFYING if way.at_once]
        seconds = options.at_once * max(1.0, options.few_joint / len(instance.requests))
        for rung in rungs(
            instance, self.job.objective, quick,
            time_limit=min(seconds, options.policies * limit), late=min(options.longest_wait, limit / 2),
        ):  # fmt: skip
            if rung.certificate is not None:
                self.proved.add(rung.method)
                job = replace(self.job, formulation=rung.method, solver=OPENING)
                self.held.take(job, Bound(rung.certificate.value, "certificate", rung.certificate, rung.method))

    def run_policies(self, warm_start: str) -> None:
        """Find a schedule to start from; `policies` keeps those that are late."""
        if warm_start == "none" and self.best.value is not None:
            return
        options, holds = SolveOptions.given(), warm_start != "none"
        share = options.policies * self.held.limits.time
        if warm_start in ("best", "none"):
            sharing = SHARING.values() if self.job.instance.contents else ()  # after the cheapest
            every = (*BY_COST[:1], *sharing, *BY_COST[1:])
            self.policies = [policy for policy in every if policy.why_not(self.job.instance.machine) is None]
            self.go_through(self.held.left - self.held.limits.time + min(share, options.longest_wait), holds=holds)
            if not holds:
                self.policies, self.ran = [], []
            return
        named, self.policies = get_policy(warm_start), [get_policy("serial"), get_policy(warm_start)]
        error = self.go_through(self.held.left - self.held.limits.time + share)
        if self.policies:
            self.notes.append(f"{named.name} did not end in its part of the time limit: serial stands in for it")
        elif error is not None:
            raise error
        self.policies = []

    def go_through(self, seconds: float, *, holds: bool = True) -> BadInput | None:
        """Run policies, the fastest first, for so long, or to a decision; return why the last failed.

        The first may take all the time there is.
        """
        share, error, end = SolveOptions.given().referee, None, now() + seconds
        while self.policies and not self.held.decided():

            def in_time(began: float = now()) -> bool:
                last = began + self.held.limits.time if self.best.value is None else end
                self.held.report()
                return (1 + share) * now() - share * began < last

            policy, error = self.policies[0], None
            try:
                self.hold(self.trace(policy, in_time), policy.name, holds)
            except (PolicyError, Unsuited) as why:
                error = why
                if isinstance(why, PolicyError) and not in_time():
                    break
            self.ran.append(self.policies.pop(0).name)
        return error

    def trace(self, policy: Policy, go_on: Callable[[], bool]) -> Trace:
        """Run a policy; one stuck with contents runs without them."""
        instance = self.job.instance
        if not instance.contents:
            return trace_policy(instance, policy, go_on=go_on)
        with suppress(PolicyError):
            return trace_policy(instance, policy.sharing(), go_on=go_on)
        return forgetting(instance, trace_policy(without_contents(instance), policy, go_on=go_on).expanded())

    def finish(self) -> None:
        """Hold the fastest policy's schedule after an interrupt that came before any, if it takes seconds only."""
        timer, most = Timer(), SolveOptions.given().longest_wait
        for policy in BY_COST if self.held.incumbent.value is None else ():
            if policy.why_not(self.job.instance.machine) is None:
                with suppress(PolicyError, Unsuited, KeyboardInterrupt):
                    self.hold(self.trace(policy, lambda: timer.seconds < most), policy.name)
                return

    def close(self) -> None:
        """Note how many useful policies did not end and were run by no way."""
        if self.policies and not self.held.decided() and (self.held.named or self.best.value is None):
            self.notes.append(f"{len(self.policies)} policies that the machine suits did not end in time")

    def hold(self, trace: Trace, policy: str, holds: bool = True) -> None:
        """Hold a policy's schedule, or, with a user's constraints, which it ignores, only its value."""
        self.best.hold(trace, policy)
        if holds and not self.job.constraints and self.held.hold(trace, policy) and is_short(trace.schedule):
            self.held.incumbent.schedule = trace.expanded()
