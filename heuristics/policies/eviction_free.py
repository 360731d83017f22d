"""The eviction-free variants of the schedulers of INFERMAX's Table 1."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.policies.reserving import Reserving
from heuristics.policies.table_1 import ROWS, Table1


class EvictionFree(Reserving, Table1):
    """A row of Table 1 that reserves the most KV a request will ever hold when it is admitted (hypothetical).

    That is I + O - 1 for a request without calls, and what it holds at its end otherwise. The reservation outlasts a
    call whose KV is preserved, and ends with a discard or a swap; one that comes back from those is admitted anew.

    Guarantee: with exact predictions none is evicted, so it runs on machines that do not evict. Otherwise nothing: one
    that outlives its prediction may get the last comer evicted.
    Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.1.
    """

    knows = "predictions"
    source = "INFERMAX (arXiv 2411.07447), Section 4.1: eviction-free"
    needs = ("pause",)

    def reserve(self, job: Job, tokens: int) -> int:
        """Return the tokens of KV that it holds at its end, as predicted."""
        return max(job.known, job.peak)


def eviction_free() -> list[EvictionFree]:
    """Return the variants of all rows of Table 1."""
    return [
        EvictionFree(
            f"{name}-ef", f"{rule}; admitted once the most KV it will ever hold is free (hypothetical)", **switches
        )
        for name, (rule, switches) in ROWS.items()
    ]
