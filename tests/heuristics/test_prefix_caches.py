"""Engines with a prefix cache: by hand, without contents, whatever is shared, and which blocks go first."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from heuristics import SHARING, Unsuited, get_policy, run_policy, trace_policy
from heuristics.engine.block_cache import BlockCache
from heuristics.engine.radix_tree import RadixTree
from kvbound.comparison import compare
from kvcore import Call, Instance, Machine, Request, Schedule, Segment, verify_schedule
from tests.heuristics.test_compression import serving
from tests.support.build import request
from tests.support.contents import shared, with_contents
from tests.support.few import few
from workloads.own import own

PREFIX = get_policy("vllm-v1-prefix")
SAME = {"sglang-fcfs": "sglang", **{f"vllm-v1-prefix{more}": f"vllm-v1{more}" for more in (
    "", "-priority", "-async", ":watermark=0.1,threshold=3", ":interval=3,seqs=2")}}  # fmt: skip
"""With their twins that have no cache."""


def written_out(made: Schedule) -> list[Any]:
    return [b for each in made.batches for b in [each, *[each.again(-1)] * (each.repeat - 1)]]


def for_vllm(on: Instance, seed: int) -> Instance:
    return on.replace(machine=on.machine.replace(prefill_tokens=None, drop_and_work=seed % 2 > 0))


@pytest.mark.parametrize("name", SAME)
def test_without_contents_it_is_its_twin(name: str) -> None:
    ran = 0
    for seed in few(range(90)):
        on = for_vllm(serving(seed), seed) if "vllm" in name else serving(seed)
        mine, twin = (written_out(run_policy(on, get_policy(each))) for each in (name, SAME[name]))
        assert [(b.work, b.drop) for b in mine] == [(b.work, b.drop) for b in twin], seed
        ran += len(mine)
    assert ran > 100


@pytest.mark.parametrize("name", SHARING)
def test_it_runs_whatever_is_shared(name: str) -> None:
    """The referee passes each batch; in vLLM a request finds its own KV again where all of it is on its path."""
    seen: Counter[str] = Counter()
    for seed in few(range(180)):
        on = serving(seed)
        if "vllm" in name:
            on = for_vllm(on.with_calls_handled("preserve") if seed % 3 == 0 else on, seed)
        on = own(with_contents(random.Random(seed), on))
        if "vllm" in name and not on.machine.same_batch:
            on = on.replace(machine=on.machine.replace(same_batch=True))
        made = run_policy(on, get_policy(name))
        verify_schedule(on, made, plain=True)
        seen.update(forgets=any(b.forget for b in made.batches), reuses=any(b.reuse for b in made.batches))
        if "vllm" in name:
            seen.update(drops=any(b.drop for b in made.batches))
    assert min(seen.values()) > 2, seen


# --- vLLM -------------------------------------------------------------------------------------------------------------
def test_blocks_are_found_until_their_memory_is_taken() -> None:
    """B finds the prefix in the batch that computes it, C takes its memory, and D computes it again."""
    prefix = ("xy", 2)
    on = shared(
        request("A", 5, 1, path=prefix), request("B", 6, 1, path=prefix), request("C", 14, 1, arrival=1),
        request("D", 5, 1, arrival=2, path=prefix), tree=(("xy", None, 2),), block=2, memory=14, evict=True,
    )  # fmt: skip
    found = [(b.start, b.work, b.forget, b.reuse) for b in run_policy(on, PREFIX).batches]
    assert found == [
        (0, {"A": 5, "B": 2}, {}, {"B": 4}), (7, {"C": 14}, {"xy": 2}, {}), (21, {"D": 5}, {}, {}),
    ]  # fmt: skip


def test_a_call_that_preserves_keeps_its_blocks() -> None:
    """A and C come back at 5 with 3 of 8 blocks each. A takes the last; then C, which waits, gives way."""
    call = Call(duration=4, returns=1, handling="preserve")
    a = Request(id="A", prompt=3, segments=(Segment(decode=1, call=call), Segment(decode=3)))
    on = Instance(machine=Machine(memory=8, evict=True), requests=(a, a.replace(id="C")))
    found = [(b.start, b.work, b.drop) for b in run_policy(on, PREFIX).batches if b.start < 9]
    assert found == [
        (0, {"A": 3, "C": 3}, {}), (5, {"A": 2}, {}), (6, {"A": 1}, {"C": 3}), (7, {"A": 1}, {}), (8, {"C": 5}, {}),
    ]  # fmt: skip


@pytest.mark.parametrize(("machine", "why"), [
    ({"same_batch": False}, "it needs a machine with same_batch"),
    ({"evict": False}, "it needs a machine with evict"),
    ({"prefill_tokens": 3}, "it is not made for prefill_tokens"),
])  # fmt: skip
def test_what_it_declines(machine: dict[str, bool], why: str) -> None:
    on = shared(request("A", 5, 1, path=("a", 1)), tree=(("a", None, 1),), memory=9, **{"evict": True} | machine)
    with pytest.raises(Unsuited, match=why):
        run_policy(on, PREFIX)


def test_free_blocks_go_in_their_order() -> None:
    cache = BlockCache(4)
    first, second = cache.take(2), cache.take(1)
    cache.name(first[0], "a")
    cache.name(first[1], "b")
    cache.give(first)
    cache.give(second)  # without a content: it goes first
    assert (cache.free, cache.find("ab"), cache.find("ca")) == (4, [0, 1], [])
    assert cache.take(2) == [2, 3]
    assert cache.take(1) == [1]  # of the first request its last block
    assert (cache.find("b"), cache.find("ab")) == ([], [0])
    cache.hold([0])
    assert cache.free == 0


# --- which blocks a cache forgets first -----------------------------------------------------------------------------

A, B = ("a", 2), ("b", 2)
ON = shared(
    request("A", 5, 1, path=A), request("B", 5, 1, arrival=10, path=B), request("C", 10, 1, arrival=20),
    request("A2", 5, 1, arrival=40, path=A), tree=(("a", None, 2), ("b", None, 2)), block=2, memory=14, evict=True,
)  # fmt: skip
"""C needs five blocks: three are empty, two are a's or b's."""


@pytest.mark.parametrize(("name", "forgets", "reuses"), [
    ("vllm-v1-prefix", {"a": 2}, {}),  # a has been free for longer
    ("vllm-v1-prefix-belady", {"b": 2}, {"A2": 4}),  # nobody needs b
    ("vllm-v1-prefix-tlru:budget=4", {"a": 1, "b": 1}, {"A2": 2}),  # of six tokens two are kept
    ("vllm-v1-prefix-tlru:budget=4,estimate=2", {"a": 2}, {}),  # four: all whole blocks are
    ("vllm-v1-prefix-tlru:budget=9", {"a": 2}, {}),  # none
])  # fmt: skip
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


# --- SGLang -----------------------------------------------------------------------------------------------------------
TREE = (("x", None, 40), ("y", None, 40))


def batches(on: Instance, name: str) -> list[Any]:
    return [(b.start, b.work, b.forget, b.reuse) for b in written_out(run_policy(on, get_policy(name)))]


def one(id: str, prompt: int, node: str, blocks: int, arrival: int = 0) -> Request:
    return request(id, prompt, 1, arrival=arrival, path=(node, blocks)).replace(max_new=1)


def test_a_block_is_found_after_its_batch_and_evicted_with_its_whole_node() -> None:
    """A and B compute x beside each other, D finds it. C lacks 3 blocks, and all 8 of x go: E computes them again."""
    on = shared(
        one("A", 9, "x", 8), one("B", 9, "x", 8), one("D", 9, "x", 8, 1), one("C", 35, "z", 8, 30),
        one("E", 9, "x", 8, 70), tree=(("x", None, 8), ("z", None, 8)), memory=40, evict=True,
    )  # fmt: skip
    assert batches(on, "sglang-fcfs") == [
        (0, {"A": 9, "B": 9}, {}, {}), (18, {"D": 1}, {}, {"D": 8}), (30, {"C": 35}, {"x": 8}, {}),
        (70, {"E": 9}, {}, {}),
    ]  # fmt: skip


def test_the_longest_prefix_goes_first_and_one_computes_for_all() -> None:
    """A leaves x. B and C share y, which nobody has: C waits for B. D finds x, and goes before both."""
    on = shared(
        one("A", 41, "x", 40), one("B", 41, "y", 40, 1), one("C", 42, "y", 40, 1), one("D", 41, "x", 40, 1),
        tree=TREE, memory=400, batch_requests=1, evict=True,
    )  # fmt: skip
    assert [[*work] for _, work, _, _ in batches(on, "sglang-lpm")] == [["A"], ["D"], ["B"], ["C"]]
    assert [[*work] for _, work, _, _ in batches(on, "sglang-fcfs")] == [["A"], ["B"], ["C"], ["D"]]


def test_prefixes_of_the_queue_are_used_in_every_32nd_plan_that_has_one() -> None:
    """Plans that only go on with a cut prompt do not count: D's prefix x stays the longest unused, and goes."""
    on = shared(
        one("A", 9, "x", 8), one("B", 9, "y", 8, 10), one("L", 140, "z", 1, 20), one("D", 9, "x", 8, 100),
        tree=(("x", None, 8), ("y", None, 8), ("z", None, 1)), memory=148, prefill_tokens=4, evict=True,
    )  # fmt: skip
    forgets = [(start, forget) for start, _, forget, _ in batches(on, "sglang-fcfs") if forget]
    assert forgets == [(152, {"x": 4}), (156, {"x": 4})]


def test_nodes_are_split_where_a_run_ends_and_go_whole() -> None:
    tree = RadixTree()
    assert tree.insert("abcd")[0] == 0
    found, node = tree.walk("abx")
    assert (found, node.key, tree.evictable) == (2, "ab", 4)
    tree.lock(node)
    assert (tree.evictable, tree.evict(1), tree.walk("abcd")[0]) == (2, 2, 2)
    tree.lock(node, -1)
    assert (tree.evict(1), tree.walk("ab")[0], tree.evictable) == (2, 0, 0)
