"""The knee rule: prefill up to where compute takes as long as memory."""

from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting, Tuning
from heuristics.engine.view import View
from heuristics.policies.index import HEADROOM, LEAST, Index, Marginal, Step, title
from kvcore.cost import Cost, OwnCost

Array = Any
MEANS = 3.0  # R0 in means of the work left: 1.5 costs 5 % at 2,000 long prompts, 10 costs 0.5 %


class Knee(Index):
    """Decodes by the least work left that serve most a tick, and prefill until compute takes as long as memory.

    Prefill is taken until another function becomes the longest. The function with the largest fixed part pays for the
    memory traffic: weights, and KV that is read. Each other one, and tokens above a hinge, may last as long. Where one
    function is always the longest, prefill takes what the budgets leave.

    Decodes go by R, the least work left (as in `index`): the prefix that maximises the sum of c / (R + R0) over its
    duration, with c what the request adds; the rest pauses and keeps its KV. R0 is three times the mean R. Then
    prefills by R, each whole or up to the knee, which ends the batch. One without KV joins if its known tokens fit and
    leave free a tenth of what those with KV will still add. Where a block lacks, eviction takes first the prefill with
    the largest R, then KV of a free call, then the decode with the largest R.

    Running time: O(n log n) a batch, n present, in numpy; bisection for each prefill that is cut.
    Source: this project; the roofline of Williams, Waterman and Patterson (2009), and Smith's rule (1956) for a batch.
    """

    needs: tuple[str, ...] = ("evict", "pause", "hybrid", "chunked")
    means: float = MEANS
    settings: ClassVar[dict[str, Setting]] = {"means": Setting("R0 in means of R")}
    tuning: ClassVar = Tuning(2.0, 1.1, ((MEANS,),))

    def __init__(self, means: float = MEANS, factors: Array | None = None) -> None:
        super().__init__(factors=factors)
        self.name = title("knee", means=None if means == MEANS else means)
        self.means = means

    def start(self, view: View) -> None:
        super().start(view)
        cost = self.marginal
        self._pays, self._knee = pays(cost), has_knee(view.cost)
        self._lines = [tuple(map(float, line)) for line in np.hstack((cost.token, cost.pair, cost.above, cost.knee))]

    def fill(self, plan: Plan) -> None:
        jobs, decodes, holds = self.present(), len(self.decoding), len(self.decoding) + len(self.prefilling)
        if not jobs:
            return
        at = np.array([job.index for job in jobs])
        step, left, work = self.work_of(at)
        order = np.lexsort((at, work))
        first, then = order[order < decodes], order[order >= decodes]
        self._base = self.marginal.busy[:, 0]
        if decodes:
            parts = self._best_decodes(Step(*(part[first] for part in step)), work[first], work.mean(), plan)
            chosen = [jobs[p] for p in first[: parts.shape[1]].tolist()]
            running = [*(jobs[p] for p in first.tolist()), *self._called(), *(jobs[p] for p in then if p < holds)]
            self._decode(chosen, running, plan)
            going = [job.id in plan.work for job in chosen]  # the others were evicted, or lack room
            self._base = self._base + parts[:, going].sum(axis=1) + self.marginal.any_decode[:, 0] * any(going)
        coming = HEADROOM * (step.tokens + left - 1)[:holds].sum() / self.machine.block
        self._prefill([jobs[p] for p in then.tolist()], plan, coming=coming)

    def _best_decodes(self, step: Step, work: Array, mean: float, plan: Plan) -> Array:
        most = min(len(work), plan.tokens_left, plan.requests_left)
        batch = Step(*(part[:most] for part in step))
        parts = self.marginal.step(batch)
        share = parts.max(axis=0) / (work[:most] + self.means * mean)
        value = np.cumsum(share) / self.marginal.durations(batch, parts)
        return parts[:, : len(value) - int(np.argmax(value[::-1]))]

    def _decode(self, chosen: list[Job], running: list[Job], plan: Plan) -> None:
        block, victims = self.machine.block, self.evictable(running, plan)
        while plan.free_blocks is not None and plan.free_blocks < sum(job.device % block == 0 for job in chosen):
            victim = next(victims, None)
            if victim is None or not (plan.work or running != [victim]):
                break
            self.evict(victim, plan)
            self._stale.append(victim)
            chosen = [job for job in chosen if job is not victim]
        together = self._decode_on(chosen, plan)
        for job in chosen:
            if job.id not in plan.work and plan.chunk(job) and plan.fits(job, 1):
                plan.take(job, 1)
                self._stale.append(job)
        self._decoded = np.append(self._decoded, [job.index for job in together]).astype(int)

    def _called(self) -> list[Job]:
        return [job for job in self.paused.values() if job.device and job.handling == "free"]

    def evict(self, job: Job, plan: Plan) -> None:
        if job.index in self.paused:
            self.discard(job, plan)
        else:
            super().evict(job, plan)

    def _prefill(
        self, jobs: list[Job], plan: Plan, *, coming: float = 0.0, longest: float = 0.0, running: Sequence[Job] = ()
    ) -> None:
        """Take prefills in order, up to the knee or a batch of `longest` ticks, whichever is later.

        One without KV joins if `coming` blocks stay free beside it; others evict `running`, or KV of calls and of later
        ones.
        """
        cost, joined = self.marginal, set[int]()
        for k, job in enumerate(jobs):
            most = 0 if job.index in self._evicted or job.id in plan.work else plan.chunk(job)
            fresh, resident = not job.device, job.device + job.host
            victims = running or [*self._called(), *(other for other in jobs[k + 1 :] if other.device)]
            added = cost.prefill[:, 0] + cost.prefill_kv[:, 0] * resident
            added = added + cost.any_prefill[:, 0] * (plan.prefill_left == plan.longest_prefill)
            tokens = self._to_the_knee((self._base + added).tolist(), plan, resident, most, longest)
            if fresh and (running or not plan.work) and not plan.fits(job, job.missing):
                whole = (tokens or most) >= job.missing  # two that are cut would evict each other for ever
                self._make_room(job, job.missing, victims if running or whole else self._called(), plan)
            if not most or (fresh and not self._admits(job, coming, plan)):
                if plan.work:
                    break
                continue
            if not tokens and plan.work:
                break
            tokens = tokens or most
            if not plan.fits(job, tokens):
                self._make_room(job, tokens, victims, plan)
            if not plan.fits(job, tokens):
                continue
            cut = tokens < job.missing
            pairs = tokens * (tokens + 2 * resident)
            self._base = self._base + added + cost.token[:, 0] * tokens + cost.pair[:, 0] * pairs
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
        if plan.free_blocks is None:
            return True
        return job.growth(job.missing) + (coming if plan.work else 0) <= plan.free_blocks

    def _to_the_knee(self, base: list[float], plan: Plan, resident: int, most: int, longest: float) -> int:
        """Return the most tokens with no function longer than the one that pays, or than `longest` ticks.

        Without a knee, 0 ticks are no limit.
        """
        taken = sum(plan.work.values())

        def within(tokens: int) -> bool:
            pairs, total = tokens * (tokens + 2 * resident), taken + tokens
            plain = [now + line[0] * tokens + line[1] * pairs for now, line in zip(base, self._lines, strict=True)]
            limit = (max(plain[self._pays], longest) if self._knee else longest or inf) + LEAST
            return all(
                ticks + above * max(0.0, total - hinge) <= limit
                for ticks, (_, _, above, hinge) in zip(plain, self._lines, strict=True)
            )

        if within(most):
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if within(middle) else (low, middle)
        return low


def pays(cost: Marginal) -> int:
    """Return which function has the largest fixed part."""
    return int((cost.busy + cost.any_decode + cost.any_prefill).argmax())


def has_knee(cost: Cost) -> bool:
    """Whether prefill can make a function longer than the one that pays."""
    if isinstance(cost, OwnCost):
        return False
    marginal = Marginal(cost)
    k = pays(marginal)
    steeper = (marginal.token > marginal.token[k]) | (marginal.pair > marginal.pair[k]) | (marginal.above > 0)
    return bool(steeper.any())
