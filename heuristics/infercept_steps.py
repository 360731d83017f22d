"""The steps from ImprovedDiscard to InferCept: chunks, then swaps within the budget, then preserve by the type."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.intercept import Intercept, call_time, kind
from heuristics.job import Job
from heuristics.plan import Plan
from heuristics.view import View

SOURCE = "InferCept (arXiv 2402.01869), Section 5.2"
LONG = ("chat", "image", "tts")
"""The types of calls that people or large models answer (Section 2.2); a type is the id up to the first dash."""


class ChunkedDiscard(Intercept):
    """ImprovedDiscard, with prompts and refills in chunks beside the decodes.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: InferCept, Sections 4.2 and 5.2: ImprovedDiscard and recomputation chunking.
    """

    name = "infercept-chunked-discard"
    rule = "decodes, then chunks up to 384 tokens, by original arrival; calls discard"
    source = SOURCE
    swaps = False


class BudgetedSwap(Intercept):
    """Chunks, and calls swap out what a batch hides; who finds the limit used up is dropped.

    Where the limit ends within a request, its rest stays until the next batch: KV is a prefix, and to drop the front
    would lose what is on the host.

    Guarantee: nothing is known. Running time: O(r + p log p) for a batch with r running requests and p in calls that
    hold KV, O(log n) for what happens.
    Source: InferCept, Sections 4.1 and 5.2: budgeted swapping, discarding beyond.
    """

    name = "infercept-swap"
    rule = "as infercept-chunked-discard; calls swap within what a batch hides, and discard beyond"
    source = SOURCE


class ByType(Intercept):
    """Chunks and swaps; calls of short-running types preserve, those of long-running ones discard beyond the limit.

    The long-running types are swapped first, then the others; a type that is not known counts as short.

    Guarantee: nothing is known. Running time: as infercept-swap.
    Source: InferCept, Section 5.2: discard for interactive (long-running), preserve for automated (short) types.
    """

    name = "infercept-heuristic"
    rule = "as infercept-swap; beyond the limit calls of chat, image and tts discard, others preserve"
    source = SOURCE

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        """Return those that would be dropped, by original arrival."""
        return super().ranked(job for job in jobs if self.gives_up(job))

    def gives_up(self, job: Job) -> bool:
        """Whether its calls are long-running."""
        return kind(job) in LONG


class ByDuration(Intercept):
    """Chunks; a call is handled by its duration: from some seconds on it discards, from fewer it swaps, or preserves.

    It is swapped whole as it starts, as by `swap`, and dropped if the host has no room; it comes back within the limit.

    Guarantee: nothing is known. Running time: as infercept-chunked-discard.
    Source: the released code of InferCept: heuristics H-S (swap from 4 s), H-D (discard from 7 s) and H-B (both).
    """

    name = "infercept-hb"
    source = "InferCept (arXiv 2402.01869): heuristics H-S, H-D and H-B of the released code"
    knows = "predictions"

    def __init__(self, name: str = "infercept-hb", swap_from: int | None = 4, discard_from: int | None = 7) -> None:
        """Take the seconds from which a call swaps, and from which it discards (None: never)."""
        self.name = name
        self.swap_from, self.discard_from = swap_from, discard_from
        parts = (("discard", discard_from), ("swap", swap_from))
        said = ", ".join(f"of {seconds} s {what}" for what, seconds in parts if seconds is not None)
        self.rule = f"chunks beside decodes; calls {said}, shorter ones preserve"

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self.tick = view.tick_seconds

    def at_call(self, job: Job, plan: Plan) -> None:
        """Handle a call as its duration says."""
        seconds = call_time(job) * self.tick
        if self.discard_from is not None and seconds >= self.discard_from:
            self.discard(job, plan)
        elif self.swap_from is not None and seconds >= self.swap_from:
            self.swap(job, plan)
