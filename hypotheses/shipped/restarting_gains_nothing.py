"""Whether free stopping and recomputing gains anything in the theory model."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import plain_family, with_machine


def no_gain(case: Case) -> Fails | None:
    never = case.optimum(label="never-evicting")
    free = case.optimum(with_machine(case.instance, evict=True), label="evicting")
    if free.value >= never.value:
        return None
    return Fails(f"never evicting has {never.value}, evicting {free.value}", (never, free))


HYPOTHESIS = Hypothesis(
    statement="In the theory model, where a refill costs no more than a decode, dropping KV and recomputing it never "
    "lowers the optimal total flow time.",
    source="policies that never evict (Jaillet et al., arXiv 2502.07115) against those that restart (arXiv 2601.22996)",
    states="refuted",
    family=enumerated(
        "the theory model: 2 to 4 requests at tick 0, prompts 1 or 2, outputs 1 or 3, every memory that matters",
        lambda: plain_family((2, 3, 4), (1, 2), (1, 3)),
    ),
    predicate=no_gain,
)
