"""Prefills taken whole: the search and the exhaustive certificate with and without the rule, and where it is wrong."""

import random

import pytest

from kvcore import OBJECTIVES, Cost, CostFunction
from kvcore.certificates.events import find
from kvcore.certificates.splits import whole_prefills
from solvers.search import DOMINANCE, rules, search
from tests.support.build import instance, request
from tests.support.few import few
from tests.support.tiny_instances import tiny_instance
from workloads.builtin import builtin_instance

WITHOUT = tuple(name for name in DOMINANCE if name != "chunks")
COEFFICIENTS = {
    "divisor": (1, 1, 2, 3, 5),
    "busy": (1, 2, 4, 9),
    "any_decode": (0, 0, 2, 6),
    "any_prefill": (0, 0, 1, 4),
    "tokens": (0, 0, 1, 2),
    "generated": (0, 1),
    "decode_requests": (0, 1, 3),
    "prefill_requests": (0, 0, 1, 2, 4),
    "decode_kv": (0, 0, 1, 2),
    "prefill_kv": (0, 0, 1, 2, 4),
    "prefill_pairs": (0, 0, 1),
    "swap_out_tokens": (0, 0, 0, 1),
    "swap_in_tokens": (0, 0, 0, 1),
    "swap_outs": (0, 0, 0, 1),
    "swap_ins": (0, 0, 0, 1),
}
TINY = {
    "requests": (2, 2, 3), "prompt": (1, 2, 3, 4), "chunked": True, "batch_tokens": None, "prefill_tokens": None,
    "host_memory": ("none", "none", "none", "some"), "evict": (False, True, True), "pause": (True, True, False),
    "batch_requests": (None, None, None, 1, 2),
}  # fmt: skip


def drawn(seed):
    """Return a tiny instance with prefills to split and any one cost function, and an objective."""
    draw = random.Random(seed)
    cost = Cost((CostFunction(**{name: draw.choice(values) for name, values in COEFFICIENTS.items()}),))
    if draw.random() < 0.3:
        return tiny_instance(seed, **TINY, calls=(0, 1), decode=(1, 2), duration=(0, 1)).replace(cost=cost), "busy-time"
    tiny = tiny_instance(seed, **TINY, calls=(0, 0, 1), duration=0, arrival=0)
    return tiny.replace(cost=cost), draw.choice(list(OBJECTIVES))


def compared(seeds):
    """Compare optima with the rule and without it; return how many were compared of the search and of the checker."""
    searched = checked = 0
    for seed in seeds:
        tiny, objective = drawn(seed)
        found = rules.valid_rules(tiny, objective)
        by_search, by_checker = found.few_chunks and not found.slots, whole_prefills(tiny, objective)
        if not by_search and not by_checker:
            continue
        best = search(tiny, objective, dominance=WITHOUT)
        assert best.proved
        if by_search:
            outcome = search(tiny, objective)
            assert (outcome.value, outcome.bound) == (best.value, best.value), (seed, objective)
            searched += 1
        frontier = find(tiny, objective, 2000) if by_checker else None
        if frontier is not None:
            assert frontier.bound == best.value if frontier.is_optimum else frontier.bound <= best.value, seed
            checked += frontier.is_optimum
    return searched, checked


def test_whole_prefills_are_enough():
    searched, checked = compared(range(60))
    assert searched >= 15
    assert checked >= 5


@pytest.mark.slow
@pytest.mark.parametrize("first", few(range(1000, 7000, 500), 12))
def test_whole_prefills_are_enough_on_thousands(first):
    searched, checked = compared(range(first, first + 500))
    assert searched >= 150
    assert checked >= 50


def two(first, second, cost, arrival=0, **machine):
    """Return two requests, each a prompt and an output, the first of which may arrive later."""
    costs = tuple(CostFunction(**function) for function in (cost if isinstance(cost, tuple) else (cost,)))
    requests = request("A", *first, arrival=arrival), request("B", *second)
    return instance(*requests, cost=costs, **{"memory": 20, "host_memory": 0} | machine)


NEARLY = {
    # A arrives while B's prompt is in work: all but the chunk that ends then would have to wait.
    "late arrival": (
        two((2, 2), (3, 3), {"busy": 2, "any_prefill": 1, "tokens": 1, "decode_requests": 3, "prefill_pairs": 1}, 5,
            memory=8),
        "total-flow-time", 60, 61,
    ),
    # Tokens up to the knee are cheap in every batch.
    "hinge": (
        two((4, 3), (1, 3), {"busy": 1, "tokens": 1, "tokens_above": {"knee": 1, "coefficient": 3}, "prefill_pairs": 1,
                             "decode_requests": 1, "decode_kv": 2}, memory=6),
        "total-flow-time", 78, 82,
    ),
    # A chunk hides behind what another function counts.
    "two functions": (
        two((4, 3), (4, 1), ({"divisor": 3, "busy": 9, "any_decode": 6, "tokens": 2, "prefill_requests": 4},
                             {"tokens": 1, "prefill_pairs": 1})),
        "makespan", 36, 38,
    ),
    # A chunk fills up what rounding leaves.
    "rounding": (
        two((3, 3), (3, 3), {"divisor": 8, "busy": 1, "any_decode": 2, "any_prefill": 1, "tokens": 5,
                             "decode_requests": 3, "prefill_requests": 1, "prefill_kv": 1}, memory=8),
        "busy-time", 12, 13,
    ),
    # A chunk of B goes out and in, which makes a batch: A is dropped in it, and refills beside the rest of B.
    "refills": (two((1, 2), (3, 1), {"busy": 10, "any_decode": 5}, evict=True), "busy-time", 21, 25),
}  # fmt: skip
"""An instance and an objective where whole prefills are not enough, the optimum, and the value with them alone."""


@pytest.mark.parametrize("name", NEARLY)
def test_where_a_split_is_needed_it_is_tried(name, monkeypatch):
    tiny, objective, best, whole = NEARLY[name]
    assert search(tiny, objective).bound == find(tiny, objective, 1000).bound == best
    assert whole_prefills(tiny, objective) == (name == "refills")
    monkeypatch.setattr(rules, "splitting", lambda instance, objective: "none")
    assert search(tiny, objective).value == whole


def test_four_equal_requests_with_long_prompts_are_certified():
    found = find(builtin_instance("infermax-figure15:I=1024"), "total-flow-time", 20_000)
    assert (found.bound, found.is_optimum) == (824655730, True)
