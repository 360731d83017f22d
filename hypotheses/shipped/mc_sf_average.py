"""How far MC-SF is from the optimum on average, all requests there at first and with arrivals."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Family, Hypothesis
from hypotheses.predicates import average_ratio_within
from workloads.builtin import builtin_instance


def claim(name: str, arrivals: str, limit: str, states: str) -> Hypothesis:
    return Hypothesis(
        statement=f"On the theory family (8 requests, M = 12, {arrivals}, seeds 0 to 7), the ratio of MC-SF's total "
        f"flow time to the optimum is {limit} on average, or less.",
        source=f"Jaillet et al. (arXiv 2502.07115): {limit} on average, with 40 to 60 requests",
        states=states,
        family=Family(
            f"{name} with seeds 0 to 7, as one case",
            lambda: [tuple(builtin_instance(f"{name},seed={seed}") for seed in range(8))],
            complete=True,
        ),
        predicate=average_ratio_within("mc-sf", Fraction(limit)),
        note="Smaller instances than those of the paper, whose optima are open.",
    )


HYPOTHESES = {
    "mc-sf-average": claim("hindsight:n=8,M=12", "all at tick 0", "1.005", "refuted"),
    "mc-sf-average-online": claim("hindsight:n=8,M=12,T=12", "arrivals at 0 to 12", "1.047", "proved"),
}
