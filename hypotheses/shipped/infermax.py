"""What INFERMAX says of orders and of evictions, and when they are part of an optimum; SLAI on its machine."""

from collections.abc import Iterator
from fractions import Fraction
from operator import le

from heuristics import Job
from heuristics.policies.infermax import Infermax
from hypotheses import Case, Fails, Hypothesis, enumerated, listed
from hypotheses.predicates import certain, compared, run
from hypotheses.small_instances import INFERMAX, LINEAR, QUADRATIC, pausing, plain, plain_family, with_machine
from kvcore.instance import Handling, Instance, Machine, Slo

FAMILY = enumerated(
    "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, all memories",
    lambda: plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR),
)
CONTEXTS = (4, 5, 6)
FREED = 6
CALL = 100  # ticks: longer than any recomputation
MACHINE = Machine(memory=sum(CONTEXTS), host_memory=0, chunked=False)


class LongestEvicted(Infermax):
    """As infermax, with the running requests reversed: the longest is evicted."""

    name = "longest-evicted"

    def order(self, jobs: list[Job]) -> list[Job]:
        """Return the running requests, those with least KV first."""
        return sorted(jobs, key=lambda job: (job.device, job.arrival, job.index))


def as_the_paper_says(case: Case) -> Fails | None:
    prompt = case.instance.requests[0].prompt
    free = case.optimum(objective="busy-time", label="evicting")
    never = case.optimum(with_machine(case.instance, evict=False), "busy-time", "never-evicting")
    if (free.value < never.value) == (prompt <= 32):
        return None
    return Fails(f"I = {prompt}: {free.value} with eviction, {never.value} without", (free, never))


def three_paused() -> Instance:
    """Return three requests that fill the memory in their calls, and one that then needs 6 tokens of it."""
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
    shortest = case.optimum(pausing(case.instance, CALL, fixed), label="shortest-first")
    best = case.optimum(label="free")
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


def patient() -> Iterator[Instance]:
    """Yield requests that may wait 100 ticks, several batches, between two tokens."""
    slo = Slo(tpot=Fraction(100))
    for given in plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR):
        yield given.replace(requests=tuple(request.replace(slo=slo) for request in given.requests))


HYPOTHESES = {
    "rank-input-never-worse": Hypothesis(
        statement="Ranking requests by input is never worse (total flow time) than ranking them by output.",
        source="INFERMAX (arXiv 2411.07447), Section 4.6",
        states="refuted",
        family=FAMILY,
        predicate=compared(run("rank-i"), le, run("rank-o"), "rank-i has {}, rank-o {}"),
        sentence="Prioritizing requests with smaller I generally yields better performance compared to prioritizing "
        "smaller O",
        note="A remark on averages, which one instance does not refute.",
    ),
    "rank-output-never-worse": Hypothesis(
        statement="Ranking requests by output is never worse (total flow time) than ranking them by input.",
        source="the studies that rank by output, which INFERMAX (arXiv 2411.07447), Section 4.6, argues with",
        states="refuted",
        family=FAMILY,
        predicate=compared(run("rank-o"), le, run("rank-i"), "rank-o has {}, rank-i {}"),
    ),
    "shortest-context-eviction": Hypothesis(
        statement="Evicting the shortest context is never worse (total flow time) than evicting the longest.",
        source="INFERMAX (arXiv 2411.07447), Section 6; vLLM issue 54644 asks which to evict",
        states="refuted",
        family=FAMILY,
        predicate=compared(
            run("infermax"), le, run(LongestEvicted()), "evicting the shortest has {}, evicting the longest {}"
        ),
        sentence="Evicting short requests can help, but evicting long requests degrades performance due to high refill "
        "costs.",
    ),
    "long-first-eviction": Hypothesis(
        statement="Running long requests first and evicting short ones is never worse in busy time than evicting the "
        "last comer (Sarathi).",
        source="INFERMAX (arXiv 2411.07447), Section 6",
        states="refuted",
        family=FAMILY,
        predicate=compared(
            run("infermax", objective="busy-time"), le, run("sarathi", objective="busy-time"),
            "evicting the shortest has a busy time of {}, the last comer {}",
        ),
        sentence="By adding a single line of this sorting, which is extremely easy to implement, we show that it can "
        "incur substantial GPU savings.",
        note="The paper's claim is of savings on its workloads; that it never hurts is the claim tried here.",
    ),
    "shortest-paused-eviction": Hypothesis(
        statement="Where recomputing a context costs its square, dropping the shortest paused contexts first until "
        "there is room is part of some optimal schedule (total flow time): contexts of 4, 5 and 6 tokens, 6 of which "
        "are needed.",
        source="evicting the shortest context first, INFERMAX (arXiv 2411.07447), Section 6",
        states="refuted",
        family=enumerated(
            "the one instance: three requests that hold 4, 5 and 6 tokens in calls of 100 ticks and fill the memory, "
            "and one of prompt 6 that comes as the last call begins; whole prefills of the square of their tokens",
            lambda: [three_paused()],
        ),
        predicate=shortest_is_best,
        note="A request comes back with one token more than its KV, so that the machine recomputes 5 and 6, or 7 "
        "tokens: 61 ticks against 49.",
    ),
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
            run("slai", objective="total-ttft"), le, run("sarathi-serve", objective="total-ttft"),
            "slai has {}, sarathi-serve {}",
        ),
        note="The paper's claim is of medians on its workloads; that it is never larger is the claim tried here.",
    ),
    "infermax-figure15": Hypothesis(
        statement="In INFERMAX's Figure 15 (O = 4), evicting lowers the least busy time for I = 1, 2, 4 .. 32, and "
        "does not for 64 .. 1024.",
        source="INFERMAX (arXiv 2411.07447), Section 5.1 and Figure 15",
        states="proved",
        family=listed(*(f"infermax-figure15:I={2**k}" for k in range(11))),
        predicate=as_the_paper_says,
    ),
}  # fmt: skip
