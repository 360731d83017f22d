"""INFERMAX: the schedulers of its Table 1, their eviction-free variants, and its own two."""

from collections.abc import Sequence
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import LAID
from heuristics.engine.unified import Unified, first_come
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class Vllm(Unified):
    """Prefills first, whole and alone, in order; the last comer is evicted; calls discard, and requeue at the end.

    While a waiting request fits, batches only prefill; otherwise every running request decodes. A decode needs a free
    block even where its last block has room, unless it runs alone: else it evicts the last running one, which waits
    with its whole context to be refilled.

    Running time: O(r) a batch, r running; O(log n) an event.
    Source: vLLM as in INFERMAX's released simulator (arXiv 2411.07447, Table 1; no watermark), and InferCept's
    "Discard" (arXiv 2402.01869, Section 3.2).
    """

    name = "vllm"
    takes = LAID
    hybrid = False
    chunked = False
    prefill_first = True
    spare_block = True


class VllmVidur(Vllm):
    """As `vllm`, with every prompt of a batch counted as long as the longest, at most C tokens together.

    Running time: as vllm.
    Source: Vidur's released simulator (arXiv 2405.05465), equal batch for batch on 48 requests
    (tests/heuristics/test_released.py).
    """

    name = "vllm-vidur"

    def joins(self, job: Job, tokens: int, plan: Plan) -> bool:
        longest = max(tokens, *plan.work.values(), 0)
        return (len(plan.work) + 1) * longest <= (self.machine.batch_tokens or LIMIT)


class Sarathi(Unified):
    """Decodes first, then prefills in chunks of 512 tokens, in order of arrival; the last comer is evicted.

    The rest of the P prefill tokens goes to started, then to new prefills. Admission reserves memory for the whole
    prompt.

    Running time: as vllm.
    Source: Sarathi-Serve as INFERMAX models it (arXiv 2411.07447, Table 1).
    """

    name = "sarathi"
    takes = LAID
    prefill_tokens = 512


class SarathiServe(Sarathi):
    """As `sarathi`, in chunks of what the decodes leave of 512 tokens; the last comer is evicted.

    Decodes beyond 512 tokens still run, and prefills then wait. A decode needs a free block as in `vllm`: else the last
    to arrive of those that run is evicted, itself in the end; cut prefills count, too, if they came after it.

    Running time: as vllm.
    Source: Sarathi-Serve's released code (arXiv 2403.02310, commit 96f9911), and Vidur's copy, equal batch for batch on
    48 requests (tests/heuristics/test_released.py).
    """

    name = "sarathi-serve"
    decodes_count = True
    spare_block = True

    def fill_decoding(self, plan: Plan) -> None:
        if not self.decoding or (len(self.decoding) <= self.available(plan) and plan.decode_on(self.decoding)):
            return  # a block is left for each
        running = sorted([*self.decoding, *self.prefilling], key=first_come)
        for place, job in enumerate(running):
            if job.phase == "decode" and job.index not in self._evicted and plan.chunk(job):
                self._take_or_evict(job, 1, running[place:], plan)

    def _would_fit(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> bool:
        others = (other for other in self.prefilling if other is not job and other.index not in self._evicted)
        return super()._would_fit(job, tokens, running, plan) or any(others)


class Infermax(Unified):
    """Decodes first, those with most KV before others, then prefills in chunks; the shortest is evicted.

    Groups are Sarathi's. P = C by default.

    Running time: O(r) a batch, r running; O(r log r) where memory lacks; O(log n) an event.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting.
    """

    name = "infermax"
    takes = LAID

    def order(self, jobs: list[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: (-job.device, job.arrival, job.index))


class InfermaxHistogram(Infermax):
    """As `infermax`; admitted once the KV expected at its end is free, by a histogram of those that are done.

    Expected is the mean KV, rounded up, that done requests held at their ends, among those whose prompt has the same
    number of binary digits; its own known tokens where that is more, or none is done. The released code takes the mean
    of lengths, and has an overload rule and partial evictions, which are left out.

    Running time: as infermax.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting and histogram; the buckets as in its released code.
    """

    name = "infermax-histogram"

    def start(self, view: View) -> None:
        super().start(view)
        self.done: dict[int, tuple[int, int]] = {}
        """By the prompt's binary digits: how many are done, and the KV at their ends."""

    def observe(self, view: View, plan: Plan) -> None:
        for job in view.ended:
            count, total = self.done.get(job.prompt.bit_length(), (0, 0))
            self.done[job.prompt.bit_length()] = count + 1, total + job.known - 1
        super().observe(view, plan)

    def reserve(self, job: Job, tokens: int) -> int:
        count, total = self.done.get(job.prompt.bit_length(), (0, 0))
        return max(job.known, -(-total // count) if count else 0)


class Table1(Unified):
    """A row of Table 1: prefills or decodes first, hybrid batches or not, prefills in chunks or whole, and P.

    C is the machine's. Where prefills go first, a request returns from a call to the end of the queue; otherwise it
    keeps its place.

    Running time: as vllm.
    Source: INFERMAX (arXiv 2411.07447), Section 3.1, Algorithm 1, and Table 1.
    """

    takes = LAID


ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": (
        "Prefills first, whole, in batches of their own",
        {"prefill_first": True, "hybrid": False, "chunked": False},
    ),
    "sarathi": ("Decodes first, then prefills in chunks of 512 tokens", {"prefill_tokens": 512}),
    "sarathi-serve": (
        "Decodes first, then prefills in chunks of what the decodes leave of 512 tokens",
        {"prefill_tokens": 512, "decodes_count": True},
    ),
    "sarathi-c": ("Decodes first, then prefills in chunks as large as the batch takes", {}),
    "sarathi-nocp": ("Decodes first, then whole prefills beside them", {"chunked": False}),
    "vllm-hy": ("Prefills first, whole, and decodes beside them", {"prefill_first": True, "chunked": False}),
    "sarathi-nohy": ("Decodes first, whole prefills in batches of their own", {"hybrid": False, "chunked": False}),
}
"""Table 1; all rows go by arrival, and evict the last comer."""


TABLE_1 = [
    Table1().called(name, f"{rule}; the last comer is evicted", **switches)
    for name, (rule, switches) in ROWS.items() if name not in ("vllm", "sarathi", "sarathi-serve")
]  # fmt: skip


class EvictionFree(Table1):
    """A row of Table 1 that reserves the most KV a request will ever hold when it is admitted (hypothetical).

    I + O - 1 without calls. The reservation outlasts a call that preserves, and ends with a discard or a swap; one that
    returns from those is admitted anew.

    Guarantee: with exact predictions none is evicted, so it runs on machines that do not evict. Otherwise nothing: one
    that outlives its prediction may evict the last comer.
    Running time: as vllm.
    Source: INFERMAX (arXiv 2411.07447), Section 4.1: eviction-free.
    """

    knows = "predictions"
    needs = ("pause",)

    def reserve(self, job: Job, tokens: int) -> int:
        return max(job.known, job.peak)


EVICTION_FREE = [
    EvictionFree().called(
        f"{name}-ef", f"{rule}; admitted once the most KV it will ever hold is free (hypothetical)", **switches
    )
    for name, (rule, switches) in ROWS.items()
]
