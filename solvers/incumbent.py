"""The best schedule and the best lower bound of a search or a solve, with their sources."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from bounds.clock import Timer, is_late, now
from kvcore.certificates import Certificate
from kvcore.certificates.certificate import HORIZON
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.result import BoundKind, Horizon, LogEntry, Stop
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.messages import Bound, Limits, Progress, SolveJob
from solvers.ways import WAYS

ALL = Horizon(0, True, HORIZON)
NO_HORIZON = Horizon(0, False, "there was no time to say how many batches are enough")

OPENING = "bounds"
"""The solver, in a result, of proofs before any worker."""


@dataclass
class Incumbent:
    """The best schedule, its value by the referee, its source, and its claimed value."""

    instance: Instance
    objective: str
    schedule: Schedule | None = None
    value: Value | None = None
    by: str | None = None
    claimed: Value | None = None

    def offer(self, schedule: Schedule, by: str, claimed: Value | None = None) -> Value | None:
        """Hold a schedule, and return its value, if it is the best (InvalidSchedule: it breaks a rule)."""
        return self.hold(verify_schedule(self.instance, schedule), by, claimed)

    def hold(self, trace: Trace, by: str, claimed: Value | None = None) -> Value | None:
        """Hold an executed schedule, and return its value, if the best."""
        value = objective_value(trace, self.objective)
        if self.value is not None and value >= self.value:
            return None
        self.schedule, self.value, self.by, self.claimed = trace.schedule, value, by, claimed
        return value


@dataclass
class Bounds:
    """The best lower bound, whose word it is, its method and schedules; and the best certificate."""

    value: Value | None = None
    kind: BoundKind | None = None
    by: str | None = None
    horizon: Horizon = NO_HORIZON
    certificate: Certificate | None = None

    @property
    def of_all(self) -> Value | None:
        """The bound, if it holds for schedules of any number of batches."""
        return self.value if self.horizon.sufficient else None

    def certify(self, certificate: Certificate, by: str) -> bool:
        """Take a recomputed certificate; say whether its bound is the best."""
        if self.certificate is None or certificate.value > self.certificate.value:
            self.certificate = certificate
        return self.take(certificate.value, "certificate", by)

    def take(self, value: Value, kind: BoundKind | None, by: str, horizon: Horizon = ALL) -> bool:
        """Take a bound if it is the best; say whether it is. One on all schedules is better than any other.

        A certificate replaces a word of the same value.
        """
        new, old = (horizon.sufficient, value), (self.horizon.sufficient, self.value)
        is_best = self.value is None or new > (self.horizon.sufficient, self.value)
        if is_best or (new == old and kind == "certificate" != self.kind):
            self.value, self.kind, self.by, self.horizon = value, kind, by, horizon
        return is_best


@dataclass
class Held:
    """The best schedule and bound of a solve, and whether they meet its limits.

    A `named` way has its say before a bound of the opening decides.
    """

    incumbent: Incumbent
    limits: Limits
    named: bool
    progress: Progress | None = None
    timer: Timer = field(default_factory=Timer)
    busiest: float = 0.0
    """Processor seconds of the busiest lane of workers."""
    before: tuple[float, float] = (0.0, 0.0)
    """The seconds before these workers, in all and of this process."""
    event: Callable[[dict[str, Any]], None] = lambda event: None
    shown: float = 0.0
    bounds: Bounds = field(default_factory=Bounds)
    bounded_by: SolveJob | None = None
    log: list[LogEntry] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Processor seconds since the start, of this process or the busiest lane."""
        before, own = self.before
        return before + max(self.timer.seconds - own, self.busiest)

    @property
    def left(self) -> float:
        """Seconds until the limit, or what the work left stands for."""
        return self.limits.time - (now() if self.limits.counted else self.seconds)

    def race(self) -> None:
        """Begin a race of workers."""
        self.before, self.busiest = (self.seconds, self.timer.seconds), 0.0

    def report(self, busiest: float = 0.0) -> None:
        """Take the seconds of the busiest lane; show progress to the caller, at most ten times a second."""
        self.busiest = max(self.busiest, busiest)
        if self.progress is not None and self.timer.clock > self.shown + 0.1:
            self.shown = self.timer.clock
            self.progress(self.incumbent.value, self.bounds.value, self.shown)

    def hold(self, trace: Trace, by: str, claimed: Value | None = None) -> bool:
        """Hold an executed schedule if the best; say whether it is."""
        value = self.incumbent.hold(trace, by, claimed)
        if value is not None:
            self._enter("value", value, by)
        return value is not None

    def _enter(self, what: Literal["value", "bound"], value: Value, by: str) -> None:
        self.log.append(entry := LogEntry(self.seconds, what, value, by))
        self.tell(event=what, **entry.row(self.incumbent.objective))

    def tell(self, **event: Any) -> None:
        """Tell an event."""
        self.event({"clock_seconds": round(self.timer.clock, 3), "seconds": round(self.seconds, 3), **event})

    def take(self, job: SolveJob, bound: Bound, horizon: Horizon = NO_HORIZON) -> None:
        """Take a job's bound: a recomputed certificate, or a word on a horizon's schedules."""
        by = bound.by or job.label
        if bound.certificate is not None:
            is_best = self.bounds.certify(bound.certificate, by)
        else:
            kind = bound.kind or WAYS[job.formulation, job.solver].proves
            is_best = self.bounds.take(bound.value, kind, by, horizon)
        if is_best:
            self._enter("bound", bound.value, by)
        if is_best or (self.is_opening and bound.value == self.bounds.value):
            self.bounded_by = job

    @property
    def is_opening(self) -> bool:
        """Whether the bound is still the opening's."""
        return self.bounded_by is not None and self.bounded_by.solver == OPENING

    def decided(self) -> Stop | None:
        """Return why the workers can stop, if they can."""
        value, bound = self.incumbent.value, self.bounds.of_all
        late = Stop.CLOCK_LIMIT if is_late() and self.left > 0 else None
        if value is None or bound is None:
            return late
        has_its_say = self.named and self.is_opening and bound <= value  # above it is a contradiction
        return late if has_its_say else self.limits.met(value, bound) or late
