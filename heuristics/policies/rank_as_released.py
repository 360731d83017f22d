"""INFERMAX's ranking schedulers as released: what does not fit evicts all the same, and the next one is tried."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry
from heuristics.engine.view import View
from heuristics.policies.preemptive_order import PreemptiveOrder


class RankAsReleased(PreemptiveOrder):
    """A ranking in which each request evicts those after it, the last first, until it fits or none is left.

    One that does not fit even so has evicted them all the same, and the next one is tried; that one may be evicted for
    the first again in the next batch. While the batch has no work it evicts only what makes it fit, as a drop alone is
    no batch: memory that calls keep may leave nothing else to do.

    Guarantee: nothing is known. Running time: O(r log r) for a batch with r running requests, and O(n), in numpy, for
    each of the n present that is admitted or evicted.
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

    def start(self, view: View) -> None:
        """Begin with none waiting."""
        super().start(view)
        self._needs = np.zeros(0, dtype=np.int64)
        """The blocks that each of those waiting needs."""

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        """Put a request into a queue."""
        if queue is self.waiting:
            need = self.machine.blocks(self.reserve(job, job.missing)) - job.blocks
            at = bisect_left(queue, Entry(key, job.index, job))
            self._needs = np.concatenate((self._needs[:at], (need,), self._needs[at:]))
        super().enqueue(queue, job, key)

    def dequeue(self, at: int) -> None:
        """Take the waiting request at a place out of the queue."""
        super().dequeue(at)
        self._needs = np.concatenate((self._needs[:at], self._needs[at + 1 :]))

    def let_in_last(self, at: int, running: Sequence[Job], plan: Plan) -> None:
        """Admit waiting requests from a place on; none that runs comes after them, so only those that fit are asked."""
        while plan.takes("prefill"):
            fit = self._needs[at:] <= self.available(plan)
            if not fit.any():
                return
            at += int(fit.argmax())
            if self.waiting[at].position not in self._evicted and self._let_in(self.waiting[at], running, plan):
                self.dequeue(at)
            else:
                at += 1

    def rank(self, job: Job) -> Any:
        """Return the rank; the smallest goes first."""
        return self._rank(job)
