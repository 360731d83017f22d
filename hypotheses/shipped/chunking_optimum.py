"""Whether chunked prefills can make an optimal controller worse."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import LINEAR, THEORY, plain_family, with_machine


def no_worse(case: Case) -> Fails | None:
    whole, chunked = (
        case.optimum(label="whole"),
        case.optimum(with_machine(case.instance, chunked=True), label="chunked"),
    )
    if chunked.value <= whole.value:
        return None
    return Fails(f"{whole.value} becomes {chunked.value} with chunks", (whole, chunked))


HYPOTHESIS = Hypothesis(
    statement="Allowing chunked prefills never raises the optimal total flow time.",
    source="what Sarathi-Serve takes for granted; every whole prefill is one chunk",
    states="proved",
    family=enumerated(
        "2 requests at tick 0, prompts 1 to 4, outputs 1 or 2, batches of 4 ticks and one per token and token of KV "
        "read",
        lambda: plain_family((2,), range(1, 5), (1, 2), THEORY.replace(batch_tokens=4, pause=True), LINEAR),
    ),
    predicate=no_worse,
)
