"""Whether more memory can hurt mc-sf."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, Undecided, drawn
from hypotheses.instances import drawn_plain, with_memory


def no_worse(case: Case) -> Fails | None:
    small, large = case.policy("mc-sf", label="less"), case.policy("mc-sf", with_memory(case.instance, 1), label="more")
    if small is None or large is None:
        raise Undecided("the policy does not run here")
    if large.value <= small.value:
        return None
    return Fails(f"{small.value} becomes {large.value} with one token of memory more", (small, large))


HYPOTHESIS = Hypothesis(
    statement="One token of memory more never raises the total flow time of mc-sf.",
    source="common sense",
    states="no counterexample",
    family=drawn(
        "the theory model: 5 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
        800,
        lambda draw, name: drawn_plain(draw, 5, 4),
    ),
    predicate=no_worse,
)
