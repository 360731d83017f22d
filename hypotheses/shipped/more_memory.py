"""Whether more memory can make a policy, or an optimal controller, worse."""

from __future__ import annotations

from hypotheses import Family, Hypothesis, drawn, enumerated
from hypotheses.instances import INFERMAX, THEORY, drawn_plain, plain_family, with_memory
from hypotheses.predicates import never_hurts

THEORY_FAMILY = enumerated(
    "the theory model: 2 to 4 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory that matters",
    lambda: plain_family((2, 3, 4), (1, 2, 3), (1, 2, 3, 4), THEORY),
)
LARGER = drawn(
    "the theory model: 5 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
    800,
    lambda draw, name: drawn_plain(draw, 5, 4),
)
SMALLER = enumerated(
    "the theory model: 2 or 3 requests at tick 0, prompts 1 or 2, outputs 1 or 3, every memory that matters",
    lambda: plain_family((2, 3), (1, 2), (1, 3)),
)
BUDGET_4 = enumerated(
    "INFERMAX's machine (budget 4): 2 or 3 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory "
    "that matters",
    lambda: plain_family((2, 3), (1, 2, 3), (1, 2, 3, 4), INFERMAX),
)


def claim(whose: str, states: str, family: Family, policy: str | None) -> Hypothesis:
    return Hypothesis(
        statement=f"One token of memory more never raises the {whose}.",
        source="common sense",
        states=states,
        family=family,
        predicate=never_hurts(
            lambda instance: with_memory(instance, 1), "one token of memory more", ("less", "more"), policy
        ),
    )


HYPOTHESES = {
    f"more-memory-{policy}": claim(f"total flow time of {policy}", states, family, policy)
    for policy, states, family in (
        ("fcfs", "refuted", THEORY_FAMILY),
        ("mc-sf", "no counterexample", LARGER),
        ("sarathi", "refuted", BUDGET_4),
        ("vllm", "refuted", BUDGET_4),
    )
}
HYPOTHESES["more-memory-optimum"] = claim("optimal total flow time", "proved", SMALLER, None)
