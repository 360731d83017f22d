"""When a request with more tokens is done earlier: AugServe's Proposition 1 in whole batches."""

from itertools import product

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.small_instances import calling
from kvcore.instance import Instance, Machine

N = 4


def lone(generated: int, returned: int) -> Instance:
    """Return one request that generates `generated` tokens, the last of them after a call that takes no time."""
    machine = Machine(memory=100, batch_tokens=N)
    return calling([(1, generated - 1, 0, returned, 1)], machine, "preserve")


def pairs() -> list[tuple[Instance, Instance]]:
    sizes = list(product(range(2, 6), range(13)))
    return [(lone(*one), lone(*two)) for one, two in product(sizes, sizes) if sum(two) > sum(one)]


def as_proposed(case: Case) -> Fails | None:
    one, two = case.instances
    first, second = case.policy("serial", one, label="shorter"), case.policy("serial", two, label="longer")
    assert first is not None
    assert second is not None
    (g1, a1), (g2, a2) = ((i.requests[0].output, i.requests[0].calls[0].returns) for i in (one, two))
    proposed = N * (g2 + a2 - g1 - a1) < (N - 1) * (a2 - a1)
    if (second.value < first.value) == proposed:
        return None
    says = "does" if proposed else "does not"
    return Fails(
        f"(generated, returned) = ({g1}, {a1}) takes {first.value} batches and ({g2}, {a2}) takes {second.value}, "
        f"but the proposition says that the longer one {says} end earlier",
        (first, second),
    )


HYPOTHESIS = Hypothesis(
    statement="Of two lone requests, one with more tokens (generated and returned) is done earlier if and only if the "
    "difference of their lengths is below (1 - 1/N) times that of the returned tokens, with N = 4 tokens a batch.",
    source="AugServe, Proposition 1",
    states="refuted",
    family=enumerated("pairs of lone requests that generate 2 to 5 tokens and get 0 to 12 back, N = 4", pairs),
    predicate=as_proposed,
    sentence="a longer request can still finish earlier when the difference in API return length "
    "is sufficiently large relative to the total length difference.",
    note="The proposition lets a batch be part-full for free: A/N batches, where the machine runs whole ones.",
)
