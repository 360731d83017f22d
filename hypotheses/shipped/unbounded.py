"""Whether orders of requests stay within a constant factor: first come, first served, and shortest output first."""

from __future__ import annotations

from hypotheses import Hypothesis, enumerated
from hypotheses.instances import plain
from hypotheses.predicates import within
from kvcore.instance import Instance


def one_large(k: int) -> Instance:
    """Return a request that fills a memory of k k after k ticks, and k short ones that do not fit beside it."""
    return plain([(k * k - k + 1, k)] + [(k, 1)] * k, k * k)


def mixed(k: int) -> Instance:
    """Return 2 k requests that fill a memory of k k for one tick, and k k small ones that run for two."""
    return plain([(k * k, 1)] * 2 * k + [(1, 2)] * (k * k // 2), k * k)


HYPOTHESES = {
    "fcfs-unbounded": Hypothesis(
        statement="First come, first served stays within 4 times the least total flow time.",
        source="a habit of serving systems",
        states="refuted",
        family=enumerated(
            "a request that fills a memory of k k after k ticks ahead of k of prompt k and output 1, k = 2 .. 30",
            lambda: (one_large(k) for k in range(2, 31)),
        ),
        predicate=lambda case: within(
            case.policy("fcfs"), case.policy("sjf"), 4, "fcfs has {}, shortest first {}: over 4 times"
        ),
        note="The ratio grows without bound in this family.",
    ),
    "shortest-output-unbounded": Hypothesis(
        statement="With mixed prompts, shortest output first (MC-SF) stays within twice the least total flow time.",
        source="MC-SF's constant factor is for one prompt length: Jaillet et al. (arXiv 2502.07115)",
        states="refuted",
        family=enumerated(
            "2 k requests of prompt k k and output 1 beside k k / 2 of prompt 1 and output 2, memory k k, k = 2 .. 16",
            lambda: (mixed(k) for k in range(2, 17)),
        ),
        predicate=lambda case: within(
            case.policy("mc-sf"), case.policy("memory-area"), 2, "mc-sf has {}, smallest volume first {}: over 2 times"
        ),
        note="The ratio grows without bound in this family, as the square root of the memory does.",
    ),
}
