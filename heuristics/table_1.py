"""The schedulers of INFERMAX's Table 1, and their eviction-free variants."""

from __future__ import annotations

from typing import Any

from heuristics.job import Job
from heuristics.plan import Plan
from heuristics.unified import Unified
from heuristics.view import View
from kvcore.instance import LIMIT


class Table1(Unified):
    """A row of Table 1: prefills or decodes first, hybrid batches or not, prefills in chunks or whole, and P.

    `vllm` and `sarathi` are rows as well, and have files of their own. C is the machine's. Where prefills go first, a
    request returns from a call as a new one, to the end of the queue (`vllm`); otherwise it keeps its place.

    Guarantee: nothing is known. It needs a machine that evicts, and one that pauses unless batches are hybrid.
    Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 3.1, Algorithm 1, and Table 1.
    """

    source = "INFERMAX (arXiv 2411.07447), Table 1"

    def __init__(
        self,
        name: str,
        rule: str,
        *,
        prefill_first: bool,
        hybrid: bool,
        chunked: bool,
        prefill_tokens: int | None = None,
    ) -> None:
        self.name = name
        self.rule = rule
        self.prefill_first = prefill_first
        self.hybrid = hybrid
        self.chunked = chunked
        self.prefill_tokens = prefill_tokens

    def return_key(self, job: Job, now: int) -> Any:
        """Return the tick of the return where prefills go first, else the arrival."""
        return now if self.prefill_first else self.key(job)


class EvictionFree(Table1):
    """A row of Table 1 that reserves the most KV a request will ever hold when it is admitted (hypothetical).

    That is I + O - 1 for a request without calls, and what it holds at its end otherwise. The reservation outlasts a
    call whose KV is preserved, and ends with a discard or a swap; who comes back from those is admitted anew.

    Guarantee: with exact predictions nobody is evicted, so it runs on machines that do not evict. Otherwise nothing.
    Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.1.
    """

    knows = "predictions"
    source = "INFERMAX (arXiv 2411.07447), Section 4.1: eviction-free"
    needs = ("pause",)

    def start(self, view: View) -> None:
        """Begin with nobody admitted."""
        super().start(view)
        self.admitted: dict[int, tuple[Job, int]] = {}  # with the blocks at the end
        self._committed = 0  # blocks of all admitted ones together

    def reserve(self, job: Job, tokens: int) -> int:
        """Return the tokens of KV that it holds at its end, as predicted."""
        return max(job.known, job.peak)

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to what has happened; KV that leaves the device at a call needs no memory any more."""
        self.commit()
        for job in view.called:
            if job.handling in ("discard", "swap"):
                self._release(job)
        super().observe(view, plan)

    def available(self, plan: Plan) -> int:
        """Return the device blocks that are neither held nor reserved; who outlives its prediction holds more."""
        self.commit()
        limit = self.machine.block_limit
        if limit is None or plan.free_blocks is None:
            return LIMIT
        beyond = sum(max(0, job.blocks - blocks) for job, blocks in self.admitted.values())
        return min(plan.free_blocks, limit - self._committed - beyond)

    def commit(self) -> None:
        """Count what has been reserved since this was last asked, for as long as the KV stays on the device."""
        for job, most in self.reserved.values():
            blocks = self.machine.blocks(most)
            self.admitted[job.index] = job, blocks
            self._committed += blocks
        self.reserved.clear()

    def leave(self, job: Job, *, keep_reserve: bool = False) -> None:
        """Take a request out of the running ones."""
        super().leave(job, keep_reserve=keep_reserve)
        if not keep_reserve:
            self._release(job)

    def discard(self, job: Job, plan: Plan) -> None:
        """Drop the KV of a request in a call."""
        super().discard(job, plan)
        self._release(job)

    def swap(self, job: Job, plan: Plan) -> None:
        """Send the KV of a request in a call to the host, or discard it."""
        super().swap(job, plan)
        self._release(job)

    def _promise(self, job: Job) -> int:
        _, blocks = self.admitted.get(job.index, (job, 0))
        return max(super()._promise(job), blocks - job.blocks)

    def _release(self, job: Job) -> None:
        self._committed -= self.admitted.pop(job.index, (job, 0))[1]


_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": (
        "prefills first, whole, in batches of their own",
        {"prefill_first": True, "hybrid": False, "chunked": False},
    ),
    "sarathi": (
        "decodes first, then prefills in chunks of 512 tokens",
        {"prefill_first": False, "hybrid": True, "chunked": True, "prefill_tokens": 512},
    ),
    "sarathi-c": (
        "decodes first, then prefills in chunks as large as the batch takes",
        {"prefill_first": False, "hybrid": True, "chunked": True},
    ),
    "sarathi-nocp": (
        "decodes first, then whole prefills beside them",
        {"prefill_first": False, "hybrid": True, "chunked": False},
    ),
    "vllm-hy": (
        "prefills first, whole, and decodes beside them",
        {"prefill_first": True, "hybrid": True, "chunked": False},
    ),
    "sarathi-nohy": (
        "decodes first, whole prefills in batches of their own",
        {"prefill_first": False, "hybrid": False, "chunked": False},
    ),
}
"""Table 1, without what all rows share: order of arrival, and the last comer is evicted."""


def table_1() -> list[Table1]:
    """Return the rows that have no file of their own, and the eviction-free variants of all."""
    rows = [
        Table1(name, f"{rule}; the last comer is evicted", **switches)
        for name, (rule, switches) in _ROWS.items()
        if name not in ("vllm", "sarathi")
    ]
    free = [
        EvictionFree(
            f"{name}-ef", f"{rule}; admitted once the most KV it will ever hold is free (hypothetical)", **switches
        )
        for name, (rule, switches) in _ROWS.items()
    ]
    return [*rows, *free]
