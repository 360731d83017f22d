"""MARS and LAMPS: the least memory over time goes first."""

from bisect import bisect_left, insort
from itertools import takewhile
from typing import Any, NamedTuple

from heuristics.engine.job import Job
from heuristics.engine.min_waste import call_waste, least_waste
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry, Unified
from heuristics.engine.view import View
from kvcore.instance import LIMIT, Handling

Key = tuple[bool, int, int]


class NextCall(NamedTuple):
    """A call that is to come."""

    context: int  # KV tokens held when it starts: what is known, and what is believed to come
    duration: int  # ticks
    returns: int  # tokens
    handling: Handling  # what the instance asks for


NO_CALL = NextCall(0, 0, 0, "preserve")  # in the last segment of a request


class Mars(Unified):
    """Least predicted memory-time of the segment first, its call's waste included; starving after 100 batches.

    One waiting queue stands behind the requests that hold KV. A request waits at its arrival, after an eviction, and
    after a call that discarded or swapped its KV. Its score, in twice the token-ticks, is the KV of the rest of its
    segment integrated over the ticks of its batches if it runs alone, the refill included, plus the waste of the call
    at the segment's end, InferCept's (1) to (4) with a full memory. A free call is handled as wastes least by the
    predictions when the segment begins; other calls are ranked with the instance's handling. A swap that the host has
    no room for becomes a discard. A request that holds KV goes on, as in vLLM below MARS (Algorithm 1 sorts one queue
    for all); where memory lacks, the one of the largest remaining score is evicted, never for a request that waits.
    Admission stops at the first that lacks memory or tokens.

    A request that has waited for `threshold` batches on end is starving until it is done: starving ones go before all
    others, and are evicted after them. With `refresh` = k the scores of those that hold KV are computed in every k-th
    batch; the score of one that waits does not change.

    `lamps` refreshes scores at intervals. `mars-fcfs`, not `ranked`, evicts the last comer.

    Running time: O(r) a batch, r running; O(r log r) where memory lacks (without `ranked` O(r)); O(log n) an event.
    Source: MARS (arXiv 2410.18248), Section 3 and Algorithm 1, breakdown of components in Section 4 ("MARS w/o
    scheduling", Figure 6); LAMPS (arXiv 2410.18248v2), Sections 4.3, 4.4 and 5.
    """

    name = "mars"
    source = "MARS (arXiv 2410.18248), Section 3, Algorithm 1"
    needs = ("evict", "pause", "chunked")
    knows = "predictions"

    def __init__(
        self, refresh: int = 1, threshold: int = 100, *, ranked: bool = True, new_may_starve: bool = True
    ) -> None:
        self.refresh, self.threshold = refresh, threshold
        self.ranked, self.new_may_starve = ranked, new_may_starve

    def start(self, view: View) -> None:
        super().start(view)
        self.timers = StarvationTimers()
        self.starving: set[int] = set()
        self.entries: dict[int, Entry] = {}  # as they stand, or last stood, in the queue
        self.handled: dict[int, tuple[int, Handling, int]] = {}  # segment; its call's handling, and waste
        self.scores: dict[int, int] = {}  # of those that hold KV, as last refreshed

    # --- the score -----------------------------------------------------------------------------------------------

    def key(self, job: Job) -> Key:
        score = self.score(job)
        return job.index not in self.starving, score if self.ranked else 0, job.arrival

    def score(self, job: Job) -> int:
        """Return twice its coming token-ticks of this segment, waste included."""
        now = job.demand.estimate.run(job.device + job.host, max(1, job.missing), job.remaining)
        return 2 * now.area + self.decided(job)[1]

    def decided(self, job: Job) -> tuple[Handling, int]:
        """Return the coming call's handling and twice its waste, chosen once a segment."""
        segment, handling, waste = self.handled.get(job.index, (-1, "preserve", 0))
        if segment != job.segment:
            handling, waste = chosen(job, next_call(job))
            self.handled[job.index] = job.segment, handling, waste
        return handling, waste

    def order(self, jobs: list[Job]) -> list[Job]:
        return sorted(jobs, key=self._place) if self.ranked else jobs

    def _place(self, job: Job) -> tuple[bool, int, int, int]:
        score = self.score(job) if self.refresh == 1 else self.scores[job.index]
        return job.index not in self.starving, score, job.arrival, job.index

    # --- calls ---------------------------------------------------------------------------------------------------

    def handling_of(self, job: Job) -> Handling:
        return self.handled[job.index][1]

    def at_return(self, job: Job, now: int) -> None:
        self.decided(job)
        if job.device and not job.host:
            self.run(job)
        else:
            self.enqueue(self.waiting, job, self.key(job))

    # --- the queue -----------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        super().observe(view, plan)
        for job in view.ended:
            self.starving.discard(job.index)
            self.timers.cancel(job.index)
        for index in self.timers.expired(view.batch):
            self._promote(index)
        if self.refresh > 1 and view.batch % self.refresh == 0:
            self.scores.update({job.index: self.score(job) for job in (*self.decoding, *self.prefilling)})

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        entry = self.entries[job.index] = Entry(key, job.index, job)
        insort(queue, entry)
        new = not (job.segment or job.generated or job.index in self._evicted)
        if self.ranked and job.index not in self.starving and (self.new_may_starve or not new):
            self.timers.start(job.index, self._batch + self.threshold)

    def _promote(self, index: int) -> None:
        entry = self.entries[index]
        place = bisect_left(self.waiting, entry)
        if place < len(self.waiting) and self.waiting[place] is entry:
            del self.waiting[place]
            self.starving.add(index)
            self.enqueue(self.waiting, entry.job, (False, *entry.key[1:]))

    def run(self, job: Job) -> None:
        super().run(job)
        self.scores[job.index] = self.score(job)

    def steady(self, view: View, plan: Plan) -> int:
        if self.ranked and len(plan.work) < len(self.decoding) + len(self.prefilling):
            return 1  # which one sits out may change with the scores
        steps = min(super().steady(view, plan), self.timers.next_expiry() - view.batch)
        return steps if self.refresh == 1 else min(steps, self.refresh - view.batch % self.refresh)


def chosen(job: Job, call: NextCall) -> tuple[Handling, int]:
    """Return the possible handling of least waste, or the instance's, and twice the waste."""
    estimate = job.demand.estimate
    machine = estimate.machine
    if call is NO_CALL or (machine.memory is None and call.handling == "free"):
        return "preserve", 2 * call.duration * call.context
    waste = call_waste(estimate, call.context, call.duration)
    if call.handling != "free":
        return call.handling, int(getattr(waste, call.handling))
    handling = least_waste(waste, swap=machine.host_memory is None or call.context <= machine.host_memory)
    return handling, getattr(waste, handling)


ABLATIONS = (
    Mars(ranked=False).called(
        "mars-fcfs",
        "Order of arrival, kept through calls; calls as predicted to waste least when their segment begins",
        "MARS (arXiv 2410.18248), Section 4 and Figure 6: MARS w/o scheduling",
    ),
    Mars(refresh=10, new_may_starve=False).called(
        "lamps",
        "As mars; scores refreshed every 10 batches, and only requests that have run before can be starving",
        "LAMPS (arXiv 2410.18248, earlier version), Sections 4.3 to 5",
    ),
)


def next_call(job: Job) -> NextCall:
    """Return the call that ends a ready request's segment."""
    demand, k = job.demand, job.segment
    if k >= len(demand.durations):
        return NO_CALL
    return NextCall(job.known + job.remaining - 1, demand.durations[k], demand.returns[k], demand.handlings[k])


class StarvationTimers:
    """Requests (by index) with the batch from which each is starving, in that order; O(1) an operation.

    Repeated batches count.
    """

    def __init__(self) -> None:
        self._due: dict[int, int] = {}  # in the order of their starts, and so of the batches

    def start(self, index: int, due: int) -> None:
        """Let a request starve from batch `due` on, in place of an earlier timer."""
        self.cancel(index)
        self._due[index] = due

    def cancel(self, index: int) -> None:
        self._due.pop(index, None)

    def expired(self, batch: int) -> list[int]:
        ended = [index for index, _ in takewhile(lambda item: item[1] <= batch, self._due.items())]
        for index in ended:
            self.cancel(index)
        return ended

    def next_expiry(self) -> int:
        return next(iter(self._due.values()), LIMIT)
