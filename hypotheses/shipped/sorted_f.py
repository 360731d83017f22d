"""How far Sorted-F is from the optimum, and whether it beats MC-SF where prompts differ."""

from __future__ import annotations

from hypotheses import Hypothesis, drawn, enumerated
from hypotheses.instances import drawn_plain, plain_family
from hypotheses.predicates import optimal, run, within

HYPOTHESES = {
    "sorted-f": Hypothesis(
        statement="Sorted-F is within 48 times the optimal total flow time.",
        source="Wang et al. (arXiv 2508.06133): 48, with all requests there at first",
        states="proved",
        family=enumerated(
            "the theory model: 3 or 4 requests at tick 0, prompts 1 or 4, outputs 1 or 3, all memories",
            lambda: plain_family((3, 4), (1, 4), (1, 3)),
        ),
        predicate=within(run("sorted-f"), 48, optimal(), "sorted-f has {}, the optimum is {}: over 48 times"),
        note="The largest ratio in the family is far from the guarantee; started as in MC-SF.",
    ),
    "sorted-f-mc-sf": Hypothesis(
        statement="Sorted-F is never worse than MC-SF.",
        source="one of our own; Wang et al. show that shortest output first can be arbitrarily bad",
        states="refuted",
        family=drawn(
            "the theory model: 4 requests at tick 0, prompts and outputs up to 5, memory up to twice the largest peak",
            2000,
            lambda draw, name: drawn_plain(draw, 4, 5),
        ),
        predicate=within(run("sorted-f"), 1, run("mc-sf"), "sorted-f has {}, mc-sf {}"),
    ),
}
