"""Whether some order of the requests, each started at its earliest fit, gives an optimum."""

from __future__ import annotations

from itertools import permutations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import earliest_starts, flow_time, plain_family, starting_at


def serial(case: Case) -> Fails | None:
    optimum, instance = case.optimum(), case.instance
    lists = (earliest_starts(instance, order) for order in permutations(range(len(instance.requests))))
    starts = min(lists, key=lambda starts: flow_time(instance, starts))
    best = case.held("best-list", starting_at(instance, starts))
    if best.value == optimum.value:
        return None
    return Fails(f"the best list schedule has {best.value}, the optimum {optimum.value}", (best, optimum))


HYPOTHESIS = Hypothesis(
    statement="Some optimal schedule (total flow time) is a serial list schedule: requests in some order, each placed "
    "at its earliest fit.",
    source="a habit of list scheduling; the theory model of Jaillet et al. (arXiv 2502.07115)",
    states="refuted",
    family=enumerated(
        "the theory model: 2 to 4 requests at tick 0, prompts 1 or 2, outputs 2 or 5, every memory that matters",
        lambda: plain_family((2, 3, 4), (1, 2), (2, 5)),
    ),
    predicate=serial,
    note="Waiting although a request fits staggers the ends.",
)
