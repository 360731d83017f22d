"""A case of a family: instances, their exact optima, and the values of policies."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from bounds.clock import now
from heuristics import Policy, PolicyError, Unsuited, get_policy, run_policy
from kvcore.certificates import Certificate
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.result import Result
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers.exact import exact

FLOW_TIME = "total-flow-time"
SOLVE_SECONDS = 150.0  # for one optimum


class Undecided(Exception):
    """A limit struck before the case was decided."""


@dataclass(frozen=True)
class Held:
    """A schedule that the referee has executed, with its value.

    An optimum has its certificate, or says who claims it.
    """

    label: str
    instance: Instance
    objective: str
    value: Value
    schedule: Schedule
    certificate: Certificate | None = None
    claimed_by: str | None = None

    @property
    def trace(self) -> Trace:
        """The trace of the schedule."""
        return verify_schedule(self.instance, self.schedule)


_FOUND: dict[tuple[str, str], Result] = {}  # optima that were found, by the hash of the instance and the objective
_CLAIMS: list[Held] = []  # optima that were only claimed, since `claims` was last asked


def claims() -> list[Held]:
    """Return the optima given on a solver's word alone since the last call."""
    taken, _CLAIMS[:] = _CLAIMS[:], []
    return taken


@dataclass(frozen=True)
class Fails:
    """Why the claim does not hold, the schedules that show it, and by how much (a number, if any).

    `shown` are the instances that show it, if not all. `certain`: it fails whatever the claimed optima truly are.
    """

    why: str
    evidence: Sequence[Held] = ()
    number: Fraction | None = None
    shown: tuple[Instance, ...] = ()
    certain: bool = False


@dataclass(frozen=True)
class Case:
    """The instances of a case (often one), until a deadline by `bounds.clock.now`."""

    instances: tuple[Instance, ...]
    deadline: float = field(default=float("inf"))

    @property
    def instance(self) -> Instance:
        """The first instance."""
        return self.instances[0]

    def optimum(self, instance: Instance | None = None, objective: str = FLOW_TIME, label: str = "optimum") -> Held:
        """Return an optimal schedule, certified or claimed. Raises Undecided if a limit strikes."""
        instance = self.instance if instance is None else instance
        found, seconds = _FOUND.get((instance.sha256, objective)), self.deadline - now()
        if found is None and seconds > 0:
            found = exact(instance, objective, time_limit=min(SOLVE_SECONDS, seconds))
        if found is None or found.status not in ("optimal", "claimed") or found.value is None or not found.schedule:
            raise Undecided(f"{instance.name}: not solved within the limits")
        _FOUND[instance.sha256, objective] = found
        held = Held(label, instance, objective, found.value, found.schedule)
        if found.status == "optimal":
            return replace(held, certificate=found.certificate)
        _CLAIMS.append(replace(held, claimed_by=found.proved_by))
        return _CLAIMS[-1]

    def policy(
        self, policy: str | Policy, instance: Instance | None = None, objective: str = FLOW_TIME, label: str = ""
    ) -> Held | None:
        """Return the schedule of a policy (None: it cannot run there)."""
        instance = self.instance if instance is None else instance
        chosen = get_policy(policy) if isinstance(policy, str) else policy
        try:
            schedule = run_policy(instance, chosen)
        except (PolicyError, Unsuited):
            return None
        return self.held(label or chosen.name, schedule, instance, objective)

    def held(
        self, label: str, schedule: Schedule, instance: Instance | None = None, objective: str = FLOW_TIME
    ) -> Held:
        """Return a schedule with its value, after the referee executed it."""
        instance = self.instance if instance is None else instance
        return Held(
            label, instance, objective, objective_value(verify_schedule(instance, schedule), objective), schedule
        )


def ratio(value: Held, other: Held) -> Fraction:
    """Return `value` / `other`."""
    return Fraction(value.value) / Fraction(other.value)
