"""InferCept where nothing is known of how long a call lasts."""

from __future__ import annotations

from itertools import count

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infercept import Infercept
from kvcore.cost import Features
from kvcore.instance import LIMIT


class InferceptElapsed(Infercept):
    """InferCept where nothing is known of calls: one is expected to last as long as it has lasted.

    Guarantee: nothing is known. Running time: as infercept. Source: InferCept, Section 4.4.
    """

    name = "infercept-elapsed"
    rule = "as infercept, with the time that a call has lasted so far for its duration"
    source = "InferCept (arXiv 2402.01869), Section 4.4"
    knows: Knows = "online"

    def expected(self, job: Job) -> int:
        """Return the ticks since its call started."""
        assert job.call_start is not None  # for mypy: it is in a call
        return self.now - job.call_start

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches no call has lasted long enough to be dropped.

        The waste of discarding grows as the others decode; that of now is too little, so that this is at most what it
        could be.
        """
        most = super().steady(view, plan)
        ticks = [self.first_drop(job) for job in self.holding.values() if not job.host]
        return most if not ticks else min(most, batches_until(min(ticks), view, plan, self.decoding))

    def first_drop(self, job: Job) -> int:
        """Return the first tick at which its call would be dropped, were the waste of discarding that of now."""
        assert job.call_start is not None  # for mypy: it is in a call
        return job.call_start + self.wastes[job.index][1] // (2 * job.device) + 1


def batches_until(tick: int, view: View, plan: Plan, decoding: list[Job]) -> int:
    """Return how many batches of these decodes start before `tick`, the first of them at `view.now`."""
    r = len(plan.work)
    kv = sum(job.device for job in decoding) - r  # as the first batch read it
    features = Features(busy=1, any_decode=1, tokens=r, generated=r, decode_requests=r, decode_kv=max(0, kv))
    if tick >= LIMIT:
        return LIMIT
    start = view.now
    for batches, ticks in zip(count(1), view.cost.durations(features), strict=False):
        start += ticks
        if start >= tick:
            return batches
    raise AssertionError("the durations have no end")
