"""By how much one token of memory less can raise the waiting for first tokens, of the optimum and of a policy."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Family, Hypothesis, enumerated
from hypotheses.instances import INFERMAX, plain_family, with_memory
from hypotheses.predicates import within


def claim(whose: str, policy: str | None, family: Family) -> Hypothesis:
    def within_half(case: Case) -> Fails | Fraction:
        less, more = (
            case.optimum(instance, "total-ttft", label)
            if policy is None
            else case.policy(policy, instance, "total-ttft", label)
            for instance, label in ((case.instance, "less"), (with_memory(case.instance, 1), "more"))
        )
        return within(less, more, Fraction(3, 2), "total TTFT is {1}, and {0} with one token of memory less")

    return Hypothesis(
        statement=f"One token of memory less raises the {whose} by half at the most.",
        source="a report that 4.5 % fewer blocks gave 4.7 times the P99 TTFT: of the policy, or of the optimum too?",
        states="refuted",
        family=family,
        predicate=within_half,
    )


HYPOTHESES = {
    "one-token-less-optimum": claim(
        "optimal total TTFT",
        None,
        enumerated(
            "the theory model: 2 or 3 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory that matters",
            lambda: plain_family((2, 3), (1, 2, 3), (1, 2, 3, 4)),
        ),
    ),
    "one-token-less-vllm": claim(
        "total TTFT of vllm",
        "vllm",
        enumerated(
            "INFERMAX's machine (budget 4): 2 or 3 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory "
            "that matters",
            lambda: plain_family((2, 3), (1, 2, 3), (1, 2, 3, 4), INFERMAX),
        ),
    ),
}
