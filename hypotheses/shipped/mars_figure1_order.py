"""Whether the order of MARS's Figure 1 is optimal with the handlings that it gives."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, listed


def best_order(case: Case) -> Fails | None:
    order, optimum = case.policy("mars-order"), case.optimum()
    assert order is not None
    if order.value == optimum.value:
        return None
    return Fails(f"the order R3, R2, R1 has {order.value}, the optimum is {optimum.value}", (order, optimum))


HYPOTHESIS = Hypothesis(
    statement="On MARS's Figure 1, handled as in the figure, the order R3, R2, R1 has the least total flow time.",
    source="MARS (arXiv 2410.18248), Figure 1; LAMPS, Figure 3",
    states="refuted",
    family=listed("mars-figure1"),
    predicate=best_order,
)
