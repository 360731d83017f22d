"""Whether MARS's Figure 1 is optimal: its order with its handlings, and with handlings that may be chosen."""

from __future__ import annotations

from hypotheses import Case, Fails, Hypothesis, listed


def claim(statement: str, why: str, *, free: bool) -> Hypothesis:
    def best_order(case: Case) -> Fails | None:
        order = case.policy("mars-order")
        optimum = case.optimum(case.instance.with_free_calls(), label="optimum-free") if free else case.optimum()
        assert order is not None
        if order.value == optimum.value:
            return None
        return Fails(why.format(order.value, optimum.value), (order, optimum))

    return Hypothesis(
        statement=statement,
        source="MARS (arXiv 2410.18248), Figure 1; LAMPS, Figure 3",
        states="refuted",
        family=listed("mars-figure1"),
        predicate=best_order,
    )


HYPOTHESES = {
    "mars-figure1-free": claim(
        "On MARS's Figure 1, no choice of handlings and order has a smaller total flow time than the figure's.",
        "MARS's schedule has {}, the optimum with free handling {}",
        free=True,
    ),
    "mars-figure1-order": claim(
        "On MARS's Figure 1, handled as in the figure, the order R3, R2, R1 has the least total flow time.",
        "the order R3, R2, R1 has {}, the optimum is {}",
        free=False,
    ),
}
