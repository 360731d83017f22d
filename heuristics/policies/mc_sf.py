"""List scheduling under a memory profile: a request starts if memory never overflows at an end to come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

from heuristics.engine.demand import Demand
from heuristics.engine.job import Job
from heuristics.engine.min_waste import call_waste, least_waste
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from kvcore.instance import Handling, Machine

LOOKAHEAD = 32
"""For how many batches ahead the first waiting request is tested; then the engine asks again."""


class Occupancy(NamedTuple):
    """What a request holds in the batches to come, if it works in each: `held` + q in batch q, up to batch `last`."""

    last: int
    held: int
    kept: int
    """Device blocks that it holds from then on: 0, or its claim where a call preserves its KV."""


class OccupancyProfile:
    """The memory of several courses over the batches to come; it peaks where one ends. Batch 1 is the next."""

    def __init__(self, machine: Machine, courses: Iterable[Occupancy]) -> None:
        self._machine = machine
        self._limit = machine.block_limit
        self._courses = sorted(courses)
        self._lasts = sorted({course.last for course in self._courses})
        rest = [*accumulate((course.held for course in reversed(self._courses)), initial=0)]
        self._held = rest[::-1]  # of the courses from this one on
        self._kept = [*accumulate((course.kept for course in self._courses), initial=0)]

    def blocks(self, batch: int) -> int:
        """Return the device blocks held in a batch. O(log n) with blocks of one token, otherwise O(n)."""
        first = bisect_left(self._courses, batch, key=attrgetter("last"))  # those before it have ended
        if self._machine.block == 1:
            return self._held[first] + (len(self._courses) - first) * batch + self._kept[first]
        growing = sum(self._machine.blocks(course.held + batch) for course in self._courses[first:])
        return growing + self._kept[first]

    def admits(self, course: Occupancy, after: int = 0) -> bool:
        """Whether one more course, which starts `after` so many batches, never lets memory overflow. O(n log n)."""
        if self._limit is None:
            return True
        end = after + course.last
        peaks = [self.blocks(end) + self._machine.blocks(course.held + course.last)]
        for last in self._lasts:
            if after < last <= end:
                peaks.append(self.blocks(last) + self._machine.blocks(course.held + last - after))
            elif last > end and course.kept:
                peaks.append(self.blocks(last) + course.kept)
        peaks.append(self._kept[-1] + course.kept)
        return max(peaks) <= self._limit


class McSf(Unified):
    """Running requests go on; waiting ones start in order of a key, up to the first that would let memory overflow.

    The key of `mc-sf` is the output that is left, that of `memory-area` the KV held over the batches left, the sum of
    s o + o (o - 1) / 2 over the segments left, with s tokens known and o to generate. The test follows all requests
    that hold KV, token by token, to their ends. A request that calls with discard or swap gives everything back, one
    whose call preserves counts from then on, as long as the call may last, with what it claims until it gives
    everything back. A prefill in chunks counts as whole from its first batch; where budgets hold running requests
    back, memory may run short after all, and the last comer is evicted. Free calls are handled as wastes least
    (`heuristics.engine.min_waste`); a swap that the host has no room for becomes a discard.

    Guarantee: with one prompt length, no calls, and all there at first, mc-sf is within a constant factor of the
    least total flow time (Jaillet et al.); for memory-area nothing is known. Where no budget holds a request back and
    predictions are exact, none is evicted.
    Running time: O(r log r) for a batch and O(r log r) for each request that starts, with r running requests and
    blocks of one token; O(r^2) with larger blocks.
    Source: Jaillet et al. (arXiv 2502.07115), MC-SF; the areas as in Kong et al. (arXiv 2606.22327).
    """

    name = "mc-sf"
    rule = "shortest output first, started if memory never overflows at an end to come; running ones go on"
    source = "Jaillet et al. (arXiv 2502.07115): MC-SF"
    knows = "predictions"
    swapped_wait = True

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self._kept: dict[int, list[int]] = {}

    def why_not(self, machine: Machine) -> str | None:
        """Say why it cannot run on a machine: where budgets hold running requests back, it may have to evict."""
        budgets = (machine.batch_tokens, machine.prefill_limit, machine.batch_requests)
        if (machine.evict and machine.pause) or (machine.hybrid and not any(budgets)):
            return None
        return "where budgets hold running requests back, it lets them wait, and may have to evict them"

    def key(self, job: Job) -> Any:
        """Return the tokens left to generate, and the arrival."""
        return job.remaining + sum(job.demand.decode[job.segment + 1 :]), job.arrival

    def fill_waiting(self, plan: Plan) -> None:
        """Start waiting requests, in order, up to the first that does not fit."""
        if not self.waiting or not plan.chunk(self.waiting[0].job):
            return
        courses = self._courses()
        started = 0
        for entry in self.waiting:
            job, profile = entry.job, OccupancyProfile(self.machine, courses)
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            fits = tokens and self.machine.blocks(job.known) - job.blocks <= self.available(plan)
            if not fits or not profile.admits(course := self._course(job)):
                break
            plan.take(job, tokens)
            started += 1
            courses.append(course)
            self.reserved[job.index] = job, job.known
            self.prefilling.append(job)
        del self.waiting[:started]

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches the first waiting request is blocked, at most `LOOKAHEAD`.

        It may fit without an end: the later it starts, the less it holds when others end.
        """
        steps = super().steady(view, plan)
        if not self.waiting or steps == 1:
            return steps
        profile, course = OccupancyProfile(self.machine, self._courses()), self._course(self.waiting[0].job)
        free = (after for after in range(min(steps, LOOKAHEAD)) if profile.admits(course, after))
        return min(steps, 1 + next(free, LOOKAHEAD))

    def _courses(self) -> list[Occupancy]:
        paused = (Occupancy(0, 0, self._keeps(job)[job.segment - 1]) for job in self.paused.values() if job.device)
        return [*map(self._course, [*self.decoding, *self.prefilling]), *paused]

    def _course(self, job: Job) -> Occupancy:
        """Return its course, if its prefill ends in the next batch."""
        demand, segment = job.demand, job.segment
        last = max(job.known, demand.end[segment]) - job.known + 1
        return Occupancy(last, job.known - 1, self._keeps(job)[segment])

    def at_call(self, job: Job, plan: Plan) -> None:
        """Handle a call as wastes least, by what is predicted."""
        handling = least_waste_handling(job.demand, job.segment - 1)
        if handling == "swap":
            self.swap(job, plan)
        elif handling == "discard":
            self.discard(job, plan)

    def _keeps(self, job: Job) -> list[int]:
        """Return the device blocks that it claims from the end of each segment on: 0 if it gives all back there."""
        if job.index not in self._kept:
            demand = job.demand
            kept = [0] * len(demand.end)
            for k in reversed(range(len(kept) - 1)):
                handling = demand.handlings[k]
                if (least_waste_handling(demand, k) if handling == "free" else handling) == "preserve":
                    kept[k] = kept[k + 1] or demand.end_blocks[k + 1]
            self._kept[job.index] = kept
        return self._kept[job.index]


def least_waste_handling(demand: Demand, k: int) -> Handling:
    """Return the handling of call k that wastes least; without a limit on memory, preserve."""
    if demand.estimate.machine.memory is None:
        return "preserve"
    return least_waste(call_waste(demand.estimate, demand.end[k], demand.durations[k]))
