"""How far a policy is from optimal on an instance, and how much is proved."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self

from heuristics import Policy, trace_policy
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from kvcore.result import Result
from solvers.dual_bound import best_bound
from solvers.exact import exact

SECONDS = 5.0  # what one exact search, or the certificate of one optimum, may take


@dataclass(frozen=True)
class Claim:
    """A policy's value, the best known, and a lower bound.

    The true ratio lies between value / best and value / bound: claimed if these are equal, proved by a certificate.
    """

    instance: Instance
    policy: str
    objective: str
    value: Value
    best: Value
    bound: Value
    known: Result | None = field(default=None, repr=False)  # of it, or with its requests in another order

    @property
    def decided(self) -> bool:
        """Whether `best` is the optimum, if only by a claim."""
        return self.best == self.bound

    @property
    def proved(self) -> bool:
        """Whether a certificate proves that `best` is the optimum."""
        return self.known is not None and self.known.status == "optimal"

    def certified(self, seconds: float = SECONDS) -> Self:
        """Return it with a certificate of its optimum, if the ladder of bounds finds one in time."""
        if self.known is None or not self.decided or self.proved:
            return self
        found = best_bound(self.instance, self.objective, time_limit=seconds, upper=self.best)
        if found.bound is None or found.bound < self.bound:
            return self
        known = replace(
            self.known, bound=found.bound, bound_kind="certificate", certificate=found.certificate,
            proved_by=found.proved_by,
        )  # fmt: skip
        return replace(self, known=known)

    @property
    def at_least(self) -> Fraction:
        """Return value / best."""
        return Fraction(self.value) / Fraction(self.best)

    @property
    def at_most(self) -> Fraction | None:
        """Return value / bound (None: the bound is 0)."""
        return Fraction(self.value) / Fraction(self.bound) if self.bound else None

    @property
    def ratio(self) -> Fraction | None:
        """Return the true ratio, if certified."""
        return self.at_least if self.proved else None

    def to_json(self) -> dict[str, Any]:
        """Return the claim without the instance, JSON-ready; ratios are exact fractions in text."""
        numbers = {"value": self.value, "best": self.best, "bound": self.bound}
        ratios = {"ratio": self.ratio, "at_least": self.at_least, "at_most": self.at_most}
        return {
            "policy": self.policy,
            "objective": self.objective,
            **{name: int(x) if isinstance(x, int) else str(x) for name, x in numbers.items()},
            "proved": self.proved,
            "claimed_by": self.known.proved_by if self.known and self.decided and not self.proved else None,
            **{name: None if x is None else str(x) for name, x in ratios.items()},
        }


Canonical = tuple[str, str, tuple[str, ...]]


def canonical(instance: Instance) -> Canonical:
    """Return a key that disregards the order, the ids and the name of the requests."""
    requests = sorted(request.shape.model_dump_json() for request in instance.requests)
    return instance.machine.model_dump_json(), instance.cost.model_dump_json(), tuple(requests)


class Optima:
    """The exact search with a memory, up to the order of requests."""

    def __init__(self, objective: str) -> None:
        if check_objective(objective) == "late-requests":
            raise BadInput("late-requests can be 0 and has no ratio; choose another objective")
        self.objective = objective
        self.known: dict[Canonical, Result] = {}

    def of(self, instance: Instance) -> Result:
        """Return the best schedule and the bound found, perhaps for another order of the requests.

        Raises KeyboardInterrupt on Ctrl-C.
        """
        key = canonical(instance)
        if key not in self.known:
            self.known[key] = exact(instance, self.objective, time_limit=SECONDS)
        return self.known[key]


def judge(instance: Instance, policy: Policy, optima: Optima) -> Claim:
    """Run a policy and the exact search on an instance.

    Raises PolicyError or Unsuited where the policy gives no schedule; Contradiction if its value is below the bound.
    """
    trace = trace_policy(instance, policy)
    value, known = objective_value(trace, optima.objective), optima.of(instance)
    if known.value is None or value < known.value:  # the search was stopped before it was as good
        certified = known.instance.sha256 == instance.sha256  # else the certificate is of another order of requests
        known = replace(
            known, instance=instance, schedule=trace.schedule, claimed=None, found_by=policy.name,
            certificate=known.certificate if certified else None,
            bound_kind=known.bound_kind if certified else "search",
        )  # fmt: skip
    assert known.value is not None  # for mypy
    assert known.bound is not None
    return Claim(instance, policy.name, optima.objective, value, known.value, known.bound, known)
