"""Whether first come, first served stays within a constant factor."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.instances import plain
from kvcore.instance import Instance


def one_large(k: int) -> Instance:
    """Return a request that fills a memory of k k after k ticks, and k short ones that do not fit beside it."""
    return plain([(k * k - k + 1, k)] + [(k, 1)] * k, k * k)


def within_four(case: Case) -> Fails | Fraction:
    fcfs, short = case.policy("fcfs"), case.policy("sjf")
    assert fcfs is not None
    assert short is not None
    if ratio(fcfs, short) <= 4:
        return ratio(fcfs, short)
    return Fails(f"fcfs has {fcfs.value}, shortest first {short.value}: over 4 times", (fcfs, short))


HYPOTHESIS = Hypothesis(
    statement="First come, first served stays within 4 times the least total flow time.",
    source="a habit of serving systems",
    states="refuted",
    family=enumerated(
        "a request that fills a memory of k k after k ticks ahead of k of prompt k and output 1, k = 2 .. 30",
        lambda: (one_large(k) for k in range(2, 31)),
    ),
    predicate=within_four,
    note="The ratio grows without bound in this family.",
)
