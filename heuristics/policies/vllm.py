"""vLLM's scheduler: prefills first, whole; on a lack of memory the last that came is recomputed."""

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from kvcore.instance import LIMIT


class Vllm(Unified):
    """Prefills first, whole and alone, in order; the last comer is evicted; calls discard, and requeue at the end.

    While a waiting request fits, batches only prefill; otherwise every running request decodes. A decode needs a free
    block even where its last block has room, unless it runs alone: else it evicts the last of the
    running ones, which waits with its whole context to be refilled. A request that calls is ended there, its KV
    dropped, and comes back as a new one: to the end of the queue.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: vLLM as in INFERMAX's released simulator (arXiv 2411.07447, Table 1; no watermark), and InferCept's
    "Discard" (arXiv 2402.01869, Section 3.2).
    """

    name = "vllm"
    hybrid = False
    chunked = False
    prefill_first = True
    spare_block = True


class VllmVidur(Vllm):
    """As `vllm`, with every prompt of a batch counted as long as the longest, at most C tokens together.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: Vidur's released simulator (arXiv 2405.05465), with which it agrees batch for batch on 48 requests
    (tests/heuristics/test_released.py); vLLM before it took prompts unpadded.
    """

    name = "vllm-vidur"

    def joins(self, job: Job, tokens: int, plan: Plan) -> bool:
        longest = max(tokens, *plan.work.values(), 0)
        return (len(plan.work) + 1) * longest <= (self.machine.batch_tokens or LIMIT)
