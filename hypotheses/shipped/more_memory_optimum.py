"""Whether more memory can make an optimal controller worse."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import plain_family, with_memory


def no_worse(case: Case) -> Fails | None:
    small, large = case.optimum(label="less"), case.optimum(with_memory(case.instance, 1), label="more")
    if large.value <= small.value:
        return None
    return Fails(f"{small.value} becomes {large.value} with one token of memory more", (small, large))


HYPOTHESIS = Hypothesis(
    statement="One token of memory more never raises the optimal total flow time.",
    source="common sense",
    states="proved",
    family=enumerated(
        "the theory model: 2 or 3 requests at tick 0, prompts 1 or 2, outputs 1 or 3, every memory that matters",
        lambda: plain_family((2, 3), (1, 2), (1, 3)),
    ),
    predicate=no_worse,
)
