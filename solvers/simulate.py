"""Policies run: a result, and the value that `--better-than` asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

import kvcore
from bounds.clock import Timer
from heuristics import get_policy, trace_policy
from heuristics import predictions as believed
from heuristics.registry import AnyPolicy
from kvcore.cost import Features, OwnCost
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import AVERAGES, Value, check_objective, objective_value
from kvcore.result import Result, SolverInfo, Stop


def simulate_policy(
    instance: Instance,
    policy: AnyPolicy,
    objective: str = "total-flow-time",
    *,
    handling: str = "as-given",
    predictions: str = "exact",
    seed: int = 0,
    cost: Callable[[Features], float | Fraction] | None = None,
    time_limit: float = math.inf,
) -> Result:
    """Return the schedule of a policy (as `heuristics.get_policy` takes it), executed by the referee (no bound).

    `predictions` (`heuristics.predictions`) are drawn with `seed`. `cost` replaces the instance's: the ticks of a batch
    from its `Features` (`OwnCost`). A policy that has not ended after `time_limit` processor seconds raises
    PolicyError.
    """
    timer = Timer()
    check_objective(objective)
    instance = free_calls(instance if cost is None else instance.replace(cost=OwnCost(cost)), handling)
    chosen = get_policy(policy)
    guessed = believed(predictions, instance, seed)
    in_time = (lambda: timer.seconds < time_limit) if time_limit < math.inf else (lambda: True)
    trace = trace_policy(instance, chosen, guessed, go_on=in_time)
    seconds, clock = timer.seconds, timer.clock
    info = SolverInfo("policy", kvcore.__version__)
    return Result(
        instance, objective, schedule=trace.schedule, executed=trace, solver=info, policy=chosen.name,
        found_by=chosen.name, seconds=seconds, clock_seconds=clock, stopped=Stop.ENDED,
    )  # fmt: skip


def free_calls(instance: Instance, handling: str) -> Instance:
    """Return the instance with its calls as given or free (`--handling`)."""
    if handling not in ("as-given", "free"):
        raise BadInput(f"handling is as-given or free, not {handling!r}")
    return instance.with_free_calls() if handling == "free" else instance


def target_of(text: str, instance: Instance, objective: str, handling: str) -> Value:
    """Return the largest value that answers `--better-than` with yes.

    `VALUE` asks for strictly less; `P%:POLICY` for at least P per cent less than the policy's value.
    """
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%:(\S+)", text)
    if match is not None:
        share = 1 - Fraction(match[1]) / 100
        if share < 0:
            raise BadInput(f"--better-than {text}: no schedule is more than 100 % better")
        freed = free_calls(instance, handling)
        value = objective_value(trace_policy(freed, get_policy(match[2])), objective)
        return value * share
    if re.fullmatch(r"\d{1,30}", text):
        return Fraction(int(text)) if objective in AVERAGES else Fraction(2 * int(text) - 1, 2)
    raise BadInput(f"--better-than {text}: write a whole number of ticks, or P%:POLICY such as 10%:fcfs")
