"""What a search holds while it runs: the best schedule, and the best lower bound, each with who it is by."""

from dataclasses import dataclass

from kvcore.certificates import Certificate
from kvcore.certificates.certificate import HORIZON
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.result import BoundKind, Horizon
from kvcore.schedule import Schedule
from kvcore.trace import Trace

ALL = Horizon(0, True, HORIZON)
NO_HORIZON = Horizon(0, False, "there was no time to say how many batches are enough")


@dataclass
class Incumbent:
    """The best schedule, its value by the referee, what it is by, and the value that was claimed for it."""

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
        """Hold a schedule, which the referee has executed, and return its value, if it is the best."""
        value = objective_value(trace, self.objective)
        if self.value is not None and value >= self.value:
            return None
        self.schedule, self.value, self.by, self.claimed = trace.schedule, value, by, claimed
        return value


@dataclass
class Bounds:
    """The best lower bound, whose word it is, what it is by, and of which schedules; and the best certificate."""

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
        """Take a certificate, which the checker has recomputed; say whether its bound is the best."""
        if self.certificate is None or certificate.value > self.certificate.value:
            self.certificate = certificate
        return self.take(certificate.value, "certificate", by)

    def take(self, value: Value, kind: BoundKind | None, by: str, horizon: Horizon = ALL) -> bool:
        """Take a bound if it is the best; say whether it is. One on all schedules is better than any other.

        A certificate takes the place of a word of the same value.
        """
        new, old = (horizon.sufficient, value), (self.horizon.sufficient, self.value)
        is_best = self.value is None or new > (self.horizon.sufficient, self.value)
        if is_best or (new == old and kind == "certificate" != self.kind):
            self.value, self.kind, self.by, self.horizon = value, kind, by, horizon
        return is_best
