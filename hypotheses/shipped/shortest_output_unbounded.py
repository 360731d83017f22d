"""Whether shortest output first stays within a constant factor with mixed prompts."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.instances import plain
from kvcore.instance import Instance


def mixed(k: int) -> Instance:
    """Return 2 k requests that fill a memory of k k for one tick, and k k small ones that run for two."""
    return plain([(k * k, 1)] * 2 * k + [(1, 2)] * (k * k // 2), k * k)


def within_two(case: Case) -> Fails | Fraction:
    short, volume = case.policy("mc-sf"), case.policy("memory-area")
    assert short is not None
    assert volume is not None
    if ratio(short, volume) <= 2:
        return ratio(short, volume)
    return Fails(f"mc-sf has {short.value}, smallest volume first {volume.value}: over 2 times", (short, volume))


HYPOTHESIS = Hypothesis(
    statement="With mixed prompts, shortest output first (MC-SF) stays within twice the least total flow time.",
    source="MC-SF's constant factor is for one prompt length: Jaillet et al. (arXiv 2502.07115)",
    states="refuted",
    family=enumerated(
        "2 k requests of prompt k k and output 1 beside k k / 2 of prompt 1 and output 2, memory k k, k = 2 .. 16",
        lambda: (mixed(k) for k in range(2, 17)),
    ),
    predicate=within_two,
    note="The ratio grows without bound in this family, as the square root of the memory does.",
)
