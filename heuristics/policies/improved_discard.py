"""InferCept's ImprovedDiscard: vLLM, but a request comes back from a call to its old place in the queue."""

from __future__ import annotations

from typing import Any

from heuristics.engine.job import Job
from heuristics.policies.vllm import Vllm


class ImprovedDiscard(Vllm):
    """vLLM's scheduler; a call discards, and the request waits at the place of its original arrival.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept, Section 3.2, equation (1); as coded, the request is put before all that wait.
    """

    name = "improved-discard"
    rule = "as vllm; calls discard, and requeue by original arrival"
    source = "InferCept (arXiv 2402.01869), Section 3.2: ImprovedDiscard"

    def return_key(self, job: Job, now: int) -> Any:
        """Return the original arrival."""
        return self.key(job)
