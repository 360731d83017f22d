"""Whether a faster call can make an optimal controller worse."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import CALLS, calling_family, with_faster_call


def no_worse(case: Case) -> Fails | None:
    slow, fast = case.optimum(label="slow"), case.optimum(with_faster_call(case.instance), label="fast")
    if fast.value <= slow.value:
        return None
    return Fails(f"{slow.value} becomes {fast.value} with a call that is one tick faster", (slow, fast))


HYPOTHESIS = Hypothesis(
    statement="A first call that returns one tick earlier never raises the optimal total flow time.",
    source="docs/semantics.md: a shorter call breaks no rule",
    states="proved",
    family=enumerated(
        "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, no room on the host, "
        "every memory that matters",
        lambda: calling_family((1, 3), CALLS),
    ),
    predicate=no_worse,
)
