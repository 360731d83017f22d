"""Whether room on the host can make an optimal controller worse."""

from __future__ import annotations

from hypotheses import Hypothesis, enumerated
from hypotheses.instances import CALLS, calling_family, with_machine
from hypotheses.predicates import never_hurts

HYPOTHESIS = Hypothesis(
    statement="Room for 2 tokens on the host never raises the optimal total flow time: offloading is optional.",
    source="common sense",
    states="proved",
    family=enumerated(
        "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, every memory that matters",
        lambda: calling_family((1, 3), CALLS),
    ),
    predicate=never_hurts(
        lambda instance: with_machine(instance, host_memory=2), "room on the host", ("no-host", "host")
    ),
)
