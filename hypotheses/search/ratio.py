"""How far a policy is from optimal on an instance, and what of that is proved."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heuristics import Policy, trace_policy
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import Value, check_objective, objective_value
from solvers.search import search

SECONDS, MEGABYTES = 5.0, 500
"""What one exact search may take."""


@dataclass(frozen=True)
class Claim:
    """A policy's value on an instance, the value of the best schedule known, and a proved lower bound.

    The optimum lies between `bound` and `best`. So the true ratio, value / optimum, is at least value / best and at
    most value / bound. It is claimed as the ratio only if the two are equal.
    """

    instance: Instance
    policy: str
    objective: str
    value: Value
    best: Value
    bound: Value

    @property
    def proved(self) -> bool:
        """Whether `best` is the optimum."""
        return self.best == self.bound

    @property
    def at_least(self) -> Fraction:
        """Return value / best: no more than the true ratio, whether or not `best` is optimal."""
        return Fraction(self.value) / Fraction(self.best)

    @property
    def at_most(self) -> Fraction | None:
        """Return value / bound, no less than the true ratio (None: the bound is 0)."""
        return Fraction(self.value) / Fraction(self.bound) if self.bound else None

    @property
    def ratio(self) -> Fraction | None:
        """Return the true ratio, or None if the optimum is not proved."""
        return self.at_least if self.proved else None

    def to_json(self) -> dict[str, Any]:
        """Return the claim without the instance, JSON-ready; ratios as exact fractions in text."""
        numbers = {"value": self.value, "best": self.best, "bound": self.bound}
        ratios = {"ratio": self.ratio, "at_least": self.at_least, "at_most": self.at_most}
        return {
            "policy": self.policy,
            "objective": self.objective,
            **{name: int(x) if isinstance(x, int) else str(x) for name, x in numbers.items()},
            "proved": self.proved,
            **{name: None if x is None else str(x) for name, x in ratios.items()},
        }


Canonical = tuple[str, str, tuple[str, ...]]


def canonical(instance: Instance) -> Canonical:
    """Return what instances share that differ only in the order, the ids and the name of their requests."""
    requests = sorted(request.shape.model_dump_json() for request in instance.requests)
    return instance.machine.model_dump_json(), instance.cost.model_dump_json(), tuple(requests)


class Optima:
    """The exact search with a memory: each optimum of an objective is looked for once, up to the order of requests."""

    def __init__(self, objective: str, seconds: float = SECONDS) -> None:
        if check_objective(objective) == "late-requests":
            raise BadInput("late-requests can be 0 and has no ratio; choose another objective")
        self.objective = objective
        self.seconds = seconds
        self.known: dict[Canonical, tuple[Value, Value]] = {}

    def of(self, instance: Instance) -> tuple[Value, Value]:
        """Return the value of the best schedule found and a lower bound on all; equal if that is proved optimal.

        Raises KeyboardInterrupt on Ctrl-C, which the search itself would answer with what it has found so far.
        """
        key = canonical(instance)
        if key not in self.known:
            self.known[key] = self.fresh(instance)
        return self.known[key]

    def fresh(self, instance: Instance) -> tuple[Value, Value]:
        """Return the same without looking it up; the referee has executed the schedule found."""
        outcome = search(instance, self.objective, time_limit=self.seconds, memory_limit_mb=MEGABYTES)
        if outcome.stopped == "interrupted":
            raise KeyboardInterrupt
        assert outcome.value is not None  # for mypy: the search starts from a schedule
        return outcome.value, outcome.bound


def judge(instance: Instance, policy: Policy, optima: Optima) -> Claim:
    """Run a policy and the exact search on an instance.

    Raises PolicyError or Unsuited where the policy gives no schedule: then there is no ratio.
    """
    value = objective_value(trace_policy(instance, policy), optima.objective)
    best, bound = optima.of(instance)
    return Claim(instance, policy.name, optima.objective, value, min(best, value), bound)
