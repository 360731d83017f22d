"""INFERMAX's ranking schedulers as released: what does not fit evicts all the same, and the next one is tried."""

from __future__ import annotations

from typing import Any

from heuristics.engine.job import Job
from heuristics.policies.preemptive_order import PreemptiveOrder


class RankAsReleased(PreemptiveOrder):
    """A ranking in which each request evicts those after it, the last first, until it fits or none is left.

    One that does not fit even so has evicted them all the same, and the next one is tried; that one may be evicted for
    the first again in the next batch.

    Guarantee: nothing is known. Running time: O(n) for a batch with n requests present.
    Source: INFERMAX's released simulator (a fork of Vidur): its `rank` scheduler, read, and not run (as released it
    frees what it does not hold).
    """

    persists = True
    source = "INFERMAX's released simulator (arXiv 2411.07447)"

    def __init__(self, ranking: PreemptiveOrder) -> None:
        self.name = f"{ranking.name}-as-released"
        self.rule = f"as {ranking.name}; what does not fit evicts those after it all the same, and the next is tried"
        self.knows = ranking.knows
        self._rank = ranking.rank

    def rank(self, job: Job) -> Any:
        """Return the rank; the smallest goes first."""
        return self._rank(job)
