"""Shortest job first, by work."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class Sjf(Ranked):
    """Figure 1's rule in order of the remaining work: ticks of decodes, prefills and refills if it ran alone.

    Calls do not count, recomputation after a discarded call and transfers do.

    Guarantee: where each batch takes one request and one tick, memory has no limit and there is no call, it is
    shortest remaining processing time, which has the least total flow time. Otherwise nothing is known. It never
    deadlocks and never evicts.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: the baseline in MARS (Figure 1b) and LAMPS (Figure 3b).
    """

    name = "sjf"
    rule = "least remaining work first, recomputation included; admitted as in fcfs"
    source = "MARS (arXiv 2410.18248), Figure 1(b)"

    def key(self, job: Job) -> int:
        """Return the remaining work in ticks."""
        return job.work
