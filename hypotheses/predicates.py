"""Predicates that several hypotheses share: changes that should never hurt, and distances from the optimum."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hypotheses.case import Case, Fails, Held, Undecided, ratio
from hypotheses.hypothesis import Predicate
from kvcore.instance import Instance


def never_hurts(
    change: Callable[[Instance], Instance], words: str, labels: tuple[str, str], policy: str | None = None
) -> Predicate:
    """Return whether a change never raises the total flow time of a policy (None: the optimal one).

    `words` name the change, `labels` the schedules before and after it.
    """

    def no_worse(case: Case) -> Fails | None:
        before, after = (
            case.optimum(instance, label=label) if policy is None else case.policy(policy, instance, label=label)
            for instance, label in zip((case.instance, change(case.instance)), labels, strict=True)
        )
        if before is None or after is None:
            raise Undecided("the policy does not run here")
        if after.value <= before.value:
            return None
        return Fails(f"{before.value} becomes {after.value} with {words}", (before, after))

    return no_worse


def within(value: Held | None, other: Held | None, limit: int | Fraction, why: str) -> Fails | Fraction:
    """Return how many times `other` a value is, or that it is over the limit; `why` has a place for each of the two."""
    assert value is not None
    assert other is not None
    if ratio(value, other) <= limit:
        return ratio(value, other)
    return Fails(why.format(value.value, other.value), (value, other))


def average_ratio_within(policy: str, limit: Fraction) -> Predicate:
    """Return whether the policy is at most `limit` times the optimum on average over the instances of a case."""

    def within_on_average(case: Case) -> Fails | Fraction:
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

    return within_on_average
