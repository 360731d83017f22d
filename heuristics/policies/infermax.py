"""INFERMAX: the schedulers of its Table 1, their eviction-free variants, and its own two."""

from collections.abc import Sequence
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class Infermax(Unified):
    """Decodes first, those with most KV before others, then prefills in chunks; the shortest is evicted.

    Groups are Sarathi's. What a refill costs grows with what has been evicted. P = C unless `prefill_tokens` says
    otherwise.

    Guarantee: nothing is known. It needs a machine that evicts.
    Running time: O(r) for a batch with r running requests, O(r log r) where memory lacks, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting.
    """

    name = "infermax"

    def order(self, jobs: list[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: (-job.device, job.arrival, job.index))


class Reserving(Unified):
    """The unified algorithm where most requests hold less than what is reserved for them (`reserve`).

    Running time: O(r) for a batch with r running requests, O(1) for a question.
    """

    def start(self, view: View) -> None:
        super().start(view)
        self.admitted: dict[int, tuple[Job, int]] = {}  # with the blocks at the end
        self._committed = 0  # blocks of all admitted ones together
        self._outlived: list[tuple[Job, int]] = []  # those that may hold more in this batch

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to what has happened; KV that leaves the device at a call needs no memory any more."""
        self.commit()
        for job in view.called:
            if job.handling in ("discard", "swap"):
                self._release(job)
        super().observe(view, plan)
        blocks = self.machine.blocks
        self._outlived = [(job, most) for job, most in self.admitted.values() if blocks(job.known) > most]

    def available(self, plan: Plan) -> int:
        """Return the device blocks that are neither held nor reserved; what outlives its prediction holds more."""
        self.commit()
        limit = self.machine.block_limit
        if limit is None or plan.free_blocks is None:
            return LIMIT
        held = (
            (self.machine.blocks(job.known) if job.id in plan.work else job.blocks, most)
            for job, most in self._outlived
            if job.index in self.admitted
        )
        return min(plan.free_blocks, limit - self._committed - sum(max(0, blocks - most) for blocks, most in held))

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches the decodes stay within what is reserved for them, or free."""
        size = self.machine.block
        rooms = [blocks * size - job.device for job, blocks in self.admitted.values() if job.id in plan.work]
        return self._steps(rooms, plan)

    def commit(self) -> None:
        """Count what has been reserved since this was last asked, for as long as the KV stays on the device."""
        for job, most in self.reserved.values():
            blocks = self.machine.blocks(most)
            self.admitted[job.index] = job, blocks
            self._committed += blocks
        self.reserved.clear()

    def leave(self, job: Job, *, keep_reserve: bool = False) -> None:
        super().leave(job, keep_reserve=keep_reserve)
        if not keep_reserve:
            self._release(job)

    def discard(self, job: Job, plan: Plan) -> None:
        super().discard(job, plan)
        self._release(job)

    def swap(self, job: Job, plan: Plan) -> None:
        super().swap(job, plan)
        self._release(job)

    def _promise(self, job: Job) -> int:
        _, blocks = self.admitted.get(job.index, (job, 0))
        return max(super()._promise(job), blocks - job.blocks)

    def _unreserved_growth(self, jobs: Sequence[Job]) -> int:
        outlived = {job.index for job, _ in self._outlived}
        beyond = (job for job in jobs if job.index not in self.admitted or job.index in outlived)
        return sum(job.device % self.machine.block == 0 and not self._promise(job) for job in beyond)

    def _release(self, job: Job) -> None:
        self._committed -= self.admitted.pop(job.index, (job, 0))[1]


class InfermaxHistogram(Reserving, Infermax):
    """As `infermax`; admitted once the KV expected at its end is free, by a histogram of those that are done.

    Expected is the mean, rounded up, of what the requests that are done held at their ends, among those whose prompt
    has the same number of binary digits; its own known tokens where that is more, or where none is done. The released
    code takes the mean of lengths, and has an overload rule and partial evictions, which are left out.

    Guarantee: nothing is known. It needs a machine that evicts.
    Running time: O(r) for a batch with r running requests, O(r log r) where memory lacks, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 6: sorting and histogram; the buckets as in its released code.
    """

    name = "infermax-histogram"

    def start(self, view: View) -> None:
        super().start(view)
        self.done: dict[int, tuple[int, int]] = {}
        """By the binary digits of the prompt: how many are done, and the KV that they held at their ends."""

    def observe(self, view: View, plan: Plan) -> None:
        for job in view.ended:
            count, total = self.done.get(job.prompt.bit_length(), (0, 0))
            self.done[job.prompt.bit_length()] = count + 1, total + job.known - 1
        super().observe(view, plan)

    def reserve(self, job: Job, tokens: int) -> int:
        """Return the KV that it is expected to hold at its end."""
        count, total = self.done.get(job.prompt.bit_length(), (0, 0))
        return max(job.known, -(-total // count) if count else 0)


class Table1(Unified):
    """A row of Table 1: prefills or decodes first, hybrid batches or not, prefills in chunks or whole, and P.

    `vllm` and `sarathi` are rows as well, and have files of their own, as `sarathi-serve` has, which is `sarathi` as
    released. C is the machine's. Where prefills go first, a
    request returns from a call as a new one, to the end of the queue (`vllm`); otherwise it keeps its place.

    Guarantee: nothing is known. It needs a machine that evicts, and one that pauses unless batches are hybrid.
    Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 3.1, Algorithm 1, and Table 1.
    """

    def __init__(self, name: str, rule: str, **switches: Any) -> None:
        """Take a name, a rule, and the switches of `Unified` that are not as there."""
        self.name = name
        self.rule = rule
        vars(self).update(switches)


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
"""Table 1, without what all rows share: order of arrival, and the last comer is evicted."""


def table_1() -> list[Table1]:
    """Return the rows that have no file of their own."""
    return [
        Table1(name, f"{rule}; the last comer is evicted", **switches)
        for name, (rule, switches) in ROWS.items()
        if name not in ("vllm", "sarathi", "sarathi-serve")
    ]


class EvictionFree(Reserving, Table1):
    """A row of Table 1 that reserves the most KV a request will ever hold when it is admitted (hypothetical).

    That is I + O - 1 for a request without calls, and what it holds at its end otherwise. The reservation outlasts a
    call whose KV is preserved, and ends with a discard or a swap; one that comes back from those is admitted anew.

    Guarantee: with exact predictions none is evicted, so it runs on machines that do not evict. Otherwise nothing: one
    that outlives its prediction may get the last comer evicted.
    Running time: O(r) for a batch with r running requests, O(log n) for what happens.
    Source: INFERMAX (arXiv 2411.07447), Section 4.1: eviction-free.
    """

    knows = "predictions"
    needs = ("pause",)

    def reserve(self, job: Job, tokens: int) -> int:
        return max(job.known, job.peak)


def eviction_free() -> list[EvictionFree]:
    """Return the variants of all rows of Table 1."""
    return [
        EvictionFree(
            f"{name}-ef", f"{rule}; admitted once the most KV it will ever hold is free (hypothetical)", **switches
        )
        for name, (rule, switches) in ROWS.items()
    ]
