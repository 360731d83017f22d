"""Whether memory over time, as the words say it, gives the order of MARS's Figure 1."""

from hypotheses import Case, Fails, Hypothesis, listed
from kvcore.instance import Request


def area(request: Request) -> int:
    """Return the token-ticks of a request alone at one token a tick, its calls handled as given."""
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


HYPOTHESIS = Hypothesis(
    statement="On MARS's Figure 1, ranking requests by the memory that each holds over time (alone, its own KV, "
    "refills included) gives the order R3, R2, R1.",
    source="MARS (arXiv 2410.18248), Section 3 and Figure 1",
    states="refuted",
    family=listed("mars-figure1"),
    predicate=ranked,
    sentence="R3, the least memory-intensive request, should run first to release memory quickly.",
    note="The memory that others hold during R2's refill has to be counted too; the papers give no formula.",
)
