"""Whether letting a later request start earlier, where it fits, can make the schedule worse."""

from itertools import permutations

from hypotheses import Case, Fails, Hypothesis, drawn
from hypotheses.small_instances import drawn_plain, earliest_starts, flow_time, starting_at


def never_hurts(case: Case) -> Fails | None:
    instance = case.instance
    for order in permutations(range(len(instance.requests))):
        strict, filled = earliest_starts(instance, order, in_order=True), earliest_starts(instance, order)
        if flow_time(instance, filled) > flow_time(instance, strict):
            shown = [case.held(k, starting_at(instance, s)) for k, s in (("in-order", strict), ("backfilled", filled))]
            ids = ", ".join(instance.requests[i].id for i in order)
            return Fails(f"order {ids}: {shown[0].value} in order, {shown[1].value} backfilled", shown)
    return None


HYPOTHESIS = Hypothesis(
    statement="In any order of the requests, placing each at its earliest fit is no worse (total flow time) than "
    "starting none before the one ahead of it.",
    source="backfilling of batch systems; claim of first come, first served with and without it",
    states="refuted",
    family=drawn(
        "the theory model: 5 requests at tick 0, prompts and outputs of 1 to 4, memory up to twice the largest peak",
        1500,
        lambda draw, name: drawn_plain(draw, 5, 4),
    ),
    predicate=never_hurts,
)
