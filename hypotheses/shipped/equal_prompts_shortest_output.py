"""Whether short outputs go first where all prompts are equal."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import best_starts_in_order, plain_family, starting_at


def in_order(case: Case) -> Fails | None:
    optimum = case.optimum()
    best = case.held("in-order", starting_at(case.instance, best_starts_in_order(case.instance, int(optimum.value))))
    if best.value == optimum.value:
        return None
    return Fails(f"in order of output length at best {best.value}, the optimum is {optimum.value}", (best, optimum))


HYPOTHESIS = Hypothesis(
    statement="With equal prompts, some optimal schedule (total flow time) starts no request before one of a shorter "
    "output.",
    source="shortest output first, as in MC-SF: Jaillet et al. (arXiv 2502.07115)",
    states="refuted",
    family=enumerated(
        "the theory model: 2 to 4 requests at tick 0 with prompts of 1, outputs 1 to 4, all memories",
        lambda: plain_family((2, 3, 4), (1,), range(1, 5)),
    ),
    predicate=in_order,
)
