"""Predicates of several hypotheses: comparisons of schedules, distances from the optimum."""

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from heuristics import Policy
from hypotheses.case import FLOW_TIME, Case, Fails, Held, Undecided, ratio
from hypotheses.hypothesis import Predicate
from kvcore.instance import Instance

Change = Callable[[Instance], Instance]
Make = Callable[[Case], Held | None]  # makes a schedule of a case (None: it cannot)


def optimal(label: str = "optimum", change: Change | None = None, objective: str = FLOW_TIME) -> Make:
    """Make an optimal schedule of the instance, or of the changed one."""
    return lambda case: case.optimum(change(case.instance) if change else None, objective, label)


def run(policy: str | Policy, label: str = "", change: Change | None = None, objective: str = FLOW_TIME) -> Make:
    """Run a policy on the instance, or on the changed one."""
    return lambda case: case.policy(policy, change(case.instance) if change else None, objective, label)


def compared(one: Make, holds: Callable[[Any, Any], Any], other: Make, why: str) -> Predicate:
    """Whether `holds`, of `operator`, is true of two values; `why` has a place for each, and for their ratio."""

    def judge(case: Case) -> Fails | None:
        first, second = _both(case, one, other)
        if holds(first.value, second.value):
            return None
        said = why.format(first.value, second.value, float(ratio(first, second)))
        return Fails(said, (first, second), certain=certain(first, second))

    return judge


def within(one: Make, limit: int | Fraction, other: Make, why: str) -> Callable[[Case], Fails | Fraction]:
    """Whether one value is at most `limit` times the other, and their ratio; `why` as in `compared`."""

    def judge(case: Case) -> Fails | Fraction:
        first, second = _both(case, one, other)
        times = ratio(first, second)
        if times <= limit:
            return times
        return Fails(why.format(first.value, second.value), (first, second), times, certain=certain(first, second))

    return judge


def certain(first: Held, second: Held) -> bool:
    """Whether the greater value is no claim: a lower optimum only sets the two farther apart."""
    return max(first, second, key=lambda held: held.value).claimed_by is None


def _both(case: Case, one: Make, other: Make) -> tuple[Held, Held]:
    first, second = one(case), other(case)
    if first is None or second is None:
        raise Undecided("the policy does not run here")
    return first, second


def never_hurts(change: Change, words: str, labels: tuple[str, str], policy: str | None = None) -> Predicate:
    """Whether a change never raises the total flow time of a policy (None: the optimal one).

    `words` name the change, `labels` the schedules before and after.
    """
    before, after = (
        optimal(label, changed) if policy is None else run(policy, label, changed)
        for label, changed in zip(labels, (None, change), strict=True)
    )
    return compared(before, operator.ge, after, f"{{}} becomes {{}} with {words}")


def average_ratio_within(policy: str, limit: Fraction) -> Predicate:
    """Whether the policy is on average at most `limit` times the optimum over a case."""

    def within_on_average(case: Case) -> Fails | Fraction:
        runs = [_both(Case((instance,), case.deadline), run(policy), optimal()) for instance in case.instances]
        average = Fraction(sum(ratio(*pair) for pair in runs)) / len(runs)
        if average <= limit:
            return average
        worst = max(runs, key=lambda pair: ratio(*pair))
        return Fails(
            f"the average ratio is {float(average):.4f}; on the worst, {worst[0].value} against {worst[1].value}",
            worst,
            certain=all(certain(*pair) for pair in runs),
        )

    return within_on_average
