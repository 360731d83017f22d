"""Refills beside running requests."""

from collections.abc import Sequence
from typing import ClassVar

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy, Setting, Tuning
from heuristics.engine.view import View
from kvcore.instance import LIMIT

PATIENCE = 1.5
"""Least duration of a call in which KV makes room, over both refills."""


class Refill(Policy):
    """The least left goes first; who waits for room processes its context again meanwhile, beside those that run.

    Requests are asked in order of the ticks that they have left, alone, with their calls. One takes part if all that it
    lacks fits, or would without those behind it, and those before it whose calls go on for at least P times as long as
    the two refills take. Of these it drops the last, as many as the batch needs.

    Those who wait process all that they lack but the last token, in the room left beside what those that run hold at
    the end of their segments. So where two contexts S and S' take turns on a memory M, a change takes (S + S' - M) / C
    batches of C tokens.

    Running time: O(n (log n + k)) a batch, n present, k of them with KV and without work.
    Source: this project.
    """

    name = "refill"
    knows = "predictions"
    free_calls = "own"
    needs = ("evict", "chunked", "pause", "hybrid")
    settings: ClassVar[dict[str, Setting]] = {
        "patience": Setting("P, how many times as long as both refills take a call is to last", least=0, most=10**9)
    }
    tuning: ClassVar = Tuning(4.0, 1.1, ((PATIENCE,),))
    patience: float = PATIENCE

    def __init__(self, patience: float = PATIENCE, factors: Sequence[float] | None = None) -> None:
        self.name = f"refill:{patience:g}" if patience != PATIENCE else "refill"
        self.patience, self.factors = patience, factors

    def key(self, job: Job, now: int) -> tuple[float, int]:
        """Return the place in the order: the ticks left, alone."""
        left = job.work + job.call_time + (max(0, (job.call_end or 0) - now) if job.calling else 0)
        return left * (1.0 if self.factors is None else self.factors[job.index]), job.index

    def decide(self, view: View, plan: Plan) -> None:
        order = sorted(view.jobs, key=lambda job: self.key(job, view.now))
        idle = [(place, job) for place, job in enumerate(order) if self.may_go(job)][::-1]
        waiting, growth = list[Job](), 0
        for place, job in enumerate(order):
            tokens = 0 if job.calling or job.id in plan.dropped else plan.chunk(job)
            if not tokens:
                continue
            if not plan.fits(job, job.missing):
                idle = [(at, other) for at, other in idle if other.blocks and other.id not in plan.work]
                spared = [
                    other for at, other in idle if at > place or (at < place and self.is_away(other, job, view.now))
                ]
                if not self.make_room(job, tokens, spared, plan):
                    waiting.append(job)
                    continue
            plan.take(job, tokens)
            growth += max(0, plan.machine.blocks(job.demand.end[job.segment]) - job.blocks)
        for job in waiting:
            held = job.device + job.host + job.found
            free = LIMIT if plan.free_blocks is None else plan.free_blocks - growth
            room = (free + job.blocks + job.spared(held)) * plan.machine.block - held
            tokens = 0 if job.id in plan.dropped or room < 1 else min(plan.chunk(job), job.missing - 1, room)
            if tokens > 0:
                plan.take(job, tokens)

    @staticmethod
    def may_go(job: Job) -> bool:
        """Whether its KV may be dropped: no call keeps it."""
        return job.blocks > 0 and not (job.calling and job.handling != "free")

    def is_away(self, other: Job, job: Job, now: int) -> bool:
        """Whether `other` is in a call for long enough that `job` may take its room."""
        if not other.calling or other.call_end is None:
            return False
        prefill = job.demand.estimate.prefill
        refills = prefill(0, other.device + 1).ticks + prefill(job.device, job.missing).ticks
        return other.call_end - now >= self.patience * refills

    @staticmethod
    def make_room(job: Job, tokens: int, spared: Sequence[Job], plan: Plan) -> bool:
        """Drop as many of the spared as the tokens need, if the whole request fits without all of them."""
        if plan.free_blocks is None or plan.growth_without(job, job.missing, spared) > plan.free_blocks:
            return False
        for other in spared:
            if plan.fits(job, tokens):
                break
            plan.drop(other)
        return plan.fits(job, tokens)

    def steady(self, view: View, plan: Plan) -> int:
        return LIMIT
