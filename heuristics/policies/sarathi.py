"""Sarathi-Serve's scheduler: decodes first, and prefills in chunks beside them."""

from __future__ import annotations

from heuristics.engine.unified import Unified


class Sarathi(Unified):
    """Every running request decodes; what is left of the P prefill tokens goes to started, then to new prefills.

    Memory for the whole prompt is reserved when a request is admitted. A decode that lacks a block evicts the last of
    the running requests.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Sarathi-Serve as INFERMAX models it (Table 1).
    """

    name = "sarathi"
    rule = "decodes first, then prefills in chunks of 512 tokens, in order of arrival; the last comer is evicted"
    source = "Sarathi-Serve; INFERMAX (arXiv 2411.07447), Table 1"
    prefill_tokens = 512
