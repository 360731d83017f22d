"""Whether a faster call can make a policy, or an optimal controller, worse."""

from __future__ import annotations

from hypotheses import Hypothesis, drawn, enumerated
from hypotheses.instances import CALLS, EVICTING, calling_family, drawn_instance, with_faster_call
from hypotheses.predicates import never_hurts

CHANGE = (with_faster_call, "a call that is one tick faster", ("slow", "fast"))

HYPOTHESES = {
    f"faster-call-{policy}": Hypothesis(
        statement=f"A first call that returns one tick earlier never raises the total flow time of {policy}.",
        source="common sense",
        states="refuted",
        family=drawn(
            "3 requests, each with 1 free call at most, 4 tokens a batch, eviction, room on the host",
            1000,
            lambda draw, name: drawn_instance(draw, name, EVICTING),
        ),
        predicate=never_hurts(*CHANGE, policy),
    )
    for policy in ("fcfs", "infercept", "mars", "vllm")
}
HYPOTHESES["faster-call-optimum"] = Hypothesis(
    statement="A first call that returns one tick earlier never raises the optimal total flow time.",
    source="docs/semantics.md: a shorter call breaks no rule",
    states="proved",
    family=enumerated(
        "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, no room on the host, "
        "every memory that matters",
        lambda: calling_family((1, 3), CALLS),
    ),
    predicate=never_hurts(*CHANGE),
)
