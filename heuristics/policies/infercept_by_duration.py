"""The heuristics H-S, H-D and H-B of InferCept: calls are handled by their durations."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infercept_base import InferceptBase


class ByDuration(InferceptBase):
    """Chunks; a call is handled by its duration: from some seconds on it discards, from fewer it swaps, or preserves.

    It is swapped whole as it starts, as by `swap`, and preserved if the host has no room for it; it comes back within
    the limit.

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
        seconds = job.demand.durations[job.segment - 1] * self.tick
        if self.discard_from is not None and seconds >= self.discard_from:
            self.discard(job, plan)
        elif self.swap_from is not None and seconds >= self.swap_from and self.host_takes(job, plan):
            self.swap(job, plan)
