"""Whether online policies that start what fits stay within a constant factor of the optimum."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.instances import THEORY, plain
from kvcore.instance import Instance

POLICIES = ("fcfs", "mc-sf", "sarathi")
MACHINE = THEORY.replace(batch_tokens=10**6, chunked=True, evict=True, pause=True)
"""As in the theory model, but that everything is allowed: more than these policies make use of."""


def bait(k: int) -> Instance:
    """Return a request that is alone at tick 0 and fills a memory of k k, and k short ones a tick later."""
    return plain([(k * k - k + 1, k)] + [(k, 1, 1)] * k, k * k, MACHINE)


def one_within_three(case: Case) -> Fails | Fraction:
    optimum = case.optimum()
    found = [held for held in map(case.policy, POLICIES) if held is not None]
    best = min(found, key=lambda held: held.value)
    if ratio(best, optimum) <= 3:
        return ratio(best, optimum)
    values = ", ".join(f"{held.label} {held.value}" for held in found)
    return Fails(f"{values}; the optimum is {optimum.value}", (*found, optimum))


HYPOTHESIS = Hypothesis(
    statement="The best of fcfs, mc-sf and sarathi stays within 3 times the least total flow time.",
    source="one of our own: what defeats every policy that drops no KV, tried on three",
    states="refuted",
    family=enumerated(
        "a request at tick 0 that fills a memory of k k after k ticks, and k of prompt k and output 1 at tick 1 that "
        "do not fit beside it, everything allowed, k = 2 .. 12",
        lambda: (bait(k) for k in range(2, 13)),
    ),
    predicate=one_within_three,
    note="All three start the first request at once and let it end. The ratio, k (k + 1) to 2 k + 1, grows without "
    "bound in this family; the optimum drops the first request for a tick, which an online policy could do too.",
)
