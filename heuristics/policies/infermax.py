"""INFERMAX: the schedulers of its Table 1, their eviction-free variants, and its own two."""

from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View


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


class InfermaxHistogram(Infermax):
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


class EvictionFree(Table1):
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
