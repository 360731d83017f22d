"""The steps from vLLM's scheduler to InferCept, and the heuristics that its released code has beside it."""

from collections.abc import Iterable
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infercept_base import InferceptBase, call_type
from heuristics.policies.vllm import Vllm


class ImprovedDiscard(Vllm):
    """vLLM's scheduler; a call discards, and the request waits at the place of its original arrival.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (1): ImprovedDiscard; as coded, the request is put
    before all that wait.
    """

    name = "improved-discard"

    def return_key(self, job: Job, now: int) -> Any:
        return self.key(job)


class Preserve(ImprovedDiscard):
    """vLLM's scheduler; a call keeps its KV on the device, and the request runs on when it returns.

    What the call has returned is a prefill, and has a batch without decodes (the released code lets it join the
    decodes). While it is in the call no other takes its memory.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (2): Preserve.
    """

    name = "preserve"
    handling = "preserve"


class Swap(ImprovedDiscard):
    """vLLM's scheduler; a call sends all its KV to the host at once, or drops it if the host has no room.

    After the call the request is brought back whole as soon as there is memory for it; until then no waiting request
    is admitted. What a transfer costs is up to the instance: under a cost that adds transfers to the work all wait for
    them, as in the paper.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (3): Swap; recomputation where the host is full is the
    released code's.
    """

    name = "swap"
    handling = "swap"

    def fill_waiting(self, plan: Plan) -> None:
        """Admit waiting requests unless one waits to come back from the host."""
        if not self.swapped:
            super().fill_waiting(plan)


STEPS = (
    InferceptBase(swaps=False).called(
        "infercept-chunked-discard",
        "Decodes, then chunks up to 384 tokens, by original arrival; calls discard",
        "InferCept (arXiv 2402.01869), Section 5.2",
    ),
    InferceptBase().called(
        "infercept-swap",
        "As infercept-chunked-discard; calls swap within what a batch hides, and discard beyond",
        "InferCept (arXiv 2402.01869), Section 5.2",
    ),
)
"""From improved-discard on: recomputation in chunks, and then swaps within the budget."""

LONG = ("chat", "image", "tts")  # types of calls that people or large models answer (Section 2.2)


class ByType(InferceptBase):
    """Chunks and swaps; calls of short-running types preserve, those of long-running ones discard beyond the limit.

    The long-running types are swapped first, then the others; a type that is not known counts as short. The type of a
    request is its id up to the first dash.

    Guarantee: nothing is known. Running time: as infercept-swap.
    Source: InferCept (arXiv 2402.01869), Section 5.2: discard for interactive (long-running), preserve for automated
    (short) types.
    """

    name = "infercept-heuristic"

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        return super().ranked(job for job in jobs if self.gives_up(job))

    def gives_up(self, job: Job) -> bool:
        return call_type(job) in LONG


class ByDuration(InferceptBase):
    """Chunks; a call is handled by its duration: from some seconds on it discards, from fewer it swaps, or preserves.

    The batch is that of `infercept`; what the release does there is not known. A call is swapped whole as it starts, as
    by `swap`, and preserved if the host has no room for it; it comes back within the limit.

    Guarantee: nothing is known. Running time: as infercept-chunked-discard.
    Source: InferCept's released code (arXiv 2402.01869): H-S (swap from 4 s), H-D (discard from 7 s), H-B (both).
    """

    name = "infercept-hb"
    knows = "predictions"

    def __init__(self, name: str = "infercept-hb", swap_from: int | None = 4, discard_from: int | None = 7) -> None:
        """Take the seconds from which a call swaps, and from which it discards (None: never)."""
        super().__init__()
        self.name = name
        self.swap_from, self.discard_from = swap_from, discard_from
        parts = (("discard", discard_from), ("swap", swap_from))
        said = ", ".join(f"of {seconds} s {what}" for what, seconds in parts if seconds is not None)
        self.rule = f"Chunks beside decodes; calls {said}, shorter ones preserve"

    def start(self, view: View) -> None:
        super().start(view)
        self.tick = view.tick_seconds

    def at_call(self, job: Job, plan: Plan) -> None:
        seconds = job.demand.durations[job.segment - 1] * self.tick
        if self.discard_from is not None and seconds >= self.discard_from:
            self.discard(job, plan)
        elif self.swap_from is not None and seconds >= self.swap_from and self.host_takes(job, plan):
            self.swap(job, plan)
