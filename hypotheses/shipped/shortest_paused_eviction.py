"""Whether dropping the shortest contexts first is best: 4, 5 and 6 tokens, of which 6 are to be freed."""

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import QUADRATIC, pausing, plain
from hypotheses.predicates import certain
from kvcore.instance import Handling, Instance, Machine

CONTEXTS = (4, 5, 6)
FREED = 6
CALL = 100  # ticks: longer than any recomputation
MACHINE = Machine(memory=sum(CONTEXTS), host_memory=0, chunked=False)


def three_paused() -> Instance:
    """Return three requests that fill the memory in their calls, and one that comes then and needs 6 tokens of it."""
    begun = sum(context**2 for context in CONTEXTS)
    sizes = [*((context, 2) for context in CONTEXTS), (FREED, 1, begun)]
    return pausing(plain(sizes, sum(CONTEXTS), MACHINE, QUADRATIC), CALL, dict.fromkeys(("R1", "R2", "R3"), "free"))


def shortest_is_best(case: Case) -> Fails | None:
    contexts = {request.id: request.prompt for request in case.instance.requests if request.calls}
    short: list[str] = []
    for name in sorted(contexts, key=contexts.__getitem__):
        if sum(contexts[chosen] for chosen in short) < FREED:
            short.append(name)
    fixed: dict[str, Handling] = {name: "discard" if name in short else "preserve" for name in contexts}
    shortest, best = (
        case.optimum(pausing(case.instance, CALL, fixed), label="shortest-first"),
        case.optimum(label="free"),
    )
    if shortest.value == best.value:
        return None
    squares = sum(contexts[name] ** 2 for name in short)
    dropped = sorted(
        {f"{tokens} tokens of {name}" for batch in best.schedule.batches for name, tokens in batch.drop.items()}
    )
    return Fails(
        f"the squares of the shortest that free {FREED} tokens sum to {squares}, that of the longest is "
        f"{max(contexts.values()) ** 2}; dropping the shortest has a least total flow time of {shortest.value}, the "
        f"optimum {best.value}: it drops {' and '.join(dropped)}",
        (shortest, best),
        certain=certain(shortest, best),
    )


HYPOTHESIS = Hypothesis(
    statement="Where recomputing a context costs its square, dropping the shortest paused contexts first until there "
    "is room is part of some optimal schedule (total flow time): contexts of 4, 5 and 6 tokens, 6 of which are needed.",
    source="evicting the shortest context first, INFERMAX (arXiv 2411.07447), Section 6",
    states="refuted",
    family=enumerated(
        "the one instance: three requests that hold 4, 5 and 6 tokens in calls of 100 ticks and fill the memory, and "
        "one of prompt 6 that comes as the last call begins; whole prefills of the square of their tokens",
        lambda: [three_paused()],
    ),
    predicate=shortest_is_best,
    note="A request comes back with one token more than its KV, so that the machine recomputes 5 and 6, or 7 tokens: "
    "61 ticks against 49.",
)
