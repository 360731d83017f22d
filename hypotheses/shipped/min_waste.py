"""Whether InferCept's choice by least waste is part of an optimum."""

from __future__ import annotations

from fractions import Fraction

from heuristics import with_min_waste_handlings
from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.instances import CALLS_HOST, calling_family


def part_of_an_optimum(case: Case) -> Fails | Fraction | None:
    free = case.optimum(label="free")
    chosen = case.optimum(with_min_waste_handlings(case.instance), label="least-waste")
    if chosen.value == free.value:
        return None
    return Fails(
        f"with the least waste of each call {chosen.value}, the optimum is {free.value}: "
        f"{float(ratio(chosen, free)):.3f} times",
        (chosen, free),
    )


HYPOTHESIS = Hypothesis(
    statement="Handling each call as wastes least is part of some optimal schedule (total flow time).",
    source="InferCept (arXiv 2402.01869), equations (1) to (5)",
    states="refuted",
    family=enumerated(
        "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, 2 tokens on the host, "
        "every memory that matters",
        lambda: calling_family((1, 3), CALLS_HOST),
    ),
    predicate=part_of_an_optimum,
)
