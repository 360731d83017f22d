"""INFERMAX's own schedulers: long running requests first, short ones evicted, and a histogram of lengths."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.unified import Unified


class Infermax(Unified):
    """Sarathi's groups, with running decodes in order of the KV they hold: long ones first, short ones evicted.

    What a refill costs grows with what has been evicted. P = C unless `prefill_tokens` says otherwise.

    Guarantee: nothing is known. It needs a machine that evicts.
    Running time: O(r) for a batch with r running requests, O(r log r) where memory lacks, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting.
    """

    name = "infermax"
    rule = "decodes first, those with most KV before others, then prefills in chunks; the shortest is evicted"
    source = "INFERMAX (arXiv 2411.07447), Section 6: sorting"

    def __init__(self, prefill_tokens: int | None = None) -> None:
        self.prefill_tokens = prefill_tokens

    def order(self, jobs: list[Job]) -> list[Job]:
        """Return the running requests, those with most KV first, and of equal ones the earlier."""
        return sorted(jobs, key=lambda job: (-job.device, job.arrival, job.index))
