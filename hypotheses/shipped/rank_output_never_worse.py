"""Ranking requests by output is never worse (total flow time) than ranking them by input."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import INFERMAX, LINEAR, plain_family


def no_worse(case: Case) -> Fails | None:
    mine, other = case.policy("rank-o"), case.policy("rank-i")
    assert mine is not None
    assert other is not None
    if mine.value <= other.value:
        return None
    return Fails(f"{mine.label} has {mine.value}, {other.label} {other.value}", (mine, other))


HYPOTHESIS = Hypothesis(
    statement="Ranking requests by output is never worse (total flow time) than ranking them by input.",
    source="the studies that rank by output, which INFERMAX (arXiv 2411.07447), Section 4.6, argues with",
    states="refuted",
    family=enumerated(
        "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, all "
        "memories",
        lambda: plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR),
    ),
    predicate=no_worse,
    sentence="",
    note="",
)
