"""Whether the handling of calls may be fixed before anything is scheduled."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import CALLS_HOST, calling_family, fixed_handlings


def no_loss(case: Case) -> Fails | None:
    free = case.optimum(label="free")
    best = min((case.optimum(fixed, label="fixed") for fixed in fixed_handlings(case.instance)), key=lambda h: h.value)
    if best.value == free.value:
        return None
    return Fails(f"the best handlings fixed beforehand give {best.value}, free handling {free.value}", (best, free))


HYPOTHESIS = Hypothesis(
    statement="Fixing preserve, discard or swap for each call before scheduling loses nothing: the best such choice "
    "attains the optimal total flow time of free handling.",
    source="MARS (arXiv 2410.18248), Section 3: the handling is chosen first; LAMPS, Section 4",
    states="proved",
    family=enumerated(
        "2 requests with a call each of 1 or 3 ticks, prompts 1 or 2, one token before and after, 2 tokens a batch, "
        "2 tokens on the host, "
        "every memory that matters",
        lambda: calling_family((1, 3), CALLS_HOST, decodes=(1,)),
    ),
    predicate=no_loss,
)
