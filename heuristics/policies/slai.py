"""SLAI: a decode waits while its deadline allows."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from kvcore.instance import LIMIT

DEADLINE = Fraction(1, 10)  # seconds between two tokens where no limit on TPOT is given, as released
EARLY, EARLIER = 5, 10  # mean batches by which a decode is due early; where memory is nearly full
NEARLY_FULL = Fraction(96, 100)


class Slai(Unified):
    """Decodes that are due, started prefills, new prompts, then the other decodes: at most 512 tokens in a batch.

    After each token the next is due at the end of that batch, plus the limit on TPOT (0.1 s without one), less 5 times
    the mean duration of the batches so far, or 10 times where 96 % of the memory is held or reserved (in whole ticks).
    Decodes go in order of these times. New prompts go in order of length, generated tokens included, and are admitted
    while there is memory for all of it and fewer than `batch_requests` run. A decode needs a free block, unless nothing
    else runs; it evicts the cut prefill, or else itself. Those evicted wait at least for the next batch, in front of
    others of their length.

    The release has no calls: here a call ends the request, which returns as a new one.

    The paper's throughput theorem is RAD's. Running time: O(r log r) a batch, r running.
    Source: the released code (arXiv 2508.01002), agrimUT/SLAI, sarathi/core/scheduler/slai_scheduler.py (d1ff17f),
    shortest prompt first, with the numbers of config_path_yml_files/mistral7b_relaxed.yml (2b01459); no watermark.
    """

    name = "slai"
    batch_tokens = 512
    spare_block = True

    def start(self, view: View) -> None:
        super().start(view)
        self.due: dict[int, int] = {}  # tick from which the next decode of a request is due
        self.limit = DEADLINE / view.tick_seconds
        self.busy = self.began = self.evictions = 0

    def key(self, job: Job) -> Any:
        if job.index not in self._evicted:
            return job.known, job.arrival, False
        self.evictions += 1
        return job.known, -self.evictions, False

    def return_key(self, job: Job, now: int) -> Any:
        return job.known, job.call_ended, True

    def observe(self, view: View, plan: Plan) -> None:
        ended = view.batch > self._batch
        self.busy += view.now - self.began if ended else 0
        self.began = view.now
        super().observe(view, plan)
        if ended:
            limit = self.machine.block_limit
            full = limit is not None and limit - self.available(plan) >= NEARLY_FULL * limit
            due = view.now - Fraction((EARLIER if full else EARLY) * self.busy, view.batch)
            usual = ceil(due + self.limit)
            for job in self.decoding:
                if job.worked:
                    tpot = job.slo and job.slo.tpot
                    self.due[job.index] = ceil(due + tpot) if tpot else usual

    def leave(self, job: Job, *, keep_reserve: bool = False) -> None:
        super().leave(job, keep_reserve=keep_reserve)
        self.due.pop(job.index, None)

    def groups(self, plan: Plan) -> Any:
        return self.fill_due, self.fill_prefilling, self.fill_swapped, self.fill_waiting, self.fill_decoding

    def fill_due(self, plan: Plan) -> None:
        """Let the due decodes process their token."""
        self._decode([job for job in self.decoding if self.due.get(job.index, 0) <= self.now], plan)

    def fill_decoding(self, plan: Plan) -> None:
        self._decode([job for job in self.decoding if self.due.get(job.index, 0) > self.now], plan)

    def _decode(self, jobs: list[Job], plan: Plan) -> None:
        if not jobs or (len(jobs) <= self.available(plan) and plan.decode_on(jobs)):
            return  # a block is left for each, so their order does not matter
        for job in sorted(jobs, key=lambda job: self.due.get(job.index, 0)):
            if job.index not in self._evicted and plan.chunk(job):
                self._take_or_evict(job, 1, jobs, plan)

    def joins(self, job: Job, tokens: int, plan: Plan) -> bool:
        return len(self.decoding) + len(self.prefilling) < (self.machine.batch_requests or LIMIT)

    def victim(self, job: Job, running: Sequence[Job], plan: Plan) -> Job | None:
        if job.phase == "prefill":  # what a call has returned
            return super().victim(job, running, plan)
        return next(self.evictable([job, *self.prefilling], plan), None)

    def _would_fit(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> bool:
        if job.phase == "prefill":
            return super()._would_fit(job, tokens, running, plan)
        running = [*self.decoding, *self.prefilling]
        return any(other is not job and other.index not in self._evicted for other in running)

    def steady(self, view: View, plan: Plan) -> int:
        all_decode = len(plan.work) == len(self.decoding) + len(self.prefilling)
        return super().steady(view, plan) if all_decode and (not self.waiting or plan.tokens_left) else 1
