"""Whether some instance needs both Discard and Swap."""

from __future__ import annotations

from itertools import product

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import CALLS_HOST, calling, fixed_handlings


def one_is_enough(case: Case) -> Fails | None:
    optima = [case.optimum(fixed, label="fixed") for fixed in fixed_handlings(case.instance)]
    best = min(optima, key=lambda held: held.value)
    for without in ("discard", "swap"):
        rest = [o for o in optima if all(c.handling != without for r in o.instance.requests for c in r.calls)]
        if min(held.value for held in rest) == best.value:
            return None
    return Fails(f"{best.value} takes a discard and a swap; with one kind alone it is more", (best,))


HYPOTHESIS = Hypothesis(
    statement="No instance needs both discard and swap: with preserve and one of the two, the best fixed handlings "
    "attain the best of all three (total flow time).",
    source="one of our own, on the three handlings of InferCept (arXiv 2402.01869)",
    states="refuted",
    family=enumerated(
        "a request of prompt 1 and 2 tokens before its call, and one of 3 and 3, calls of 3 or 4 ticks, one token "
        "after; "
        "2 tokens a batch, 2 tokens on the host, every memory that matters",
        lambda: (
            calling([(1, 2, one, 0, 1), (3, 3, two, 0, 1)], CALLS_HOST.replace(memory=memory))
            for one, two, memory in product((3, 4), (3, 4), range(6, 9))
        ),
    ),
    predicate=one_is_enough,
)
