"""All requests in one order in each batch: INFERMAX's ranking schedulers, and SRPT."""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry, Unified
from heuristics.engine.view import View


class PreemptiveOrder(Unified):
    """One group of all requests in order of a rank: the first takes its memory, if need be from the last.

    A waiting request is admitted if its known tokens fit beside what those before it hold: running requests after it
    are evicted, the last first, but only if that makes it fit. The first waiting request that does not fit stops the
    others. A running request that lacks a block evicts the last of the running ones, itself in the end. P = C.

    The rank of a waiting request must not change, and that of a running one must not rise.
    """

    swapped_wait = True
    persists: bool = False
    """A request that does not fit stops no other, and evicts all the same."""

    @abstractmethod
    def rank(self, job: Job) -> Any:
        """Return the rank; the smallest goes first."""

    def key(self, job: Job) -> Any:
        return self.rank(job)

    def order(self, jobs: Sequence[Job]) -> list[Job]:
        return sorted(jobs, key=self._place)

    def groups(self, plan: Plan) -> Iterable[Callable[[Plan], None]]:
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
        """Admit waiting requests from a place on, after all that run."""
        self._let_in_before(None, at, running, plan)

    def dequeue(self, at: int) -> None:
        """Take out the waiting request at a place."""
        del self.waiting[at]

    def _place(self, job: Job) -> tuple[Any, int]:
        return self.rank(job), job.index

    def _let_in(self, entry: Entry, running: Sequence[Job], plan: Plan) -> bool:
        job, tokens = entry.job, plan.chunk(entry.job)
        if not tokens:
            return False
        most = self.reserve(job, tokens)
        lacking = room = self.lacks(job, tokens, most) - self.available(plan)
        victims = list[Job]()
        for other in self.evictable(running, plan):
            if lacking <= 0 or self._place(other) < entry[:2]:
                break
            victims.append(other)
            room -= self._promise(other)
            lacking = room + plan.growth_without(job, tokens, victims) - job.growth(tokens)
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


class Ranking(PreemptiveOrder):
    """All requests in order of arrival, of prompt length, or of the predicted output of all segments (hypothetical).

    The shortest first; of equal ones the first to arrive.

    Long prompts or outputs may wait for ever.
    Running time: O(r log r) a batch, r running; O(log n) an event.
    Source: INFERMAX (arXiv 2411.07447), Section 4.6: Rank_org, Rank_I and Rank_O.
    """

    def __init__(self, row: tuple[str, str, str, Callable[[Job], int], Knows]) -> None:
        name, order, variant, self.length, self.knows = row
        self.name = name
        self.rule = f"Running and waiting requests in one order, {order}; the last is evicted"
        self.source = f"INFERMAX (arXiv 2411.07447), Section 4.6: {variant}"

    def rank(self, job: Job) -> tuple[int, int]:
        return self.length(job), job.arrival


RANKINGS: tuple[tuple[str, str, str, Callable[[Job], int], Knows], ...] = (
    ("rank-org", "by arrival", "Rank_org", lambda job: 0, "online"),
    ("rank-i", "shortest prompt first", "Rank_I", lambda job: job.prompt, "online"),
    ("rank-o", "shortest output first (hypothetical)", "Rank_O", lambda job: sum(job.demand.decode), "predictions"),
)


class RankAsReleased(PreemptiveOrder):
    """A ranking in which each request evicts those after it, the last first, until it fits or none is left.

    One that does not fit even so has evicted them all the same, and the next is tried; that one may be evicted for the
    first again in the next batch. While the batch has no work it evicts only what makes it fit, as a drop alone is no
    batch.

    Running time: O(r log r) a batch, r running; O(n), in numpy, for each of the n present that is admitted or evicted.
    Source: INFERMAX's released simulator (arXiv 2411.07447, a fork of Vidur): its `rank` scheduler, read, and not run
    (as released it frees memory not held).
    """

    persists = True

    def __init__(self, ranking: PreemptiveOrder) -> None:
        self.name = f"{ranking.name}-as-released"
        self.rule = f"As {ranking.name}; what does not fit evicts those after it all the same, and the next is tried"
        self.knows = ranking.knows
        self._rank = ranking.rank

    def start(self, view: View) -> None:
        super().start(view)
        self._needs = np.zeros(0, dtype=np.int64)  # the blocks that each of those waiting needs

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        if queue is self.waiting:
            need = self.machine.blocks(self.reserve(job, job.missing)) - job.blocks
            at = bisect_left(queue, Entry(key, job.index, job))
            self._needs = np.concatenate((self._needs[:at], (need,), self._needs[at:]))
        super().enqueue(queue, job, key)

    def dequeue(self, at: int) -> None:
        super().dequeue(at)
        self._needs = np.concatenate((self._needs[:at], self._needs[at + 1 :]))

    def let_in_last(self, at: int, running: Sequence[Job], plan: Plan) -> None:
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
        return self._rank(job)


class Srpt(PreemptiveOrder):
    """Running and waiting requests in one order, fewest tokens left to generate first; the last is evicted.

    Tokens of all segments, calls and refills not counted.

    Guarantee: where each batch takes one request and one tick, memory has no limit and there is no call, it is shortest
    remaining processing time, which has the least total flow time. Otherwise nothing is known.
    Running time: O(r log r) a batch, r running; O(log n) an event.
    Source: Schrage (1968), A proof of the optimality of the shortest remaining processing time discipline.
    """

    name = "srpt"
    knows = "predictions"

    def rank(self, job: Job) -> tuple[int, int]:
        return job.remaining + sum(job.demand.decode[job.segment + 1 :]), job.arrival
