"""The first step from ImprovedDiscard to InferCept: chunks."""

from __future__ import annotations

from heuristics.policies.infercept_base import InferceptBase


class ChunkedDiscard(InferceptBase):
    """ImprovedDiscard, with prompts and refills in chunks beside the decodes.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: InferCept, Sections 4.2 and 5.2: ImprovedDiscard and recomputation chunking.
    """

    name = "infercept-chunked-discard"
    rule = "decodes, then chunks up to 384 tokens, by original arrival; calls discard"
    source = "InferCept (arXiv 2402.01869), Section 5.2"
    swaps = False
