"""Whether a faster call can make vllm worse."""

from __future__ import annotations

from hypotheses import Hypothesis, drawn
from hypotheses.instances import EVICTING, drawn_instance
from hypotheses.predicates import faster_call_never_hurts

HYPOTHESIS = Hypothesis(
    statement="A first call that returns one tick earlier never raises the total flow time of vllm.",
    source="common sense",
    states="refuted",
    family=drawn(
        "3 requests, each with 1 free call at most, 4 tokens a batch, eviction, room on the host",
        1000,
        lambda draw, name: drawn_instance(draw, name, EVICTING, calls=1, least_calls=1),
    ),
    predicate=faster_call_never_hurts("vllm"),
)
