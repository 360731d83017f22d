"""All requests, running and waiting, in one order in each batch: INFERMAX's ranking schedulers, and SRPT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
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
    """Whether a waiting request that does not fit evicts all the same, and does not stop those after it."""

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
        if not self.prefilling and not self._outranked() and not (self.persists and self.waiting):
            self.fill_decoding(plan)
            self.fill_waiting(plan)
            return
        running = self.order([*self.decoding, *self.prefilling])
        entries = (Entry(self.rank(job), job.index, job) for job in running)
        holders, blocked, admitted = {job.index for job in running}, False, set[int]()
        for entry in list(merge(entries, self.waiting)):
            if entry.position in self._evicted:
                blocked |= entry.position not in holders and not self.persists
            elif entry.position in holders:
                self._go_on(entry.job, running, plan)
            elif not blocked:
                if self._let_in(entry, running, plan):
                    admitted.add(entry.position)
                else:
                    blocked = not (self.persists and plan.takes("prefill"))
        if admitted:
            self.waiting = [entry for entry in self.waiting if entry.position not in admitted]

    def _place(self, job: Job) -> tuple[Any, int]:
        return self.rank(job), job.index

    def _outranked(self) -> bool:
        """Whether the first waiting request comes before a running one."""
        return bool(self.waiting) and any(self._place(job) > self.waiting[0][:2] for job in self.decoding)

    def _go_on(self, job: Job, running: Sequence[Job], plan: Plan) -> None:
        tokens = plan.chunk(job)
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
        if lacking > 0 and not self.persists:
            return False
        for victim in victims:
            self.evict(victim, plan)
        if lacking > 0:
            return False
        plan.take(job, tokens)
        self.reserved[job.index] = job, most
        self.prefilling.append(job)
        return True
