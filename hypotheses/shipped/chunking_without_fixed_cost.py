"""Whether chunked prefills can help where a batch has no fixed cost."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import PER_TOKEN, THEORY, plain_family, with_machine


def no_better(case: Case) -> Fails | None:
    whole, chunked = (
        case.optimum(label="whole"),
        case.optimum(with_machine(case.instance, chunked=True), label="chunked"),
    )
    if chunked.value >= whole.value:
        return None
    return Fails(f"{whole.value} becomes {chunked.value} with chunks", (whole, chunked))


HYPOTHESIS = Hypothesis(
    statement="Where a batch costs one tick per token and nothing else, and pauses are allowed, chunked prefills do "
    "not "
    "lower the optimal total flow time of requests that are all there at first.",
    source="exchange of chunks, as for jobs on one machine",
    states="proved",
    family=enumerated(
        "2 requests at tick 0, prompts 1 to 4, outputs 1 or 2, 4 tokens a batch, one tick a token, all memories",
        lambda: plain_family((2,), range(1, 5), (1, 2), THEORY.replace(batch_tokens=4, pause=True), PER_TOKEN),
    ),
    predicate=no_better,
)
