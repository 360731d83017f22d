"""InferCept's Swap: vLLM, but all KV of a request goes to the host at a call, and comes back after it."""

from __future__ import annotations

from heuristics.policies.improved_discard import ImprovedDiscard


class Swap(ImprovedDiscard):
    """vLLM's scheduler; a call sends all its KV to the host at once, or drops it if the host has no room.

    After the call the request is brought back whole, before new ones, as soon as there is memory for it. What a
    transfer costs is up to the instance: under a cost that adds transfers to the work all wait for them, as in
    the paper.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept, Section 3.2, equation (3); recomputation where the host is full is the released code's.
    """

    name = "swap"
    rule = "as vllm; calls swap all out at once, or discard where the host is full"
    source = "InferCept (arXiv 2402.01869), Section 3.2: Swap"
    handling = "swap"
