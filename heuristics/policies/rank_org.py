"""Running and waiting requests in order of arrival."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.policies.preemptive_order import PreemptiveOrder


class RankOrg(PreemptiveOrder):
    """All requests in order of arrival.

    Guarantee: nothing is known. It needs a machine that evicts.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_org.
    """

    name = "rank-org"
    rule = "running and waiting requests in one order, by arrival; the last is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 4.6: Rank_org"

    def rank(self, job: Job) -> int:
        """Return the arrival."""
        return job.arrival
