"""Whether more memory can hurt fcfs."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, Undecided, enumerated
from hypotheses.instances import THEORY, plain_family, with_memory


def no_worse(case: Case) -> Fails | None:
    small, large = case.policy("fcfs", label="less"), case.policy("fcfs", with_memory(case.instance, 1), label="more")
    if small is None or large is None:
        raise Undecided("the policy does not run here")
    if large.value <= small.value:
        return None
    return Fails(f"{small.value} becomes {large.value} with one token of memory more", (small, large))


HYPOTHESIS = Hypothesis(
    statement="One token of memory more never raises the total flow time of fcfs.",
    source="common sense",
    states="refuted",
    family=enumerated(
        "the theory model: 2 to 4 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory that matters",
        lambda: plain_family((2, 3, 4), (1, 2, 3), (1, 2, 3, 4), THEORY),
    ),
    predicate=no_worse,
)
