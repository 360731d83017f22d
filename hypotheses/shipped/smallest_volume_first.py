"""How far smallest volume first is from the optimum where no request needs more than half the memory."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import plain_family
from hypotheses.predicates import within


def within_five(case: Case) -> Fails | Fraction:
    why = "smallest volume first has {}, the optimum is {}"
    return within(case.policy("memory-area"), case.optimum(), 5, why)


HYPOTHESIS = Hypothesis(
    statement="Where no request needs more than half the memory, smallest volume first is within 5 times the optimal "
    "total flow time.",
    source="Kong et al. (arXiv 2606.22327): 1 + 2 / (1 - a) for peaks of at most a M; here a = 1/2",
    states="proved",
    family=enumerated(
        "the theory model: 3 or 4 requests at tick 0, prompts 1 or 2, outputs 1 to 3, memory from twice the largest "
        "peak",
        lambda: (
            instance
            for instance in plain_family((3, 4), (1, 2), (1, 2, 3))
            if 2 * max(request.peak for request in instance.requests) <= (instance.machine.memory or 0)
        ),
    ),
    predicate=within_five,
    note="The largest ratio in the family is far from the guarantee; started as in MC-SF.",
)
