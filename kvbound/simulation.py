"""Policies on one instance, each schedule executed by the referee."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from heuristics import POLICIES, PolicyError, Unsuited, get_policy
from heuristics.registry import AnyPolicy
from kvcore.instance import Instance
from kvcore.metrics import summary
from kvcore.result import Result, Stop
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers import simulate_policy

NEXT_NAME = re.compile(r",(?!\s*(?:\w+=|\d+\s*(?:,|$)))")
"""The commas between names: those before `r0=3` or a number are part of a policy's name."""

Watch = Callable[[str], AbstractContextManager[Any]]
"""Makes a progress display from words."""


def unwatched(_: str) -> AbstractContextManager[None]:
    """Show nothing."""
    return nullcontext()


@dataclass(frozen=True)
class Simulation:
    """One policy (or outside schedule) on one instance: its row and schedule (None: it could not run)."""

    row: dict[str, Any] = field(repr=False)
    schedule: Schedule | None = None
    trace: Trace | None = None

    @property
    def label(self) -> str:
        """The name of the policy or the outside schedule."""
        return str(self.row["policy"] or self.row["schedule"])


def match_handling(instance: Instance, sha256: str) -> Instance:
    """Return the instance, with free calls for `--handling free`."""
    free = instance.with_free_calls()
    return free if sha256 == free.sha256 else instance


def outside_schedules(
    instance: Instance, schedules: Mapping[str, Schedule], objective: str, window: Fraction | None = None
) -> list[Simulation]:
    """Return outside schedules by name, executed by the referee, on the instance or with free calls.

    Raises:
        InvalidSchedule: one breaks a rule.
        BadInput: one is for another instance.
    """
    runs = []
    for name, schedule in schedules.items():
        judged = match_handling(instance, schedule.instance_sha256)
        result = Result(judged, objective, schedule, found_by=name, stopped=Stop.GIVEN)
        assert result.trace is not None  # for mypy
        row = {**result.to_json(), "schedule": name, "measures": summary(result.trace, window)}
        runs.append(Simulation(row, schedule, result.trace))
    return runs


def simulate_policies(
    instance: Instance,
    policies: Sequence[AnyPolicy],
    objective: str = "total-flow-time",
    handling: str = "as-given",
    *,
    window: Fraction | None = None,
    strict: bool = True,
    predictions: str = "exact",
    seed: int = 0,
    time_limit: float = math.inf,
    traces: bool = True,
    watch: Watch = unwatched,
) -> tuple[list[Simulation], bool]:
    """Run policies, until Ctrl-C or SIGTERM: return what has run, and whether that came.

    A policy's error is raised if `strict`, else stands in its row under `error`. `window` is that of
    `kvcore.metrics.summary`; `predictions`, `seed` and `time_limit` those of `solvers.simulate_policy`. Without
    `traces` only the best schedule on each instance is kept.
    """
    runs: list[Simulation] = []
    for policy in map(get_policy, policies):
        try:
            with watch(f"{policy.name} on {instance.name}"):
                result = simulate_policy(
                    instance, policy, objective, handling=handling, predictions=predictions, seed=seed,
                    time_limit=time_limit,
                )  # fmt: skip
                assert result.trace is not None  # for mypy: a policy ends with a schedule or an error
                row = {**result.to_json(), "measures": summary(result.trace, window)}
                runs.append(Simulation(row, result.schedule, result.trace))
        except (PolicyError, Unsuited) as error:
            if strict:
                raise
            freed = instance.with_free_calls() if handling == "free" else instance
            empty = Result(freed, objective, policy=policy.name)
            runs.append(Simulation({**empty.to_json(), "error": str(error)}))
        except KeyboardInterrupt:
            return runs, True
        runs = runs if traces else _with_best_trace(runs)
    return runs, False


def _with_best_trace(runs: Sequence[Simulation]) -> list[Simulation]:
    held = sorted((run for run in runs if run.trace), key=lambda run: Fraction(run.row["value"]), reverse=True)
    best = {run.row["instance_sha256"]: id(run) for run in held}.values()
    return [run if id(run) in best else replace(run, schedule=None, trace=None) for run in runs]


def policy_names(text: str) -> list[str]:
    """Return the policies of a comma-separated list (or `all`); BadInput for an unknown one."""
    if text == "all":
        return list(POLICIES)
    names = [name.strip() for name in NEXT_NAME.split(text)]
    for name in names:
        get_policy(name)
    return names
