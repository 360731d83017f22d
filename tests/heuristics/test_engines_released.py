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


def test_one_that_preempts_itself_lets_those_after_it_go_on() -> None:
    """M = 10, C = 2: C holds 7 in front of A, needs one of no blocks, and goes. A works on; B is not admitted since."""
    given = serving(
        10, request("A", 3, 3, 1, weight=2), request("B", 2, 1, 2, weight=2), request("C", 5, 4), batch_tokens=2,
        batch_requests=2,
    )  # fmt: skip
    new, old = moves(given, "vllm-v1-priority", 6), moves(given, "vllm-v1-priority-0.32", 6)
    assert new[:5] == old[:5]
    assert new[5] == ({"A": 1}, {"C": 7})
    assert old[5] == ({"A": 1, "B": 1}, {"C": 7})


def test_what_an_ended_request_leaves_is_taken_after_what_was_freed_before() -> None:
    """M = 12, C = 3: C (3) is preempted with a token of KV, then A ends: B takes that token all the same.

    C comes back with 3 tokens to compute. Where what A leaves is free at once, 2 are left.
    """
    given = serving(12, request("B", 6, 5), request("A", 1, 2, 3), request("C", 3, 3, 3), batch_tokens=3, partial=True)
    assert moves(given, "vllm-v1-cached", 7)[4:] == [({"B": 1, "A": 1}, {}), ({"B": 1}, {"C": 1}), ({"C": 3}, {})]


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


def test_the_limit_is_what_memory_has_beside_the_pages_of_the_prompt() -> None:
    """M = 8: A (3, limit 12) is clipped to 8 - 3 - 1 - 1 = 3; B's 1 + 1 + 1 fit beside 0.7 of it in the 5 left."""
    given = serving(8, request("A", 3, 3, max_new=12), request("B", 1, 1, max_new=1), prefill_tokens=16)
    assert moves(given, "sglang", 2) == [({"A": 3}, {}), ({"B": 1}, {})]


def test_a_cut_prompt_that_takes_all_of_a_batch_does_not_close_the_queue() -> None:
    """M = 11, P = 2: J's second chunk leaves K no token. K is prefilled in the next batch, and not after R has left."""
    given = serving(
        11, request("R", 1, 3, max_new=3), request("J", 4, 2, 1, max_new=2), request("K", 1, 1, 1, max_new=1),
        prefill_tokens=2,
    )  # fmt: skip
    assert [work for work, _ in moves(given, "sglang", 5)] == [{"R": 1}, {"J": 2}, {"J": 2}, {"K": 1}, {"R": 1, "J": 1}]


def test_after_a_retraction_those_that_stay_are_in_its_order() -> None:
    """M = 56: all have as many outputs; C (prompt 3) goes first, and of the others B (1) stays before A (2)."""
    three = request("A", 2, 20, max_new=20), request("B", 1, 20, max_new=20), request("C", 3, 20, 1, max_new=20)
    batches = moves(serving(56, *three), "sglang")
    lost = next(k for k, (_, drop) in enumerate(batches) if drop)
    assert [*batches[lost - 1][0]] == ["A", "B", "C"]
    assert ([*batches[lost][0]], [*batches[lost][1]]) == (["B", "A"], ["C"])


@pytest.mark.parametrize(("name", "joins"), [("sglang", True), ("sglang:ignore_eos=1", False)])
def test_requests_of_fixed_length_keep_their_whole_limits_free(name: str, joins: bool) -> None:
    """M = 21: A may yet generate 9. B's 4 + 5 + 1 are less than 17 - 0.7 x 9, and not less than 17 - 9."""
    given = serving(21, request("A", 4, 9, max_new=10), request("B", 4, 5, 1, max_new=5))
    assert (moves(given, name, 2)[1][0] == {"B": 4}) is joins


# --- settings, by hand -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("vllm-v1", {"A": 4, "B": 4}),
        ("vllm-v1:max_num_seqs=1", {"A": 4}),
        ("vllm-v1:long_prefill_token_threshold=3", {"A": 3, "B": 3}),
        ("vllm-v1:threshold=3,seqs=1", {"A": 3}),
        ("vllm-v1:watermark=0.2", {"A": 4}),
    ],
)
def test_a_setting_of_vllm(name: str, first: dict[str, int]) -> None:
    """M = 9 and a null block: a fifth of 10 blocks stays free as B joins A. A lone request has no threshold."""
    two = request("A", 4, 2), request("B", 4, 2)
    assert moves(serving(9, *two), name)[0][0] == first
    assert moves(serving(9, two[0]), name)[0][0] == {"A": 4}


def test_prefills_are_batches_apart() -> None:
    """A prefills in batch 0, so B, which comes in it, is held until batch 3; with C left behind, the next is not."""
    given = serving(None, request("A", 2, 9), request("B", 2, 9, 1), request("C", 2, 9, 1), batch_tokens=3)
    works = [work for work, _ in moves(given, "vllm-v1:prefill_schedule_interval=3", 5)]
    assert works == [{"A": 2}, {"A": 1}, {"A": 1}, {"A": 1, "B": 2}, {"A": 1, "B": 1, "C": 1}]


@pytest.mark.parametrize(
    ("name", "lost", "again"),
    [("vllm-v1", 10, 11), ("vllm-v1-priority", 10, 11), ("vllm-v1-async", 10, 11), ("vllm-v1-cached", 1, 2)],
)
def test_after_a_step_that_only_preempts_prefills_are_held_anew(name: str, lost: int, again: int) -> None:
    """M = 20: after five batches both hold 10. B decodes, so A's last prompt token is held, and B preempts itself.

    Nobody decodes then: A goes on in the same batch. B, alone, has no threshold, and prefills its 11 tokens at once;
    with caching it lost only the one that A took.
    """
    given = serving(20, request("A", 11, 1), request("B", 10, 2), batch_tokens=40, batch_requests=2, partial=True)
    both: list[tuple[dict[str, int], dict[str, int]]] = [({"A": 2, "B": 2}, {})] * 5
    batches = moves(given, f"{name}:threshold=2,prefill_schedule_interval=2")
    assert batches == [*both, ({"A": 1}, {"B": lost}), ({"B": again}, {})]


@pytest.mark.parametrize(("name", "joins"), [("ratio=0.7", 21), ("ratio=0.5", 19), ("conservativeness=0.5", 18)])
def test_the_share_of_the_limits_that_sglang_keeps_free(name: str, joins: int) -> None:
    """A holds 4 and may generate 9 more. B joins where 4 + 5 + 1 are less than M - 4 - share x 9."""
    a, b = request("A", 4, 9, max_new=10), request("B", 4, 5, 1, max_new=5)
    first = [memory for memory in range(15, 24) if moves(serving(memory, a, b), f"sglang:{name}", 2)[1][0] == {"B": 4}]
    assert first[0] == joins


# --- planned as the batch before starts, by hand -----------------------------------------------------------------


def test_what_happens_in_a_batch_is_seen_one_batch_later() -> None:
    """B comes in batch 0, as batch 1 is planned already: it is in batch 2."""
    given = serving(None, request("A", 2, 4), request("B", 1, 1, 1))
    assert [work for work, _ in moves(given, "vllm-v1")] == [{"A": 2}, {"A": 1, "B": 1}, {"A": 1}, {"A": 1}]
    assert [work for work, _ in moves(given, "vllm-v1-async")] == [{"A": 2}, {"A": 1}, {"A": 1, "B": 1}, {"A": 1}]
    assert [work for work, _ in moves(given, "sglang-overlap")] == [{"A": 2}, {"A": 1}, {"B": 1}, {"A": 1}, {"A": 1}]


def test_one_that_ends_holds_its_memory_for_another_batch() -> None:
    """M = 9: B (5) waits for the 5 of A, which ends in batch 1; C decodes on."""
    given = serving(9, request("A", 4, 2), request("C", 1, 4), request("B", 5, 1))
    assert [work for work, _ in moves(given, "vllm-v1")][2:] == [{"C": 1, "B": 5}, {"C": 1}]
    assert [work for work, _ in moves(given, "vllm-v1-async")][2:] == [{"C": 1}, {"C": 1, "B": 5}]


@pytest.mark.parametrize("name", ["vllm-v1-async", "sglang-overlap"])
def test_an_empty_plan_waits_for_the_end_of_the_batch(name: str) -> None:
    """M = 4: only A's end makes room for B, and no other request runs."""
    given = serving(4, request("A", 2, 2, max_new=2), request("B", 3, 1, max_new=1))
    assert [work for work, _ in moves(given, name)] == [{"A": 2}, {"A": 1}, {"B": 3}]
