"""Whether INFERMAX's orders of requests, and the evictions that they make, are never worse than others."""

from __future__ import annotations

from heuristics import Job, Policy
from heuristics.policies.infermax import Infermax
from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.hypothesis import Predicate
from hypotheses.instances import INFERMAX, LINEAR, plain_family

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


def no_worse(policy: str, than: str | Policy, why: str, objective: str = "total-flow-time") -> Predicate:
    def judge(case: Case) -> Fails | None:
        mine, other = case.policy(policy, objective=objective), case.policy(than, objective=objective)
        assert mine is not None
        assert other is not None
        return None if mine.value <= other.value else Fails(why.format(mine.value, other.value), (mine, other))

    return judge


HYPOTHESES = {
    "rank-input-never-worse": Hypothesis(
        statement="Ranking requests by input is never worse (total flow time) than ranking them by output.",
        source="INFERMAX (arXiv 2411.07447), Section 4.6",
        states="refuted",
        family=FAMILY,
        predicate=no_worse("rank-i", "rank-o", "rank-i has {}, rank-o {}"),
        sentence="Prioritizing requests with smaller I generally yields better performance compared to prioritizing "
        "smaller O",
        note="A remark on averages, which one instance does not refute.",
    ),
    "rank-output-never-worse": Hypothesis(
        statement="Ranking requests by output is never worse (total flow time) than ranking them by input.",
        source="the studies that rank by output, which INFERMAX (arXiv 2411.07447), Section 4.6, argues with",
        states="refuted",
        family=FAMILY,
        predicate=no_worse("rank-o", "rank-i", "rank-o has {}, rank-i {}"),
    ),
    "shortest-context-eviction": Hypothesis(
        statement="Evicting the shortest context is never worse (total flow time) than evicting the longest.",
        source="INFERMAX (arXiv 2411.07447), Section 6; vLLM issue 54644 asks which to evict",
        states="refuted",
        family=FAMILY,
        predicate=no_worse("infermax", LongestEvicted(), "evicting the shortest has {}, evicting the longest {}"),
        sentence="Evicting short requests can help, but evicting long requests degrades performance due to high refill "
        "costs.",
    ),
    "long-first-eviction": Hypothesis(
        statement="Running long requests first and evicting short ones is never worse in busy time than evicting the "
        "last comer (Sarathi).",
        source="INFERMAX (arXiv 2411.07447), Section 6",
        states="refuted",
        family=FAMILY,
        predicate=no_worse(
            "infermax", "sarathi", "evicting the shortest has a busy time of {}, the last comer {}", "busy-time"
        ),
        sentence="By adding a single line of this sorting, which is extremely easy to implement, we show that it can "
        "incur substantial GPU savings.",
        note="The paper's claim is of savings on its workloads; that it never hurts is the claim tried here.",
    ),
}
