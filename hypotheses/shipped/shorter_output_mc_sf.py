"""A surprise: whether a request that generates less can make all requests wait longer under MC-SF."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, drawn
from hypotheses.instances import drawn_plain, with_shorter_output


def no_worse(case: Case) -> Fails | None:
    long = case.policy("mc-sf", label="longer")
    assert long is not None
    for i in range(len(case.instance.requests)):
        shorter = with_shorter_output(case.instance, i)
        short = None if shorter is None else case.policy("mc-sf", shorter, label="shorter")
        if short is not None and short.value > long.value:
            id = case.instance.requests[i].id
            return Fails(f"{long.value} becomes {short.value} when {id} generates one token less", (long, short))
    return None


HYPOTHESIS = Hypothesis(
    statement="A request that generates one token less never raises the total flow time of MC-SF, its own included.",
    source="one of our own",
    states="refuted",
    family=drawn(
        "the theory model: 4 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
        2000,
        lambda draw, name: drawn_plain(draw, 4, 4),
    ),
    predicate=no_worse,
)
