"""Prefills taken whole: the search of the checker with and without the rule, and where it would be wrong."""

import random

import pytest

from kvcore import OBJECTIVES, Cost, CostFunction, objective_value, verify_schedule
from kvcore.certificates import events
from kvcore.certificates.splits import whole_prefills
from solvers.exact import exact
from tests.support.boundaries import find
from tests.support.build import instance, request
from tests.support.drawer import tiny_instance
from tests.support.few import few
from workloads.builtin import builtin_instance

COEFFICIENTS = {
    "divisor": (1, 1, 2, 3, 5), "busy": (1, 2, 4, 9), "any_decode": (0, 0, 2, 6), "any_prefill": (0, 0, 1, 4),
    "tokens": (0, 0, 1, 2), "generated": (0, 1), "decode_requests": (0, 1, 3), "prefill_requests": (0, 0, 1, 2, 4),
    "decode_kv": (0, 0, 1, 2), "prefill_kv": (0, 0, 1, 2, 4), "prefill_pairs": (0, 0, 1),
    "swap_out_tokens": (0, 0, 0, 1), "swap_in_tokens": (0, 0, 0, 1), "swap_outs": (0, 0, 0, 1),
    "swap_ins": (0, 0, 0, 1),
}  # fmt: skip
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


def without(monkeypatch):
    """Return a search that tries every split."""

    def search(tiny, objective):
        with monkeypatch.context() as patch:
            patch.setattr(events, "whole_prefills", lambda instance, objective: False)
            return find(tiny, objective, 200_000)

    return search


def compared(seeds, monkeypatch):
    """Compare optima with the rule and without it; return how many searches with it ended."""
    ended, all_splits = 0, without(monkeypatch)
    for seed in seeds:
        tiny, objective = drawn(seed)
        if not whole_prefills(tiny, objective):
            continue
        best, found = all_splits(tiny, objective), find(tiny, objective, 2000)
        assert best.is_optimum, (seed, objective)
        assert found.bound == best.bound if found.is_optimum else found.bound <= best.bound, (seed, objective)
        assert found.schedule is None or worth(tiny, objective, found.schedule) == best.bound
        ended += found.is_optimum
    return ended


def worth(tiny, objective, schedule):
    return objective_value(verify_schedule(tiny, schedule), objective)


def test_whole_prefills_are_enough(monkeypatch):
    seeds = few(range(6000), 6)
    assert compared(seeds, monkeypatch) >= len(seeds) // 10


def two(first, second, cost, arrival=0, **machine):
    """Return two requests, each a prompt and an output, the first of which may arrive later."""
    costs = tuple(CostFunction(**function) for function in (cost if isinstance(cost, tuple) else (cost,)))
    requests = request("A", *first, arrival=arrival), request("B", *second)
    return instance(*requests, cost=costs, **{"memory": 20, "host_memory": 0} | machine)


NEARLY = {
    # A arrives while B's prompt is in work: all but the chunk that ends then would have to wait.
    "late arrival": (
        two((1, 3), (4, 2), {"busy": 2, "any_decode": 6, "decode_requests": 1, "prefill_pairs": 1}, 8, memory=10),
        "total-ttft", 28, 29,
    ),
    # Tokens up to the knee are cheap in every batch.
    "hinge": (
        two((4, 3), (1, 3), {"busy": 1, "tokens": 1, "tokens_above": {"knee": 1, "coefficient": 3}, "prefill_pairs": 1,
                             "decode_requests": 1, "decode_kv": 2}, memory=6),
        "total-flow-time", 78, 80,
    ),
    # A chunk hides behind what another function counts.
    "two functions": (
        two((4, 3), (4, 1), ({"divisor": 3, "busy": 9, "any_decode": 6, "tokens": 2, "prefill_requests": 4},
                             {"tokens": 1, "prefill_pairs": 1})),
        "makespan", 36, 38,
    ),
    # A chunk fills up what rounding leaves.
    "rounding": (two((1, 3), (4, 1), {"divisor": 5, "busy": 2, "tokens": 1}), "total-flow-time", 5, 6),
    # A chunk of B goes out and in, which makes a batch: A is dropped in it, and refills beside the rest of B.
    "refills": (two((1, 2), (3, 1), {"busy": 10, "any_decode": 5}, evict=True), "busy-time", 21, 21),
}  # fmt: skip
"""An instance and an objective where whole prefills are not enough, the optimum, and what the rule would say."""


@pytest.mark.parametrize("name", NEARLY)
def test_where_a_split_is_needed_it_is_tried(name, monkeypatch):
    tiny, objective, best, whole = NEARLY[name]
    result = exact(tiny, objective)
    assert (result.status, result.value, find(tiny, objective, 1000).bound) == ("optimal", best, best)
    assert whole_prefills(tiny, objective) == (name == "refills")
    monkeypatch.setattr(events, "whole_prefills", lambda instance, objective: True)
    assert find(tiny, objective, 1000).bound == whole


def test_four_equal_requests_with_long_prompts_are_certified():
    found = find(builtin_instance("infermax-figure15:I=1024"), "total-flow-time", 20_000)
    assert (found.bound, found.is_optimum) == (824655730, True)
