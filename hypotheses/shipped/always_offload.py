"""Whether swapping out at every call can make the schedule worse."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import CALLS_HOST, SWAP_COST, calling_family


def no_worse(case: Case) -> Fails | None:
    kept = case.optimum(case.instance.with_calls_handled("preserve"), label="preserve")
    swapped = case.optimum(case.instance.with_calls_handled("swap"), label="swap")
    if swapped.value <= kept.value:
        return None
    return Fails(f"preserving every call has {kept.value}, swapping every call {swapped.value}", (kept, swapped))


HYPOTHESIS = Hypothesis(
    statement="Swapping out at every call is never worse (optimal total flow time) than preserving at every call.",
    source="vLLM issue 46: what free swapping would give",
    states="refuted",
    family=enumerated(
        "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, a host that holds all, "
        "one tick a batch and one for each token moved, every memory that matters",
        lambda: calling_family((1, 3), CALLS_HOST.replace(host_memory=None), SWAP_COST),
    ),
    predicate=no_worse,
)
