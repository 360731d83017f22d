"""InferCept's Swap: vLLM, but all KV of a request goes to the host at a call, and comes back after it."""

from __future__ import annotations

from heuristics.engine.plan import Plan
from heuristics.policies.improved_discard import ImprovedDiscard


class Swap(ImprovedDiscard):
    """vLLM's scheduler; a call sends all its KV to the host at once, or drops it if the host has no room.

    After the call the request is brought back whole as soon as there is memory for it; until then no waiting request
    is admitted. What a transfer costs is up to the instance: under a cost that adds transfers to the work all wait for
    them, as in the paper.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept, Section 3.2, equation (3); recomputation where the host is full is the released code's.
    """

    name = "swap"
    rule = "as vllm; calls swap all out, or discard where the host is full; they come back before new ones are admitted"
    source = "InferCept (arXiv 2402.01869), Section 3.2: Swap"
    handling = "swap"

    def fill_waiting(self, plan: Plan) -> None:
        """Admit waiting requests unless one waits to come back from the host."""
        if not self.swapped:
            super().fill_waiting(plan)
