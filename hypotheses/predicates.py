"""Predicates that several hypotheses share: anomalies of a policy, and its average distance from the optimum."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hypotheses import Case, Fails, Undecided
from hypotheses.case import Held, ratio
from hypotheses.instances import with_faster_call, with_memory

Predicate = Callable[[Case], "Fails | Fraction | None"]


def faster_call_never_hurts(policy: str) -> Predicate:
    """Return whether a first call that returns one tick earlier never raises the total flow time of the policy."""

    def no_worse(case: Case) -> Fails | None:
        slow = case.policy(policy, label="slow")
        fast = case.policy(policy, with_faster_call(case.instance), label="fast")
        return _no_worse(slow, fast, "a call that is one tick faster")

    return no_worse


def more_memory_never_hurts(policy: str) -> Predicate:
    """Return whether one token of memory more never raises the total flow time of the policy."""

    def no_worse(case: Case) -> Fails | None:
        less = case.policy(policy, label="less")
        more = case.policy(policy, with_memory(case.instance, 1), label="more")
        return _no_worse(less, more, "one token of memory more")

    return no_worse


def _no_worse(before: Held | None, after: Held | None, change: str) -> Fails | None:
    if before is None or after is None:
        raise Undecided("the policy does not run here")
    if after.value <= before.value:
        return None
    return Fails(f"{before.value} becomes {after.value} with {change}", (before, after))


def average_ratio_within(policy: str, limit: Fraction) -> Predicate:
    """Return whether the policy is at most `limit` times the optimum on average over the instances of a case."""

    def within(case: Case) -> Fails | Fraction:
        runs: list[tuple[Held, Held]] = []
        for instance in case.instances:
            held = case.policy(policy, instance)
            if held is None:
                raise Undecided("the policy does not run here")
            runs.append((held, case.optimum(instance)))
        average = Fraction(sum(ratio(*run) for run in runs)) / len(runs)
        if average <= limit:
            return average
        worst = max(runs, key=lambda run: ratio(*run))
        return Fails(
            f"the average ratio is {float(average):.4f}; on the worst, {worst[0].value} against {worst[1].value}", worst
        )

    return within
