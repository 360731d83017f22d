"""The knee rule: decodes by the work left, and prefill up to where compute takes as long as the weights and the KV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.index import HEADROOM, Index, Marginal, Step, settings
from kvcore.cost import Cost, OwnCost

Array = Any

MEANS = 3.0
"""R0 in means of the work that the requests present have left: 1.5 costs 5 % at 2,000 long prompts, 10 costs 0.5 %."""


class Knee(Index):
    """The decodes that serve most for a batch's duration, and prefill until another function becomes the longest.

    The function with the largest fixed part pays for the memory traffic: weights, and KV that is read. Each other one,
    and tokens above a hinge, may last as long and no longer. So prefill fills the time that decodes leave unused, and
    a batch has the size that suits what is in it. Where one function is always the longest, prefill takes what the
    budgets leave.

    Decodes go by R, the least work left (as in `index`): the prefix that maximises the sum of c / (R + R0) over its
    duration, with c what the request adds; the rest pauses and keeps its KV. R0 is three times the mean R. Then
    prefills by R, each whole or up to the knee, which ends the batch. One without KV joins if all that it knows fits
    and leaves free a tenth of what those with KV will still add. Where a block lacks, what is evicted is first the
    prefill with the largest R, then KV of a free call, then the decode with the largest R. Predictions count.

    Guarantee: nothing is known. It needs a machine that evicts, pauses, mixes phases and splits prefills.
    Running time: O(n log n) for a batch with n requests present, in numpy; bisection for each prefill that is cut.
    Source: this project; the roofline of Williams, Waterman and Patterson (2009), and Smith's rule (1956) for a batch.
    """

    rule = "decodes by the least work left that serve most a tick, and prefill until compute takes as long as memory"
    source = "this project, after Williams et al. (2009) and Smith (1956)"
    needs = ("evict", "pause", "hybrid", "chunked")

    def __init__(self, means: float = MEANS, factors: Array | None = None) -> None:
        """Set R0 in means of R, and what R is multiplied with, by request."""
        super().__init__(factors=factors)
        self.name = "knee" if means == MEANS else f"knee:means={means:g}"
        self.means = means

    @classmethod
    def named(cls, name: str) -> Knee:
        """Return the policy of `knee:means=R0`. BadInput: it is none."""
        return cls(**settings(name, "the knee rule is knee:means=R0", "means"))

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self._pays, self._lines = slopes(self.marginal)

    def groups(self, plan: Plan) -> Iterable[Callable[[Plan], None]]:
        """Return one group."""
        return (self.fill_to_the_knee,)

    def fill_to_the_knee(self, plan: Plan) -> None:
        """Take the decodes that are worth it, then prefills while compute takes no longer than memory."""
        others = [*self.prefilling, *(entry.job for entry in self.waiting)]
        jobs, decodes, holds = [*self.decoding, *others], len(self.decoding), len(self.decoding) + len(self.prefilling)
        self._alone = len(jobs) == 1
        if not jobs:
            return
        at = np.array([job.index for job in jobs])
        device, host, missing, left = self.state[:, at]
        step = Step(device + host, missing, (missing == 1) & (device + host > 0))
        work = (self.marginal.left(step, left) + self.after[:, at]).max(axis=0)
        if self.factors is not None:
            work = work * self.factors[at]
        order = np.lexsort((at, work))
        first, then = order[order < decodes], order[order >= decodes]
        base = self.marginal.busy[:, 0]
        if decodes:
            size, parts = self._best_decodes(Step(*(part[first] for part in step)), work[first], work.mean(), plan)
            running = [*(jobs[p] for p in first.tolist()), *self._called(), *(jobs[p] for p in then if p < holds)]
            self._decode([jobs[p] for p in first[:size].tolist()], running, plan)
            base = base + parts
        coming = HEADROOM * (missing + left - 1)[:holds].sum() / self.machine.block
        self._prefill([jobs[p] for p in then.tolist()], base, coming, plan)

    def _best_decodes(self, step: Step, work: Array, mean: float, plan: Plan) -> tuple[int, Array]:
        """Return how many of the decodes, in order, are the batch, and what they add to it, by function."""
        most = min(len(work), plan.tokens_left, plan.requests_left)
        batch = Step(*(part[:most] for part in step))
        parts = self.marginal.step(batch)
        share = parts.max(axis=0) / (work[:most] + self.means * mean)
        value = np.cumsum(share) / self.marginal.durations(batch, parts)
        size = len(value) - int(np.argmax(value[::-1]))
        return size, parts[:, :size].sum(axis=1) + self.marginal.any_decode[:, 0]

    def _decode(self, chosen: list[Job], running: list[Job], plan: Plan) -> None:
        """Let decodes work; where blocks lack, evict the last of those that run."""
        block, victims = self.machine.block, self.evictable(running, plan)
        while plan.free_blocks is not None and plan.free_blocks < sum(job.device % block == 0 for job in chosen):
            victim = next(victims, None)
            if victim is None:
                break
            self.evict(victim, plan)
            self._stale.append(victim)
            chosen = [job for job in chosen if job is not victim]
        together = self._decode_on(chosen, plan)
        for job in chosen:
            if job.id not in plan.work and plan.chunk(job) and plan.fits(job, 1):
                plan.take(job, 1)
                self._stale.append(job)
        self._decoded = np.array([job.index for job in together], int)

    def _called(self) -> list[Job]:
        """Return the requests in calls whose KV may be dropped."""
        return [job for job in self.paused.values() if job.device and job.handling == "free"]

    def evict(self, job: Job, plan: Plan) -> None:
        """Drop the KV of a request that runs, which then waits, or that is in a call."""
        if job.index in self.paused:
            self.discard(job, plan)
        else:
            super().evict(job, plan)

    def _prefill(self, jobs: list[Job], base: Array, coming: float, plan: Plan) -> None:
        """Take prefills in order, up to the knee; `base` is what the batch takes so far, by function."""
        cost, joined = self.marginal, set()
        added = cost.any_prefill[:, 0]
        for k, job in enumerate(jobs):
            most = 0 if job.index in self._evicted else plan.chunk(job)
            fresh = not job.device
            if not most or (fresh and not self._admits(job, coming, plan)):
                break
            resident = job.device + job.host
            now = base + added + cost.prefill[:, 0] + cost.prefill_kv[:, 0] * resident
            tokens = self._to_the_knee(now.tolist(), sum(plan.work.values()), resident, most)
            if not tokens and plan.work:
                break
            tokens = tokens or most
            if not fresh and not plan.fits(job, tokens):
                victims = [*self._called(), *(other for other in jobs[k + 1 :] if other.device)]
                self._make_room(job, tokens, victims, plan)
            if not plan.fits(job, tokens):
                break
            step = Step(np.array([float(resident)]), np.array([float(tokens)]), np.array([job.phase == "decode"]))
            cut = tokens < job.missing
            base, added = base + added + cost.step(step)[:, 0], 0.0
            plan.take(job, tokens)
            self._stale.append(job)
            if fresh:
                joined.add(job.index)
                self.prefilling.append(job)
            if cut:
                break
        if joined:
            self.waiting = [entry for entry in self.waiting if entry.position not in joined]

    def _admits(self, job: Job, coming: float, plan: Plan) -> bool:
        """Whether there is memory for all that it knows, and, beside others, for a share of what is to come."""
        if plan.free_blocks is None:
            return True
        return job.growth(job.missing) + (coming if plan.work else 0) <= plan.free_blocks

    def _to_the_knee(self, base: list[float], tokens: int, resident: int, most: int) -> int:
        """Return the most tokens, up to so many, for which no function is longer than the one that pays."""

        def within(c: int) -> bool:
            pairs, limit = c * (c + 2 * resident), base[self._pays]
            return all(
                now + token * c + pair * pairs + (above * (tokens + c - knee) if tokens + c > knee else 0.0) <= limit
                for now, (token, pair, above, knee) in zip(base, self._lines, strict=True)
            )

        if within(most):
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if within(middle) else (low, middle)
        return low


def slopes(cost: Marginal) -> tuple[int, list[tuple[float, ...]]]:
    """Return the function that pays, and of each how much more a token and a pair take, and its hinge.

    A hinge is what a token above it adds, and how many tokens are below it.
    """
    pays = int((cost.busy + cost.any_decode + cost.any_prefill).argmax())
    columns = cost.token - cost.token[pays], cost.pair - cost.pair[pays], cost.above, cost.knee
    return pays, [tuple(map(float, line)) for line in np.hstack(columns)]


def has_knee(cost: Cost) -> bool:
    """Whether prefill can make another function the longest than the one that pays."""
    if isinstance(cost, OwnCost):
        return False
    return any(token > 0 or pair > 0 or above > 0 for token, pair, above, _ in slopes(Marginal(cost))[1])
