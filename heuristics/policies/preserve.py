"""InferCept's Preserve: vLLM, but the KV of a request stays on the device while it is in a call."""

from __future__ import annotations

from heuristics.policies.improved_discard import ImprovedDiscard


class Preserve(ImprovedDiscard):
    """vLLM's scheduler; a call keeps its KV on the device, and the request runs on when it returns.

    What the call has returned is a prefill, and has a batch without decodes (the released code lets it join the
    decodes). While it is in the call no other takes its memory.

    Guarantee: nothing is known. Running time: as vLLM.
    Source: InferCept, Section 3.2, equation (2).
    """

    name = "preserve"
    rule = "as vllm; calls preserve"
    source = "InferCept (arXiv 2402.01869), Section 3.2: Preserve"
    handling = "preserve"
