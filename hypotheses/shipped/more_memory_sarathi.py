"""Whether more memory can make sarathi worse."""

from __future__ import annotations

from hypotheses import Hypothesis, enumerated
from hypotheses.instances import INFERMAX, plain_family
from hypotheses.predicates import more_memory_never_hurts

HYPOTHESIS = Hypothesis(
    statement="One token of memory more never raises the total flow time of sarathi.",
    source="common sense",
    states="refuted",
    family=enumerated(
        "INFERMAX's machine (budget 4): 2 or 3 requests at tick 0, prompts 1 to 3, outputs 1 to 4, every memory "
        "that matters",
        lambda: plain_family((2, 3), (1, 2, 3), (1, 2, 3, 4), INFERMAX),
    ),
    predicate=more_memory_never_hurts("sarathi"),
)
