"""AugServe without its order."""

from __future__ import annotations

from heuristics.policies.augserve import AugServe


class AugServeBatching(AugServe):
    """First come, first served with AugServe's token limit and handling: its ablation without two-stage scheduling.

    Guarantee: nothing is known. Running time: as `AugServe`.
    Source: AugServe (arXiv 2512.04013), Section 5.4, "w/ MaxBatch".
    """

    name = "augserve-batching"
    rule = "order of arrival, kept through calls; calls and token limit as in augserve"
    source = "AugServe (arXiv 2512.04013), Section 5.4: w/ MaxBatch"
    ranked = False
