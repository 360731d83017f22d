"""First tokens before all else, for the least total TTFT."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.policies.index import Marginal, Step
from kvcore.features import RULES, Feature, Takes

CHUNK = 512  # tokens that refills take of a batch, so that a first token that comes waits little


class FirstTokens(Unified):
    """Requests without a first token go before all others, the shortest prompt first, in batches of their own.

    The batch is their prefix with the most first tokens for its duration; decodes are evicted if it needs their memory,
    the most left first. While none waits, the others decode, and refill 512 tokens a batch; one without KV is then
    admitted if there is memory for all that it will hold.

    Running time: O(n log n) a batch, n present.
    Source: this project; the most first tokens for its duration is Smith's rule (1956) for a batch.
    """

    name = "first-tokens"
    knows = "predictions"
    takes = Takes(RULES | {Feature.DROP_AND_WORK})
    swapped_wait = True

    def start(self, view: View) -> None:
        super().start(view)
        self.marginal = Marginal(view.cost)
        self._late: list[Job] = []  # one token before the end of a prefill, so that they count as decodes

    def key(self, job: Job) -> Any:
        return job.generated > 0, job.missing, job.arrival

    def order(self, jobs: list[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: (job.remaining, job.index))

    def reserve(self, job: Job, tokens: int) -> int:
        return max(job.peak, job.known) if job.generated else job.known

    def groups(self, plan: Plan) -> Iterator[Callable[[Plan], None]]:
        yield self.fill_first
        if not plan.work:
            plan.limit(prefill_tokens=CHUNK if self.machine.chunked else None)
            yield from super().groups(plan)

    def fill_first(self, plan: Plan) -> None:
        """Take the first tokens that are best together, and evict for them."""
        self._late = [job for job in self.decoding if not job.generated and not job.window]
        begun = [job for job in self._late if not job.segment]
        begun += [job for job in self.prefilling if not job.generated]
        fresh = [entry.job for entry in self.waiting if not entry.job.generated]
        for job in [*begun, *fresh[: max(0, self._together(fresh) - len(begun))]]:
            tokens = plan.chunk(job)
            running = [other for other in self.decoding if other not in self._late]
            running = self.order([*running, *(other for other in self.prefilling if other.generated)])
            if not tokens or not self._would_fit(job, job.missing, running, plan):
                break
            while not self._fits(job, job.missing, plan):
                self.evict(next(self.evictable(running, plan)), plan)
            plan.take(job, tokens)
            self.reserved[job.index] = job, job.known
            if job not in begun:
                self.waiting = [entry for entry in self.waiting if entry.job is not job]
                self.prefilling.append(job)

    def steady(self, view: View, plan: Plan) -> int:
        return 1 if self._late else super().steady(view, plan)

    def _together(self, jobs: list[Job]) -> int:
        if not jobs:
            return 0
        tokens = np.array([float(job.missing) for job in jobs])
        step = Step(np.zeros(len(jobs)), tokens, np.zeros(len(jobs), bool))
        durations = self.marginal.durations(step, self.marginal.step(step))
        return int(np.argmax(np.arange(1, len(jobs) + 1) / durations)) + 1
