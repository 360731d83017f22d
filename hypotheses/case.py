"""One case of a family: the instances to judge, with exact optima and the values of policies on them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import kvcore
from heuristics import Policy, PolicyError, Unsuited, get_policy, run_policy
from kvcore.certificates import Certificate, Events, InvalidCertificate, certify
from kvcore.certificates.events import find
from kvcore.errors import BadInput, MissingTool
from kvcore.files import read_schedule, write_text
from kvcore.instance import Instance
from kvcore.metrics import Value, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers import solve
from solvers.search import search

FLOW_TIME = "total-flow-time"
MEMORY_LIMIT_MB = 1500
"""What the states of one search may take."""
STATES = 30_000
"""States that the proof of a saved optimum may need; beyond, its schedule is saved without a certificate."""
SOLVE_SECONDS, PATHS_SECONDS = 30.0, 120.0
"""What one optimum may take at the most: by exhaustive search, and then by CP-SAT on the arc flow."""


class Undecided(Exception):
    """A limit struck before the case was decided."""


@dataclass(frozen=True)
class Held:
    """A schedule that the referee has executed, with its value; `optimal` if no schedule is better (proved)."""

    label: str
    instance: Instance
    objective: str
    value: Value
    schedule: Schedule
    optimal: bool = False

    @property
    def trace(self) -> Trace:
        """What executing the schedule gives."""
        return verify_schedule(self.instance, self.schedule)

    def certificate(self) -> Certificate | None:
        """Return a certificate that no schedule is better (None: too many states, or it is not claimed)."""
        if not self.optimal:
            return None
        try:
            found = find(self.instance, self.objective, STATES)
        except InvalidCertificate:  # the instance is too large
            return None
        if not found.is_optimum:
            return None
        return certify(self.instance, self.objective, Events(states=found.states))


@dataclass(frozen=True)
class Fails:
    """The claim does not hold here: in words, the schedules that show it, and how far it fails, if that is a number.

    `shown` are the instances that show it, where not all of the case do.
    """

    why: str
    evidence: Sequence[Held] = ()
    number: Fraction | None = None
    shown: tuple[Instance, ...] = ()


@dataclass(frozen=True)
class Case:
    """The instances of one item of a family (often one), until a deadline by `time.monotonic`."""

    instances: tuple[Instance, ...]
    deadline: float = field(default=float("inf"))

    @property
    def instance(self) -> Instance:
        """The first instance, often the only one."""
        return self.instances[0]

    def optimum(self, instance: Instance | None = None, objective: str = FLOW_TIME, label: str = "optimum") -> Held:
        """Return an optimal schedule, proved. Raises Undecided if a limit strikes."""
        instance = self.instance if instance is None else instance
        found = _optimum(instance, objective, self.deadline)
        if found is None:
            raise Undecided(f"{instance.name}: not solved within the limits")
        return Held(label, instance, objective, *found, optimal=True)

    def policy(
        self, policy: str | Policy, instance: Instance | None = None, objective: str = FLOW_TIME, label: str = ""
    ) -> Held | None:
        """Return what a policy makes of an instance (None: it cannot run there)."""
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
    """Return how many times the value of `other` a value is."""
    return Fraction(value.value) / Fraction(other.value)


def _optimum(instance: Instance, objective: str, deadline: float) -> tuple[Value, Schedule] | None:
    """Return the optimal value and a schedule, as found before if it was; None if the limits strike.

    It is proved by exhaustive search or, where that is too long, by CP-SAT on the arc flow, if that applies and is
    installed. The folder that the variable KVBOUND_OPTIMA names, if any, keeps what is found for later runs of this
    version.

    Raises KeyboardInterrupt on Ctrl-C, which the search itself would answer with what it has found so far.
    """
    place, folder = (instance.sha256, objective), os.environ.get("KVBOUND_OPTIMA")
    file = folder and Path(folder) / f"{instance.sha256}-{objective}-{kvcore.__version__}.json"
    if place not in _FOUND and file and file.exists():
        schedule = read_schedule(file)
        _FOUND[place] = objective_value(verify_schedule(instance, schedule), objective), schedule
    if place not in _FOUND:
        for way, most in ((_by_search, SOLVE_SECONDS), (_by_paths, PATHS_SECONDS)):
            seconds = min(most, deadline - time.monotonic())
            if seconds > 0 and (found := way(instance, objective, seconds)) is not None:
                break
        else:
            return None
        _FOUND[place] = found
        if file:
            write_text(file, found[1].to_json())
    return _FOUND[place]


def _by_search(instance: Instance, objective: str, seconds: float) -> tuple[Value, Schedule] | None:
    outcome = search(instance, objective, time_limit=seconds, memory_limit_mb=MEMORY_LIMIT_MB)
    if outcome.stopped == "interrupted":
        raise KeyboardInterrupt
    if not outcome.proved or outcome.schedule is None or outcome.value is None:
        return None
    return outcome.value, outcome.schedule


def _by_paths(instance: Instance, objective: str, seconds: float) -> tuple[Value, Schedule] | None:
    try:
        result = solve(instance, objective, formulation="arc-flow", solver="cp-sat", time_limit=seconds)
    except (BadInput, MissingTool):
        return None
    if result.stopped == "interrupted":
        raise KeyboardInterrupt
    if result.status != "optimal" or result.schedule is None or result.value is None:
        return None
    return result.value, result.schedule


_FOUND: dict[tuple[str, str], tuple[Value, Schedule]] = {}
"""Optima that were found, by the hash of the instance and the objective."""
