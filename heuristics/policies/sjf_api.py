"""Shortest job first, by work and calls."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class SjfApi(Ranked):
    """Figure 1's rule in order of the remaining work plus the remaining time in calls, in ticks.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: the baseline in MARS (Figure 1c) and LAMPS (Figure 3c).
    """

    name = "sjf-api"
    rule = "least remaining work plus remaining call time first; admitted as in fcfs"
    source = "MARS (arXiv 2410.18248), Figure 1(c)"

    def key(self, job: Job) -> int:
        """Return the remaining work plus the remaining call time, in ticks."""
        return job.work + job.call_time
