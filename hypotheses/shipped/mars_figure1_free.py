"""Whether MARS's Figure 1 is optimal where handlings may be chosen."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, listed


def best_order(case: Case) -> Fails | None:
    order, optimum = case.policy("mars-order"), case.optimum(case.instance.with_free_calls(), label="optimum-free")
    assert order is not None
    if order.value == optimum.value:
        return None
    return Fails(f"MARS's schedule has {order.value}, the optimum with free handling {optimum.value}", (order, optimum))


HYPOTHESIS = Hypothesis(
    statement="On MARS's Figure 1, no choice of handlings and order has a smaller total flow time than the figure's.",
    source="MARS (arXiv 2410.18248), Figure 1; LAMPS, Figure 3",
    states="refuted",
    family=listed("mars-figure1"),
    predicate=best_order,
)
