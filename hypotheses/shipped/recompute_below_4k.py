"""Whether recomputing beats swapping below about 4k tokens of context."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import Held
from hypotheses.links import family, recomputed, swapped


def as_claimed(case: Case) -> Fails | None:
    for instance in case.instances:
        again, moved = recomputed(case, instance), swapped(case, instance)
        context = instance.requests[0].prompt
        if (context <= 2048 and again.value >= moved.value) or (context >= 8192 and again.value < moved.value):
            return Fails(f"{instance.name}: {_differ(context, again, moved)}", (again, moved))
    return None


def _differ(context: int, again: Held, moved: Held) -> str:
    first, second = (int(held.value) / 10**6 for held in (again, moved))
    return f"at {context} tokens {first:.2f} ms with a recomputation, {second:.2f} ms with a swap"


HYPOTHESIS = Hypothesis(
    statement="Recomputing a context is faster than moving it to the host and back up to 2048 tokens, and slower from "
    "8192 on: the crossing is at 4k, within a factor of 2.",
    source="a rule of thumb of serving systems",
    states="refuted",
    family=enumerated(
        "the rooflines of llama-3-8b on a100-80gb, h100 and h200 at their published peaks, contexts of 256, 512 .. "
        "16384 tokens",
        lambda: family(("llama-3-8b",)),
    ),
    predicate=as_claimed,
    note="The times are those of a lone request from its arrival to its end. A swap has a batch of its own to go out, "
    "and comes back beside the next token. On h100 and h200 recomputing is faster at 256 tokens only. Slower links "
    "move the crossing: at a quarter of the peak it is below 512 tokens on a100-80gb, and above 8192 on the others.",
)
