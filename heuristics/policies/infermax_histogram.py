"""INFERMAX's scheduler with a histogram of lengths."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infermax import Infermax
from heuristics.policies.reserving import Reserving


class InfermaxHistogram(Reserving, Infermax):
    """As `infermax`; a request is admitted once the KV that it is expected to hold at its end is free.

    Expected is the mean, rounded up, of what the requests that are done held at their ends, among those whose prompt
    has the same number of binary digits; its own known tokens where that is more, or where none is done.

    Guarantee: nothing is known. It needs a machine that evicts.
    Running time: O(r) for a batch with r running requests, O(r log r) where memory lacks, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting and histogram; the buckets as in its released code.
    """

    name = "infermax-histogram"
    rule = "as infermax; admitted once the KV expected at its end is free, by a histogram of those that are done"
    source = "INFERMAX (arXiv 2411.07447), Section 6: histogram"

    def start(self, view: View) -> None:
        """Begin with an empty histogram."""
        super().start(view)
        self.done: dict[int, tuple[int, int]] = {}
        """By the binary digits of the prompt: how many are done, and the KV that they held at their ends."""

    def observe(self, view: View, plan: Plan) -> None:
        """Enter those that are done into the histogram."""
        for job in view.ended:
            count, total = self.done.get(job.prompt.bit_length(), (0, 0))
            self.done[job.prompt.bit_length()] = count + 1, total + job.known - 1
        super().observe(view, plan)

    def reserve(self, job: Job, tokens: int) -> int:
        """Return the KV that it is expected to hold at its end."""
        count, total = self.done.get(job.prompt.bit_length(), (0, 0))
        return max(job.known, -(-total // count) if count else 0)
