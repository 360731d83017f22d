"""Our policies against what the schedulers of vLLM 0.33.0 and SGLang 0.5.23 did, batch for batch; each rule by hand."""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from pathlib import Path

import pytest

from costmodels import infermax_7b
from heuristics import PolicyError, get_policy, trace_policy
from heuristics.policies.vllm_v1 import VllmV1
from kvcore import Call, Instance, Machine, Request, Segment
from kvcore.metrics import completions
from tests.heuristics.test_policies_today import moves, request, serving

RELEASED = Path(__file__).parent / "released"
RUNS = {
    "vllm-v1": ("vllm-0.33", Machine(memory=9600, block=16, batch_tokens=2048, batch_requests=256, evict=True)),
    "vllm-v1-first-chunk": (
        "vllm-0.33-first-chunk", Machine(memory=6400, block=16, batch_tokens=512, batch_requests=64, evict=True),
    ),
    "vllm-v1-priority": (
        "vllm-0.33-priority", Machine(memory=6400, block=16, batch_tokens=1024, batch_requests=64, evict=True),
    ),
    "sglang": ("sglang-0.5.23", Machine(memory=9600, block=16, prefill_tokens=2048, batch_requests=256, evict=True)),
}  # fmt: skip
LATENCY = {"vllm-v1": 7.7792, "vllm-v1-first-chunk": 32.1016, "vllm-v1-priority": 2.9855, "sglang": 7.3980}
"""The mean seconds from arrival to completion of each run."""


def requests_of(name: str) -> tuple[Request, ...]:
    """The requests of a run; ids are their numbers."""
    with (RELEASED / f"{name}.requests.csv").open() as file:
        return tuple(
            Request(
                id=row["request"], arrival=int(Fraction(row["arrival_s"]) * 10**9), prompt=int(row["prompt_tokens"]),
                segments=(Segment(decode=int(row["output_tokens"])),), weight=int(row.get("weight", 1)),
                max_new=int(row["max_new"]) if "max_new" in row else None,
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


def pairs(text: str) -> list[tuple[str, int]]:
    return [(id, int(tokens)) for id, _, tokens in (item.partition(":") for item in text.split())]


@pytest.mark.parametrize("policy", RUNS)
def test_a_policy_does_what_the_engine_did(policy: str) -> None:
    """Start, requests, tokens and order of every batch, and whose KV was lost."""
    name, machine = RUNS[policy]
    requests = requests_of(name)
    given = Instance(machine=machine, cost=infermax_7b(), tick_seconds=Fraction(1, 10**9), requests=requests)
    trace = trace_policy(given, get_policy(policy))
    with gzip.open(RELEASED / f"{name}.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    batches = trace.expanded().batches
    assert len(rows) == len(batches) > 700
    for k, (row, batch) in enumerate(zip(rows, batches, strict=True)):
        assert (pairs(row["work"]), pairs(row["preempted"])) == ([*batch.work.items()], [*batch.drop.items()]), k
        assert Fraction(row["start_s"]) * 10**9 == batch.start, k
    flow = sum(completions(trace)[one.id] - one.arrival for one in requests)
    assert round(flow / len(requests) / 10**9, 4) == LATENCY[policy]


# --- vLLM, by hand -----------------------------------------------------------------------------------------------


def test_a_batch_that_takes_part_of_a_preempted_requests_kv_cannot_admit_it() -> None:
    """M = 12, C = 8: B holds 3 that stay, of which A's token takes 1. vLLM admits B in that batch; R4 forbids it."""
    c = Request(id="C", prompt=1, segments=(Segment(decode=5, call=Call(duration=1, returns=2)), Segment(decode=3)))
    given = serving(12, request("A", 1, 6), request("B", 3, 4, 3), c, batch_tokens=8, partial=True)
    policy = VllmV1().called("admits", "", cached=True)
    assert moves(given, "vllm-v1-cached", 6)[5] == ({"A": 1}, {"B": 1})
    vars(policy)["may_join"] = lambda job, plan: True
    with pytest.raises(PolicyError, match="R4"):
        trace_policy(given, policy)


# --- SGLang, by hand ---------------------------------------------------------------------------------------------


def test_after_a_retraction_those_that_stay_are_in_its_order() -> None:
    """M = 56: all have as many outputs; C (prompt 3) goes first, and of the others B (1) stays before A (2)."""
    three = request("A", 2, 20, max_new=20), request("B", 1, 20, max_new=20), request("C", 3, 20, 1, max_new=20)
    batches = moves(serving(56, *three), "sglang")
    lost = next(k for k, (_, drop) in enumerate(batches) if drop)
    assert [*batches[lost - 1][0]] == ["A", "B", "C"]
    assert ([*batches[lost][0]], [*batches[lost][1]]) == (["B", "A"], ["C"])
