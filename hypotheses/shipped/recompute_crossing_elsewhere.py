"""Whether swapping overtakes recomputing somewhere else than at 4k tokens, on all of the rooflines."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.links import CONTEXTS, crossing, family, recomputed, swapped

MODELS = ("llama-3.2-1b", "gpt-j-6b", "llama-2-7b", "llama-3-8b", "opt-13b", "vicuna-13b")


def elsewhere(case: Case) -> Fails | None:
    faster = crossing(case)
    if faster == CONTEXTS[: len(faster)] and (2048 in faster) == (8192 in faster):
        return None
    shown = next(instance for instance in case.instances if instance.requests[0].prompt == 4096)
    return Fails(
        f"{shown.name}: recomputing is faster at {', '.join(map(str, faster))}",
        (recomputed(case, shown), swapped(case, shown)),
    )


HYPOTHESIS = Hypothesis(
    statement="On no roofline at published peaks does swapping overtake recomputing between 2048 and 8192 tokens; it "
    "does once, or is ahead from 256 on.",
    source="what refutes recompute-below-4k, on more models",
    states="proved",
    family=enumerated(
        f"{', '.join(MODELS)} on a100-80gb, h100 and h200, contexts of 256, 512 .. 16384 tokens (for some models more "
        "than they were trained for)",
        lambda: family(MODELS),
    ),
    predicate=elsewhere,
    note="Recomputing is faster up to 8192 tokens for gpt-j-6b and llama-2-7b on h100 and h200, up to 1024 for opt-13b "
    "and 512 for vicuna-13b there, and at 256 at the most for the others.",
)
