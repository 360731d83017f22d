"""List scheduling under a memory profile."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.engine.demand import Demand
from heuristics.engine.job import Job
from heuristics.engine.min_waste import call_waste, least_waste
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from kvcore.instance import Handling, Machine

LOOKAHEAD = 32  # for how many batches ahead the first waiting request is tested; then the engine asks again
Array = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Occupancy(NamedTuple):
    """KV of a request that works in each batch to come: `held` + q in batch q, up to batch `last`.

    Arrays for several requests. `kept` are the device blocks from then on: 0, or its claim where a call preserves.
    """

    last: Array | int
    held: Array | int
    kept: Array | int


class OccupancyProfile:
    """The memory of several courses over the batches to come; it peaks where one ends. Batch 1 is the next."""

    def __init__(self, machine: Machine, courses: Occupancy) -> None:
        self._machine = machine
        self._limit = machine.block_limit
        order = np.argsort(courses.last)
        self._lasts, self._held, kept = (np.asarray(part)[order] for part in courses)
        self._rest = np.append(np.cumsum(self._held[::-1])[::-1], 0)  # held by the courses from this one on
        self._kept = np.append(0, np.cumsum(kept))
        self._peaks = self.blocks(self._lasts)

    def blocks(self, batches: Array) -> Array:
        """Return the device blocks held in these batches: O(log n) each with blocks of one token, otherwise O(n)."""
        first = np.searchsorted(self._lasts, batches)  # those before it have ended
        if self._machine.block == 1:
            even: Array = self._rest[first] + (len(self._lasts) - first) * batches + self._kept[first]
            return even
        growing = -(-(self._held + batches[:, None]) // self._machine.block)
        held: Array = np.where(batches[:, None] <= self._lasts, growing, 0).sum(axis=1) + self._kept[first]
        return held

    def admits(self, course: Occupancy, delays: int = 1) -> Flags:
        """Whether one more course never lets memory overflow, if it starts after 0, 1, .. batches."""
        if self._limit is None:
            return np.ones(delays, dtype=bool)
        last, held, kept = course
        after = np.arange(delays)
        size = -(-(held + last) // self._machine.block)
        peaks = np.maximum(self.blocks(after + last) + size, self._kept[-1] + kept)
        after = after[:, None]
        running = (after < self._lasts) & (self._lasts <= after + last)
        own = np.where(running, -(-(held + self._lasts - after) // self._machine.block), kept)
        counts = running | ((self._lasts > after + last) & (kept > 0))
        most = np.where(counts, self._peaks + own, 0).max(axis=1, initial=0)
        fits: Flags = np.maximum(peaks, most) <= self._limit
        return fits


class McSf(Unified):
    """Shortest output first, started if memory never overflows at an end to come; running requests go on.

    Waiting requests start in order of the output left, up to the first that would not fit. The test follows all
    requests that hold KV, token by token, to their ends. A call with discard or swap gives everything back; one that
    preserves counts from then on, as long as it may last, with the request's claim. A prefill in chunks counts as whole
    from its first batch; where budgets hold running requests back, memory may run short after all, and the last comer
    is evicted. Free calls are handled as wastes least (`heuristics.engine.min_waste`); a swap that the host has no room
    for becomes a discard.

    Guarantee: with one prompt length, no calls, and all there at first, mc-sf is within a constant factor of the least
    total flow time (Jaillet et al.). Where no budget holds a request back and predictions are exact, none is evicted.
    Running time: O(r log r) a batch and for each request that starts, r running, with blocks of one token; O(r^2) with
    larger blocks.
    Source: Jaillet et al. (arXiv 2502.07115), MC-SF; the areas as in Kong et al. (arXiv 2606.22327).
    """

    name = "mc-sf"
    knows = "predictions"
    swapped_wait = True

    def start(self, view: View) -> None:
        super().start(view)
        self._kept: dict[int, list[int]] = {}
        self._endings: dict[int, tuple[int, int]] = {}  # tokens and blocks at the end of the segment that each is in

    def why_not(self, machine: Machine) -> str | None:
        budgets = (machine.batch_tokens, machine.prefill_limit, machine.batch_requests)
        if (machine.evict and machine.pause) or (machine.hybrid and not any(budgets)):
            return None
        return "where budgets hold running requests back, it lets them wait, and may have to evict them"

    def key(self, job: Job) -> Any:
        return job.remaining + sum(job.demand.decode[job.segment + 1 :]), job.arrival

    def joins(self, job: Job, tokens: int, plan: Plan) -> bool:
        return bool(self._profile(plan).admits(_course(job.known, *self._ending(job))).all())

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches the first waiting request is blocked, at most `LOOKAHEAD`.

        It may fit without an end: the later it starts, the less it holds when others end.
        """
        steps = super().steady(view, plan)
        if not self.waiting or steps == 1:
            return steps
        first = self.waiting[0].job
        course = _course(first.known, *self._ending(first))
        free = np.flatnonzero(self._profile(plan).admits(course, min(steps, LOOKAHEAD)))
        return min(steps, 1 + (int(free[0]) if len(free) else LOOKAHEAD))

    def _profile(self, plan: Plan) -> OccupancyProfile:
        running = [*self.decoding, *self.prefilling]
        tokens = plan.decoding(running)
        known = [held + 1 if held else job.known for job, held in zip(running, tokens, strict=True)]
        endings = [self._endings.get(job.index) or self._ending(job) for job in running]
        courses = _course(np.array(known, dtype=np.int64), *np.array(endings, dtype=np.int64).reshape(-1, 2).T)
        kept = [self._keeps(job)[job.segment - 1] for job in self.paused.values() if job.device]
        none = np.zeros_like(kept)
        more = zip(courses, Occupancy(none, none, np.array(kept, dtype=np.int64)), strict=True)
        return OccupancyProfile(self.machine, Occupancy(*(np.append(*both) for both in more)) if kept else courses)

    def _ending(self, job: Job) -> tuple[int, int]:
        found = self._endings[job.index] = job.demand.end[job.segment], self._keeps(job)[job.segment]
        return found

    def observe(self, view: View, plan: Plan) -> None:
        for job in view.called:
            self._endings.pop(job.index, None)
        super().observe(view, plan)

    def handling_of(self, job: Job) -> Handling:
        return least_waste_handling(job.demand, job.segment - 1)

    def _keeps(self, job: Job) -> list[int]:
        if job.index not in self._kept:
            demand = job.demand
            kept = [0] * len(demand.end)
            for k in reversed(range(len(kept) - 1)):
                handling = demand.handlings[k]
                if (least_waste_handling(demand, k) if handling == "free" else handling) == "preserve":
                    kept[k] = kept[k + 1] or demand.end_blocks[k + 1]
            self._kept[job.index] = kept
        return self._kept[job.index]


def _course(known: Any, end: Any, kept: Any) -> Occupancy:
    return Occupancy(np.maximum(known, end) - known + 1, known - 1, kept)


def least_waste_handling(demand: Demand, k: int) -> Handling:
    """Return the handling of call k that wastes least; without a memory limit, preserve."""
    if demand.estimate.machine.memory is None:
        return "preserve"
    return least_waste(call_waste(demand.estimate, demand.end[k], demand.durations[k]))


class MemoryArea(McSf):
    """As `mc-sf`, in order of the memory that a request needs over the batches left.

    That is the sum of s o + o (o - 1) / 2 over the segments left, with s tokens known and o to generate.

    Running time: as mc-sf.
    Source: Kong et al. (arXiv 2606.22327), smallest volume first; started as in MC-SF.
    """

    name = "memory-area"

    def key(self, job: Job) -> Any:
        demand = job.demand
        area = _area(job.known, job.remaining)
        for k in range(job.segment + 1, len(demand.decode)):
            area += _area(demand.end[k] - demand.decode[k] + 1, demand.decode[k])
        return area, job.arrival


def _area(known: int, outputs: int) -> int:
    return known * outputs + outputs * (outputs - 1) // 2
