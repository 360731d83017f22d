"""The schedulers of INFERMAX's Table 1."""

from __future__ import annotations

from typing import Any

from heuristics.engine.unified import Unified


class Table1(Unified):
    """A row of Table 1: prefills or decodes first, hybrid batches or not, prefills in chunks or whole, and P.

    `vllm` and `sarathi` are rows as well, and have files of their own, as `sarathi-serve` has, which is `sarathi` as
    released. C is the machine's. Where prefills go first, a
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
        decodes_count: bool = False,
    ) -> None:
        self.name = name
        self.rule = rule
        self.prefill_first = prefill_first
        self.hybrid = hybrid
        self.chunked = chunked
        self.prefill_tokens = prefill_tokens
        self.decodes_count = decodes_count


ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm": (
        "prefills first, whole, in batches of their own",
        {"prefill_first": True, "hybrid": False, "chunked": False},
    ),
    "sarathi": (
        "decodes first, then prefills in chunks of 512 tokens",
        {"prefill_first": False, "hybrid": True, "chunked": True, "prefill_tokens": 512},
    ),
    "sarathi-serve": (
        "decodes first, then prefills in chunks of what the decodes leave of 512 tokens",
        {"prefill_first": False, "hybrid": True, "chunked": True, "prefill_tokens": 512, "decodes_count": True},
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
    """Return the rows that have no file of their own."""
    return [
        Table1(name, f"{rule}; the last comer is evicted", **switches)
        for name, (rule, switches) in ROWS.items()
        if name not in ("vllm", "sarathi", "sarathi-serve")
    ]
