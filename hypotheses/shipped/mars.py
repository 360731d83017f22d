"""MARS's Figure 1: whether it is optimal with its handlings or others, and whether its words give its order."""

from __future__ import annotations

from operator import eq

from hypotheses import Case, Fails, Hypothesis, listed
from hypotheses.predicates import Make, compared, optimal, run
from kvcore.instance import Instance, Request


def claim(statement: str, optimum: Make, why: str) -> Hypothesis:
    return Hypothesis(
        statement=statement,
        source="MARS (arXiv 2410.18248), Figure 1; LAMPS, Figure 3",
        states="refuted",
        family=listed("mars-figure1"),
        predicate=compared(run("mars-order"), eq, optimum, why),
    )


HYPOTHESES = {
    "mars-figure1-free": claim(
        "On MARS's Figure 1, no choice of handlings and order has a smaller total flow time than the figure's.",
        optimal("optimum-free", Instance.with_free_calls),
        "MARS's schedule has {}, the optimum with free handling {}",
    ),
    "mars-figure1-order": claim(
        "On MARS's Figure 1, handled as in the figure, the order R3, R2, R1 has the least total flow time.",
        optimal(),
        "the order R3, R2, R1 has {}, the optimum is {}",
    ),
}


def area(request: Request) -> int:
    """Return the token-ticks that a request holds if it runs alone at one token a tick, its calls handled as given."""
    held, total = 0, 0
    known = request.prompt
    for segment in request.segments:
        for _ in range(segment.decode):
            while held < known:  # the prompt, or a refill: one token a tick
                held += 1
                total += held
            known += 1
        if segment.call is not None and segment.call.handling == "preserve":
            total += held * segment.call.duration
        elif segment.call is not None and segment.call.handling == "discard":
            held = 0
    return total


def ranked(case: Case) -> Fails | None:
    areas = {request.id: area(request) for request in case.instance.requests}
    order = sorted(areas, key=lambda id: areas[id])
    if order == ["R3", "R2", "R1"]:
        return None
    listing = ", ".join(f"{id}: {ticks}" for id, ticks in areas.items())
    shown = case.policy("mars-order")
    return Fails(f"token-ticks held are {listing}, which gives {', '.join(order)}", () if shown is None else (shown,))


HYPOTHESES["mars-rank"] = Hypothesis(
    statement="On MARS's Figure 1, ranking requests by the memory that each holds over time (alone, its own KV, "
    "refills included) gives the order R3, R2, R1.",
    source="MARS (arXiv 2410.18248), Section 3 and Figure 1",
    states="refuted",
    family=listed("mars-figure1"),
    predicate=ranked,
    sentence="R3, the least memory-intensive request, should run first to release memory quickly.",
    note="The memory that others hold during R2's refill has to be counted too; the papers give no formula.",
)
