"""All requests, running and waiting, in one order in each batch: INFERMAX's ranking schedulers, and SRPT."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from typing import Any

from heuristics.job import Job
from heuristics.plan import Plan
from heuristics.unified import Entry, Unified


class Ranking(Unified):
    """One group of all requests in order of a rank: who comes first takes what it needs, if need be from the last.

    A waiting request is admitted if its known tokens fit beside what those before it hold: running requests that come
    after it are evicted, the last first, but only if that makes it fit. The first waiting request that does not fit
    stops the others. A running request that lacks a block evicts the last of the running ones, itself in the end.
    Batches are hybrid, prefills chunked, P = C.

    The rank of a waiting request must not change, and that of a running one must not rise.
    """

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

    def at_return(self, job: Job, now: int) -> None:
        """Let a request that holds KV on the device run, and all others wait, those on the host too."""
        if job.device and not job.host:
            self.run(job)
        else:
            self.enqueue(self.waiting, job, self.key(job))

    def fill_ranked(self, plan: Plan) -> None:
        """Fill the batch in order of rank."""
        if not self.prefilling and not self._outranked():
            self.fill_decoding(plan)
            self.fill_waiting(plan)
            return
        running = self.order([*self.decoding, *self.prefilling])
        entries = (Entry(self.rank(job), job.index, job) for job in running)
        holders, blocked, admitted = {job.index for job in running}, False, set[int]()
        for entry in list(merge(entries, self.waiting)):
            if entry.position in self._evicted:
                blocked |= entry.position not in holders
            elif entry.position in holders:
                self._go_on(entry.job, running, plan)
            elif not blocked:
                blocked = not self._let_in(entry, running, plan)
                if not blocked:
                    admitted.add(entry.position)
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
        for other in reversed(running):
            if lacking <= 0 or self._place(other) < entry[:2]:
                break
            if other.id not in plan.work and other.index not in self._evicted and self.may_evict(other):
                victims.append(other)
                lacking -= other.blocks + self._promise(other)
        if lacking > 0:
            return False
        for victim in victims:
            self.evict(victim, plan)
        plan.take(job, tokens)
        self.reserved[job.index] = job, most
        self.prefilling.append(job)
        return True


class RankOrg(Ranking):
    """Everybody in order of arrival.

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


class RankI(Ranking):
    """Everybody in order of prompt length, the shortest first.

    Guarantee: nothing is known; long prompts may wait for ever. It needs a machine that evicts.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_I.
    """

    name = "rank-i"
    rule = "running and waiting requests in one order, shortest prompt first; the last is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 4.6: Rank_I"

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the prompt's length, and the arrival."""
        return job.prompt, job.arrival


class RankO(Ranking):
    """Everybody in order of the predicted output, of all segments together, the shortest first (hypothetical).

    Guarantee: nothing is known; long outputs may wait for ever. It needs a machine that evicts.
    Running time: O(r log r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_O.
    """

    name = "rank-o"
    rule = "running and waiting requests in one order, shortest output first (hypothetical); the last is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 4.6: Rank_O"
    knows = "predictions"

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the output's length, and the arrival."""
        return sum(job.ahead.decode), job.arrival


class Srpt(Ranking):
    """Everybody in order of the tokens that are left to generate, over all segments; calls and refills count nothing.

    That is the number of batches left if prefills are whole. A shorter newcomer preempts a longer running request, and
    evicts it if it needs the memory.

    Guarantee: where each batch takes one request and one tick, memory has no limit and nobody makes a call, it is
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
        return job.left + sum(job.ahead.decode[job.segment + 1 :]), job.arrival
