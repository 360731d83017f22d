"""Whether keeping long requests and evicting short ones beats evicting the last comer."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import INFERMAX, LINEAR, plain_family


def no_worse(case: Case) -> Fails | None:
    sorting, last = case.policy("infermax", objective="busy-time"), case.policy("sarathi", objective="busy-time")
    assert sorting is not None
    assert last is not None
    if sorting.value <= last.value:
        return None
    return Fails(
        f"evicting the shortest has a busy time of {sorting.value}, the last comer {last.value}", (sorting, last)
    )


HYPOTHESIS = Hypothesis(
    statement="Running long requests first and evicting short ones is never worse in busy time than evicting the last "
    "comer (Sarathi).",
    source="INFERMAX (arXiv 2411.07447), Section 6",
    states="refuted",
    family=enumerated(
        "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, all "
        "memories",
        lambda: plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR),
    ),
    predicate=no_worse,
    sentence="By adding a single line of this sorting, which is extremely easy to implement, we show that it can incur "
    "substantial GPU savings.",
    note="The paper's claim is of savings on its workloads; that it never hurts is the claim tried here.",
)
