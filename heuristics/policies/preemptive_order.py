"""All requests, running and waiting, in one order in each batch: INFERMAX's ranking schedulers, and SRPT."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry, Unified


class PreemptiveOrder(Unified):
    """One group of all requests in order of a rank: the first takes what it needs, if need be from the last.

    A waiting request is admitted if its known tokens fit beside what those before it hold: running requests that come
    after it are evicted, the last first, but only if that makes it fit. The first waiting request that does not fit
    stops the others. A running request that lacks a block evicts the last of the running ones, itself in the end.
    Batches are hybrid, prefills chunked, P = C.

    The rank of a waiting request must not change, and that of a running one must not rise.
    """

    swapped_wait = True
    persists: bool = False
    """Whether a waiting request that does not fit stops none, and evicts all the same once the batch has work."""

    @abstractmethod
    def rank(self, job: Job) -> Any:
        """Return the rank; the smallest goes first, and of equal ones the earlier request of the instance."""

    def key(self, job: Job) -> Any:
        """Return the place in the queues: the rank."""
        return self.rank(job)

    def order(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the running requests by rank."""
        return sorted(jobs, key=self._place)

    def groups(self, plan: Plan) -> Iterable[Callable[[Plan], None]]:
        """Return one group."""
        return (self.fill_ranked,)

    def fill_ranked(self, plan: Plan) -> None:
        """Fill the batch in order of rank."""
        ranked = [(self._place(job), job) for job in (*self.decoding, *self.prefilling)]
        last = max((place for place, _ in ranked), default=None)
        outranked = self.waiting and (self.persists or (last is not None and last > self.waiting[0][:2]))
        if not self.prefilling and not outranked:
            self.fill_decoding(plan)
            self.fill_waiting(plan)
            return
        ranked.sort(key=itemgetter(0))
        places, running = [place for place, _ in ranked], [job for _, job in ranked]
        k = at = 0  # of the running, and of the waiting: those that are evicted come later
        while k < len(running):
            at = self._let_in_before(running[k], at, running, plan)
            if running[k].index in self._evicted:
                break  # and so are all after it
            end = len(running) if at >= len(self.waiting) else bisect_left(places, self.waiting[at][:2], k + 1)
            self._go_on([job for job in running[k:end] if job.index not in self._evicted], running, plan)
            k = end
        self.let_in_last(at, running, plan)

    def _let_in_before(self, end: Job | None, at: int, running: Sequence[Job], plan: Plan) -> int:
        """Admit waiting requests from a place on that come before a running one, until that is evicted for them.

        Return the place of the next to ask. Without an `end`, all are asked.
        """
        place: Any = None if end is None else self._place(end)
        while at < len(self.waiting) and (end is None or self.waiting[at][:2] < place):
            if end is not None and end.index in self._evicted:
                break
            if self.waiting[at].position in self._evicted:
                at += 1
            elif self._let_in(self.waiting[at], running, plan):
                self.dequeue(at)
            elif self.persists and plan.takes("prefill"):
                at += 1
            else:
                return len(self.waiting) + len(running)  # no other is asked
        return at

    def let_in_last(self, at: int, running: Sequence[Job], plan: Plan) -> None:
        """Admit waiting requests from a place on; all that run come before them."""
        self._let_in_before(None, at, running, plan)

    def dequeue(self, at: int) -> None:
        """Take the waiting request at a place out of the queue."""
        del self.waiting[at]

    def _place(self, job: Job) -> tuple[Any, int]:
        return self.rank(job), job.index

    def _go_on(self, jobs: Sequence[Job], running: Sequence[Job], plan: Plan) -> None:
        """Let these running requests go on in order, decodes that follow each other at once if memory lasts."""
        for decodes, pairs in groupby(zip(jobs, plan.decoding(jobs), strict=True), key=lambda pair: pair[1] > 0):
            group = [job for job, _ in pairs]
            if decodes:
                self._decode_in_order(group, running, plan)
            for job in () if decodes else group:
                if plan.tokens_left < 1:
                    return
                tokens = 0 if job.index in self._evicted else plan.chunk(job)
                if tokens:
                    self._take_or_evict(job, tokens, running, plan)

    def _let_in(self, entry: Entry, running: Sequence[Job], plan: Plan) -> bool:
        """Admit a waiting request, if need be by evicting running ones that come after it; return whether it was."""
        job, tokens = entry.job, plan.chunk(entry.job)
        if not tokens:
            return False
        most = self.reserve(job, tokens)
        lacking = self.machine.blocks(most) - job.blocks - self.available(plan)
        victims = []
        for other in self.evictable(running, plan):
            if lacking <= 0 or self._place(other) < entry[:2]:
                break
            victims.append(other)
            lacking -= other.blocks + self._promise(other)
        if lacking > 0 and not (self.persists and plan.work):  # a batch of drops alone is none
            return False
        for victim in victims:
            self.evict(victim, plan)
        if lacking > 0:
            return False
        plan.take(job, tokens)
        self.reserved[job.index] = job, most
        self.prefilling.append(job)
        return True
