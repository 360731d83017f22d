"""The second step from ImprovedDiscard to InferCept: swaps within the budget."""

from __future__ import annotations

from heuristics.policies.infercept_base import InferceptBase


class BudgetedSwap(InferceptBase):
    """Chunks, and calls swap out what a batch hides; one that finds the limit used up is dropped.

    Where the limit ends within a request, its rest stays until the next batch: KV is a prefix, and to drop the front
    would lose what is on the host.

    Guarantee: nothing is known. Running time: O(r + p log p) for a batch with r running requests and p in calls that
    hold KV, O(log n) for what happens.
    Source: InferCept, Sections 4.1 and 5.2: budgeted swapping, discarding beyond.
    """

    name = "infercept-swap"
    rule = "as infercept-chunked-discard; calls swap within what a batch hides, and discard beyond"
    source = "InferCept (arXiv 2402.01869), Section 5.2"
