"""Whether a faster call can hurt mars."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, Undecided, drawn
from hypotheses.instances import EVICTING, drawn_instance, with_faster_call


def no_worse(case: Case) -> Fails | None:
    slow = case.policy("mars", label="slow")
    fast = case.policy("mars", with_faster_call(case.instance), label="fast")
    if slow is None or fast is None:
        raise Undecided("the policy does not run here")
    if fast.value <= slow.value:
        return None
    return Fails(f"{slow.value} becomes {fast.value} with a call that is one tick faster", (slow, fast))


HYPOTHESIS = Hypothesis(
    statement="A first call that returns one tick earlier never raises the total flow time of mars.",
    source="common sense",
    states="refuted",
    family=drawn(
        "3 requests, each with 1 free call at most, 4 tokens a batch, eviction, room on the host",
        1000,
        lambda draw, name: drawn_instance(draw, name, EVICTING, calls=1, least_calls=1),
    ),
    predicate=no_worse,
)
