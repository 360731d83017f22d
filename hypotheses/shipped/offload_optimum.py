"""Whether room on the host can make an optimal controller worse."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import CALLS, calling_family, with_machine


def no_worse(case: Case) -> Fails | None:
    none, room = case.optimum(label="no-host"), case.optimum(with_machine(case.instance, host_memory=2), label="host")
    if room.value <= none.value:
        return None
    return Fails(f"{none.value} becomes {room.value} with room on the host", (none, room))


HYPOTHESIS = Hypothesis(
    statement="Room for 2 tokens on the host never raises the optimal total flow time: offloading is optional.",
    source="common sense",
    states="proved",
    family=enumerated(
        "2 requests with a free call each of 1 or 3 ticks, prompts 1 or 2, 2 tokens a batch, every memory that matters",
        lambda: calling_family((1, 3), CALLS),
    ),
    predicate=no_worse,
)
