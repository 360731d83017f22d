"""Whether MARS's Figure 1 is optimal: its order with its handlings, and with handlings that may be chosen."""

from operator import eq

from hypotheses import Hypothesis, listed
from hypotheses.predicates import Make, compared, optimal, run
from kvcore.instance import Instance


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
