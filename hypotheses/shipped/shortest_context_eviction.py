"""Whether evicting the shortest context first is at least as good as evicting the longest."""

from __future__ import annotations

from heuristics import Job
from heuristics.policies.infermax import Infermax
from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.instances import INFERMAX, LINEAR, plain_family


class LongestEvicted(Infermax):
    """As infermax, with the running requests in the opposite order: the longest is evicted."""

    name = "longest-evicted"

    def order(self, jobs: list[Job]) -> list[Job]:
        """Return the running requests, those with least KV first."""
        return sorted(jobs, key=lambda job: (job.device, job.arrival, job.index))


def no_worse(case: Case) -> Fails | None:
    short, long = case.policy("infermax"), case.policy(LongestEvicted())
    assert short is not None
    assert long is not None
    if short.value <= long.value:
        return None
    return Fails(f"evicting the shortest has {short.value}, evicting the longest {long.value}", (short, long))


HYPOTHESIS = Hypothesis(
    statement="Evicting the shortest context is never worse (total flow time) than evicting the longest.",
    source="INFERMAX (arXiv 2411.07447), Section 6; vLLM issue 54644 asks which to evict",
    states="refuted",
    family=enumerated(
        "INFERMAX's machine with a budget of 4: 2 or 3 requests at tick 0, prompts 1 to 4, outputs 1 to 4, all "
        "memories",
        lambda: plain_family((2, 3), (1, 2, 3, 4), (1, 2, 3, 4), INFERMAX, LINEAR),
    ),
    predicate=no_worse,
    sentence="Evicting short requests can help, but evicting long requests degrades performance due to high refill "
    "costs.",
)
