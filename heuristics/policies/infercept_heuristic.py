"""The third step from ImprovedDiscard to InferCept: preserve or discard by the type of the call."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.engine.job import Job
from heuristics.policies.infercept_base import InferceptBase, call_type

LONG = ("chat", "image", "tts")
"""The types of calls that people or large models answer (Section 2.2); a type is the id up to the first dash."""


class ByType(InferceptBase):
    """Chunks and swaps; calls of short-running types preserve, those of long-running ones discard beyond the limit.

    The long-running types are swapped first, then the others; a type that is not known counts as short.

    Guarantee: nothing is known. Running time: as infercept-swap.
    Source: InferCept, Section 5.2: discard for interactive (long-running), preserve for automated (short) types.
    """

    name = "infercept-heuristic"
    rule = "as infercept-swap; beyond the limit calls of chat, image and tts discard, others preserve"
    source = "InferCept (arXiv 2402.01869), Section 5.2"

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        """Return those that would be dropped, by original arrival."""
        return super().ranked(job for job in jobs if self.gives_up(job))

    def gives_up(self, job: Job) -> bool:
        """Whether its calls are long-running."""
        return call_type(job) in LONG
