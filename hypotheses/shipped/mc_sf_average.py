"""How far MC-SF is from the optimum on average, all requests there at first."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Family, Hypothesis
from hypotheses.predicates import average_ratio_within
from workloads.builtin import builtin_instance

SEEDS = 8

HYPOTHESIS = Hypothesis(
    statement="On the theory family (8 requests, M = 12, all at tick 0, seeds 0 to 7), the ratio of MC-SF's total flow "
    "time to the optimum is 1.005 on average, or less.",
    source="Jaillet et al. (arXiv 2502.07115): 1.005 on average, with 40 to 60 requests",
    states="refuted",
    family=Family(
        "hindsight:n=8,M=12 with seeds 0 to 7, as one case",
        lambda: [tuple(builtin_instance(f"hindsight:n=8,M=12,seed={seed}") for seed in range(SEEDS))],
        complete=True,
    ),
    predicate=average_ratio_within("mc-sf", Fraction(1005, 1000)),
    note="Smaller instances than those of the paper, whose optima are open.",
)
