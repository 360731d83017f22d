"""For which prompts eviction is part of every optimum in INFERMAX's example."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, listed
from hypotheses.instances import with_machine


def as_the_paper_says(case: Case) -> Fails | None:
    prompt = case.instance.requests[0].prompt
    free = case.optimum(objective="busy-time", label="evicting")
    never = case.optimum(with_machine(case.instance, evict=False), "busy-time", "never-evicting")
    if (free.value < never.value) == (prompt <= 32):
        return None
    return Fails(f"I = {prompt}: {free.value} with eviction, {never.value} without", (free, never))


HYPOTHESIS = Hypothesis(
    statement="In INFERMAX's Figure 15 (O = 4), evicting lowers the least busy time for I = 1, 2, 4 .. 32, and does "
    "not for "
    "64 .. 1024.",
    source="INFERMAX (arXiv 2411.07447), Section 5.1 and Figure 15",
    states="proved",
    family=listed(*(f"infermax-figure15:I={2**k}" for k in range(11))),
    predicate=as_the_paper_says,
)
