"""Whether SLAI's first tokens are always earlier than Sarathi-Serve's."""

from collections.abc import Iterator
from fractions import Fraction
from operator import le

from hypotheses import Hypothesis, enumerated
from hypotheses.instances import INFERMAX, LINEAR, plain_family
from hypotheses.predicates import compared, run
from kvcore.instance import Instance, Slo

TTFT = "total-ttft"


def patient() -> Iterator[Instance]:
    """Yield requests that may wait 100 ticks between two tokens, which is several batches."""
    slo = Slo(tpot=Fraction(100))
    for given in plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR):
        yield given.replace(requests=tuple(request.replace(slo=slo) for request in given.requests))


HYPOTHESES = {
    "slai-ttft": Hypothesis(
        statement="SLAI's total TTFT is never larger than Sarathi-Serve's.",
        source="Bari, Hegde, de Veciana (arXiv 2508.01002): the median is lower by 53 % on ShareGPT",
        states="refuted",
        family=enumerated(
            "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, 100 "
            "ticks between tokens, all memories",
            patient,
        ),
        predicate=compared(
            run("slai", objective=TTFT), le, run("sarathi-serve", objective=TTFT), "slai has {}, sarathi-serve {}"
        ),
        note="The paper's claim is of medians on its workloads; that it is never larger is the claim tried here.",
    )
}
