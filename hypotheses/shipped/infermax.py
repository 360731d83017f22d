"""What INFERMAX says of orders of requests and of evictions: which are best, and when they are part of an optimum."""

from operator import le

from heuristics import Job
from heuristics.policies.infermax import Infermax
from hypotheses import Case, Fails, Hypothesis, enumerated, listed
from hypotheses.instances import INFERMAX, LINEAR, plain_family, with_machine
from hypotheses.predicates import compared, run

FAMILY = enumerated(
    "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, all memories",
    lambda: plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR),
)


class LongestEvicted(Infermax):
    """As infermax, with the running requests in the opposite order: the longest is evicted."""

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
    "infermax-figure15": Hypothesis(
        statement="In INFERMAX's Figure 15 (O = 4), evicting lowers the least busy time for I = 1, 2, 4 .. 32, and "
        "does not for 64 .. 1024.",
        source="INFERMAX (arXiv 2411.07447), Section 5.1 and Figure 15",
        states="proved",
        family=listed(*(f"infermax-figure15:I={2**k}" for k in range(11))),
        predicate=as_the_paper_says,
    ),
}  # fmt: skip
