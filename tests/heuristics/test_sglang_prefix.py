"""SGLang's scheduler with its radix cache: by hand, and without contents, where it is sglang."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from heuristics import get_policy, run_policy
from heuristics.engine.radix_tree import RadixTree
from kvcore import Instance, Request, verify_schedule
from tests.heuristics.test_compression import serving
from tests.support.build import request
from tests.support.contents import shared, with_contents
from tests.support.few import few
from workloads.own import own

NAMES = ("sglang-fcfs", "sglang-lpm")
TREE = (("x", None, 40), ("y", None, 40))


def batches(on: Instance, name: str) -> list[Any]:
    found = run_policy(on, get_policy(name)).batches
    return [(b.start, b.work, b.forget, b.reuse) for b in found for _ in range(b.repeat)]


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


def test_without_contents_it_is_sglang() -> None:
    ran = 0
    for seed in few(range(90)):
        on = serving(seed)
        theirs, mine = (run_policy(on, get_policy(name)) for name in ("sglang", "sglang-fcfs"))
        both = [[(b.work, b.drop) for b in made.batches for _ in range(b.repeat)] for made in (theirs, mine)]
        assert both[0] == both[1], seed
        ran += len(both[0])
    assert ran > 100


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_whatever_is_shared(name: str) -> None:
    """The referee passes each batch."""
    seen: Counter[str] = Counter()
    for seed in few(range(180)):
        on = own(with_contents(random.Random(seed), serving(seed)))
        made = run_policy(on, get_policy(name))
        verify_schedule(on, made, plain=True)
        seen.update(forgets=any(b.forget for b in made.batches), reuses=any(b.reuse for b in made.batches))
    assert min(seen.values()) > 2, seen


def test_nodes_are_split_where_a_run_ends_and_go_whole() -> None:
    tree = RadixTree()
    assert tree.insert("abcd")[0] == 0
    found, node = tree.walk("abx")
    assert (found, node.key, tree.evictable) == (2, "ab", 4)
    tree.lock(node)
    assert (tree.evictable, tree.evict(1), tree.walk("abcd")[0]) == (2, 2, 2)
    tree.lock(node, -1)
    assert (tree.evict(1), tree.walk("ab")[0], tree.evictable) == (2, 0, 0)
