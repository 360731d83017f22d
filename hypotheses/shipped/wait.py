"""What WAIT's theorem rests on: memory for its thresholds is enough, and in the fluid limit nothing waits."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

from heuristics.policies.wait import Wait
from hypotheses import Case, Fails, Hypothesis, Undecided, enumerated
from hypotheses.small_instances import THEORY, plain
from kvcore.instance import Instance

TYPES = tuple(product((1, 3), (1, 2, 3)))
PAUSING = THEORY.replace(pause=True)


def with_thresholds(threshold: int, sizes: list[tuple[int, int, int]]) -> Instance:
    """Return the requests, and memory for `threshold` of each type at every stage."""
    kinds = {size[:2] for size in sizes}
    memory = sum(prompt + k for prompt, output in kinds for k in range(output))
    return plain(sizes, threshold * memory, PAUSING)


def gathering() -> Iterator[Instance]:
    """Yield up to four requests of two types, each at one of three distances; memory for thresholds of 2."""
    for count, kinds, gap in product((2, 3, 4), combinations(TYPES, 2), (0, 1, 3)):
        for chosen in product(kinds, repeat=count):
            yield with_thresholds(2, [(*kind, gap * place) for place, kind in enumerate(chosen)])


def fluid() -> Iterator[Instance]:
    """Yield one or two requests of one or two types at every tick, and memory for thresholds as many."""
    for each, ticks, count in product((1, 2), (1, 2, 3, 4), (1, 2)):
        for kinds in combinations(TYPES, count):
            yield with_thresholds(each, [(*kind, tick) for tick in range(ticks) for kind in kinds for _ in range(each)])


def memory_is_enough(case: Case) -> Fails | None:
    return None if case.policy(Wait(2, len(case.instance.requests))) else Fails("it does not run")


def nothing_waits(case: Case) -> Fails | None:
    requests = case.instance.requests
    each = max(Counter((request.arrival, request.prompt, request.output) for request in requests).values())
    held = case.policy(Wait(each, len(requests)))
    if held is None:
        raise Undecided("the policy does not run here")
    alone = sum(request.output for request in requests)
    return None if held.value == alone else Fails(f"total flow time {held.value}, alone {alone}", (held,))


SOURCE = "Ao, Luo, Simchi-Levi, Wang (arXiv 2504.11320), "
HYPOTHESES = {
    "wait-memory": Hypothesis(
        statement="With memory for its thresholds (one request of each type at every stage, times the threshold), WAIT "
        "evicts nothing.",
        source=SOURCE + "the memory condition of its theorem on WAIT",
        states="proved",
        family=enumerated(
            "the theory model with pauses: 2 to 4 requests of two types (prompts 1 or 3, outputs 1 to 3), 0, 1 or 3 "
            "ticks apart, thresholds of 2, exactly that memory",
            gathering,
        ),
        predicate=memory_is_enough,
    ),
    "wait-fluid": Hypothesis(
        statement="If as many requests of each type come in each batch as the thresholds, none waits under WAIT.",
        source=SOURCE + "the fluid limit that its theorem compares WAIT with",
        states="proved",
        family=enumerated(
            "the theory model with pauses: 1 or 2 requests of each of one or two types (prompts 1 or 3, outputs 1 to "
            "3) at each of 1 to 4 ticks, thresholds as many",
            fluid,
        ),
        predicate=nothing_waits,
        note="The theorem itself is of rates over a horizon that grows; a finite family cannot test it.",
    ),
}
