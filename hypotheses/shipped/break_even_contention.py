"""Whether the break-even time-to-live stays within twice the least flow time where others wait for the memory."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import Held
from hypotheses.instances import PER_TOKEN, THEORY
from hypotheses.pauses import paused, placed
from hypotheses.predicates import within
from kvcore.instance import Instance
from kvcore.schedule import Batch


def before_others(context: int, others: int) -> Instance:
    """Return R1, whose call lasts one tick beyond the break-even, and short requests that come as it begins.

    None of them fits beside the KV of R1; all together fit without it.
    """
    duration = (context + 1) ** 2 // context + 1
    return paused(context, duration, [(2, 1, context)] * others, context + 1, THEORY, PER_TOKEN)


def held_until(case: Case, tick: int, label: str) -> Held:
    """Return the schedule that drops the KV of R1 at a tick in its call, or never, and serves the others next."""
    first, *others = case.instance.requests
    begin, back = first.prompt, first.prompt + first.calls[0].duration
    short = {other.id: other.prompt for other in others}
    batches = [Batch(start=0, work={first.id: first.prompt})]
    if tick >= back:
        batches += [Batch(start=back, work={first.id: 1}), Batch(start=back, work=short)]
    else:
        batches += [Batch(start=max(begin, tick), work=short, drop={first.id: first.prompt})]
        batches += [Batch(start=back, work={first.id: first.prompt + 1})]
    return case.held(label, placed(case.instance, batches))


def at_most_twice(case: Case) -> Fails | Fraction:
    context, duration = case.instance.requests[0].prompt, case.instance.requests[0].calls[0].duration
    kept, dropped = held_until(case, context + duration, "preserve"), held_until(case, context, "discard")
    patient = held_until(case, context + (context + 1) ** 2 // context, "break-even")
    least = min(kept, dropped, key=lambda held: held.value)
    return within(patient, least, 2, f"the break-even has {{}}, {least.label} {{}}: over twice")


HYPOTHESIS = Hypothesis(
    statement="Where others wait for its memory too, holding the KV of a call until that wastes as much as recomputing "
    "it, and dropping it then, has at most twice the total flow time of the better of preserving and discarding.",
    source="rent or buy, for the pauses of agents: a time-to-live for KV",
    states="refuted",
    family=enumerated(
        "a request with 4 to 64 tokens of KV that calls for one tick beyond the break-even, and 1 to 8 short ones "
        "that come as its call begins and do not fit beside it, one tick a token",
        lambda: (
            before_others(context, others)
            for context in (4, 8, 16, 32, 64)
            for others in range(1, 9)
            if 2 * others <= context + 1
        ),
    ),
    predicate=at_most_twice,
    note="With c tokens of KV and n short ones the ratio tends to 1 + n / 3 as c grows: no constant bounds it.",
)
