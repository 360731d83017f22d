"""Vidur's model of vLLM: the budget of a prefill batch counts every prompt as long as the longest."""

from __future__ import annotations

from heuristics.engine.plan import Plan
from heuristics.policies.vllm import Vllm
from kvcore.instance import LIMIT


class VllmVidur(Vllm):
    """As `vllm`, but the prompts of a batch, each padded to the longest, are at most C tokens together.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Vidur's released simulator, with which it agrees batch for batch on 48 requests
    (tests/heuristics/test_released.py); vLLM before it took prompts unpadded.
    """

    name = "vllm-vidur"
    rule = "as vllm, with every prompt of a batch counted as long as the longest"
    source = "Vidur (arXiv 2405.05465), the released simulator"

    def joins(self, tokens: int, plan: Plan) -> bool:
        """Whether requests x longest prompt stays within C."""
        longest = max(tokens, *plan.work.values(), 0)
        return (len(plan.work) + 1) * longest <= (self.machine.batch_tokens or LIMIT)
