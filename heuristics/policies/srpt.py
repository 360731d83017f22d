"""Shortest remaining processing time."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.policies.preemptive_order import PreemptiveOrder


class Srpt(PreemptiveOrder):
    """All requests by the tokens that are left to generate, over all segments; calls and refills count nothing.

    That is the number of batches left if prefills are whole. A shorter newcomer preempts a longer running request, and
    evicts it if it needs the memory.

    Guarantee: where each batch takes one request and one tick, memory has no limit and there is no call, it is
    shortest remaining processing time, which has the least total flow time. Otherwise nothing is known.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: Schrage, A proof of the optimality of the shortest remaining processing time discipline (1968).
    """

    name = "srpt"
    rule = "running and waiting requests in one order, fewest tokens left to generate first; the last is evicted"
    source = "Schrage (1968): shortest remaining processing time"
    knows = "predictions"

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the tokens left to generate, and the arrival."""
        return job.remaining + sum(job.demand.decode[job.segment + 1 :]), job.arrival
