"""First come, first served."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class Fcfs(Ranked):
    """Figure 1's rule in order of arrival; a request that returns from a call keeps its place.

    Guarantee: none is known; it can be arbitrarily far from the best mean latency (a long request before many short
    ones). It never deadlocks and never evicts.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: the baseline in MARS (Figure 1a) and LAMPS (Figure 3a), and InferCept's order.
    """

    name = "fcfs"
    rule = "in order of arrival, kept on return; admitted if its segment fits and all can still finish"
    source = "MARS (arXiv 2410.18248), Figure 1(a)"

    def key(self, job: Job) -> tuple[int, int]:
        """Return the arrival, and the number in the instance."""
        return job.arrival, job.index
