"""Sarathi-Serve's scheduler as released: the chunk counts the decodes of the batch, too."""

from __future__ import annotations

from heuristics.policies.sarathi import Sarathi


class SarathiServe(Sarathi):
    """As `sarathi`, but what all requests process in a batch, decodes included, is at most the chunk of 512 tokens.

    Decodes beyond the chunk still run; prefills then wait. A decode needs a free block even where its last block has
    room, unless it runs alone: else the last of the running requests is evicted.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Sarathi-Serve's released code (commit 96f9911), and Vidur's copy, with which it agrees batch for batch on
    48 requests (tests/heuristics/test_released.py).
    """

    name = "sarathi-serve"
    rule = "decodes first, then prefills in chunks of what they leave of 512 tokens; the last comer is evicted"
    source = "Sarathi-Serve's released code (arXiv 2403.02310)"
    decodes_count = True
    spare_block = True
