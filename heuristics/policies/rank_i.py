"""Running and waiting requests in order of prompt length."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.policies.preemptive_order import PreemptiveOrder


class RankI(PreemptiveOrder):
    """All requests in order of prompt length, the shortest first.

    Guarantee: nothing is known; long prompts may wait for ever. It needs a machine that evicts.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_I.
    """

    name = "rank-i"
    rule = "running and waiting requests in one order, shortest prompt first; the last is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 4.6: Rank_I"

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the prompt's length, and the arrival."""
        return job.prompt, job.arrival
