"""Which blocks a prefix cache forgets first, worked out by hand."""

from __future__ import annotations

import pytest

from heuristics import get_policy, trace_policy
from kvbound.comparison import compare
from tests.support.build import request
from tests.support.contents import shared

A, B = ("a", 2), ("b", 2)
ON = shared(
    request("A", 5, 1, path=A), request("B", 5, 1, arrival=10, path=B), request("C", 10, 1, arrival=20),
    request("A2", 5, 1, arrival=40, path=A), tree=(("a", None, 2), ("b", None, 2)), block=2, memory=14, evict=True,
)  # fmt: skip
"""C needs five blocks: three are empty, two are a's or b's."""


@pytest.mark.parametrize(
    ("name", "forgets", "reuses"),
    [
        ("vllm-v1-prefix", {"a": 2}, {}),  # a has been free for longer
        ("vllm-v1-prefix-belady", {"b": 2}, {"A2": 4}),  # nobody needs b
        ("vllm-v1-prefix-tlru:budget=4", {"a": 1, "b": 1}, {"A2": 2}),  # of six tokens two are kept
        ("vllm-v1-prefix-tlru:budget=4,estimate=2", {"a": 2}, {}),  # four: all whole blocks are
        ("vllm-v1-prefix-tlru:budget=9", {"a": 2}, {}),  # none
    ],
)
def test_what_goes_first(name: str, forgets: dict[str, int], reuses: dict[str, int]) -> None:
    batches = trace_policy(ON, get_policy(name)).schedule.batches
    assert [(b.forget, b.reuse) for b in batches[2:]] == [(forgets, {}), ({}, reuses)]


def test_compare_runs_those_that_share_and_says_why_others_do_not() -> None:
    rows = {row["policy"]: row for row in compare(ON, against=None).rows()}
    assert rows["vllm-v1-prefix-belady"]["value"] < rows["vllm-v1-prefix"]["value"]
    assert rows["vllm-v1"]["error"].endswith("it is not made for shared prefixes")
    assert {name for name, row in rows.items() if row["value"] is not None} == {
        "vllm-v1-prefix", "vllm-v1-prefix-priority", "vllm-v1-prefix-async", "vllm-v1-prefix-belady",
        "vllm-v1-prefix-tlru", "sglang-fcfs", "sglang-lpm",
    }  # fmt: skip
