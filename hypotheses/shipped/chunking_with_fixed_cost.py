"""Whether chunked prefills can help where a batch has a fixed cost."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import FIXED, THEORY, plain_family, with_machine


def no_better(case: Case) -> Fails | None:
    whole, chunked = (
        case.optimum(label="whole"),
        case.optimum(with_machine(case.instance, chunked=True), label="chunked"),
    )
    if chunked.value >= whole.value:
        return None
    return Fails(f"{whole.value} becomes {chunked.value} with chunks", (whole, chunked))


HYPOTHESIS = Hypothesis(
    statement="Where a batch has a fixed cost too, chunked prefills do not lower the optimal total flow time either.",
    source="the same claim, where it should fail",
    states="refuted",
    family=enumerated(
        "3 or 4 requests at tick 0, prompts 2 to 4, output 1, 4 tokens a batch, 3 ticks and one a token, all memories",
        lambda: plain_family((3, 4), (2, 3, 4), (1,), THEORY.replace(batch_tokens=4, pause=True), FIXED),
    ),
    predicate=no_better,
)
