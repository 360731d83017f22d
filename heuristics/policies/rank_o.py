"""Running and waiting requests in order of output length."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.policies.preemptive_order import PreemptiveOrder


class RankO(PreemptiveOrder):
    """All requests in order of the predicted output, of all segments together, the shortest first (hypothetical).

    Guarantee: nothing is known; long outputs may wait for ever. It needs a machine that evicts.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_O.
    """

    name = "rank-o"
    rule = "running and waiting requests in one order, shortest output first (hypothetical); the last is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 4.6: Rank_O"
    knows = "predictions"

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the output's length, and the arrival."""
        return sum(job.demand.decode), job.arrival
