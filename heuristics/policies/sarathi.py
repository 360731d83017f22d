"""Sarathi-Serve's scheduler: decodes first, and prefills in chunks beside them."""

from collections.abc import Sequence

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified, first_come


class Sarathi(Unified):
    """Decodes first, then prefills in chunks of 512 tokens, in order of arrival; the last comer is evicted.

    What is left of the P prefill tokens goes to started, then to new prefills. Memory for the whole prompt is reserved
    when a request is admitted. A decode that lacks a block evicts the last of
    the running requests.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Sarathi-Serve as INFERMAX models it (arXiv 2411.07447, Table 1).
    """

    name = "sarathi"
    prefill_tokens = 512


class SarathiServe(Sarathi):
    """As `sarathi`, in chunks of what the decodes leave of 512 tokens; the last comer is evicted.

    A batch has at most so many tokens, decodes included; decodes beyond still run, and prefills then wait. A decode
    needs a free block even where its last block has room, unless it runs alone: else the last to arrive of those that
    run is evicted, itself in the end; cut prefills count, too, if they came after it.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Sarathi-Serve's released code (arXiv 2403.02310, commit 96f9911), and Vidur's copy, with which it agrees
    batch for batch on 48 requests (tests/heuristics/test_released.py).
    """

    name = "sarathi-serve"
    decodes_count = True
    spare_block = True

    def fill_decoding(self, plan: Plan) -> None:
        """Let every running decode process its token; where no block is free, evict the last comer."""
        if not self.decoding or (len(self.decoding) <= self.available(plan) and plan.decode_on(self.decoding)):
            return  # a block is left for each
        running = sorted([*self.decoding, *self.prefilling], key=first_come)
        for place, job in enumerate(running):
            if job.phase == "decode" and job.index not in self._evicted and plan.chunk(job):
                self._take_or_evict(job, 1, running[place:], plan)

    def _would_fit(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> bool:
        """Whether there is memory once those after it are evicted, or another works if it is."""
        others = (other for other in self.prefilling if other is not job and other.index not in self._evicted)
        return super()._would_fit(job, tokens, running, plan) or any(others)
