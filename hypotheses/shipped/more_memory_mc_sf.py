"""Whether more memory can make mc-sf worse."""

from __future__ import annotations

from hypotheses import Hypothesis, drawn
from hypotheses.instances import drawn_plain
from hypotheses.predicates import more_memory_never_hurts

HYPOTHESIS = Hypothesis(
    statement="One token of memory more never raises the total flow time of mc-sf.",
    source="common sense",
    states="no counterexample",
    family=drawn(
        "the theory model: 5 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
        800,
        lambda draw, name: drawn_plain(draw, 5, 4),
    ),
    predicate=more_memory_never_hurts("mc-sf"),
)
