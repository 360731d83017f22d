"""Two requests at a time: what their contexts forbid, by hand; never above the optimum; and the second checker."""

import pytest

import kvbound as kv
from kvcore import Call, Instance, Machine, Request, Segment
from kvcore.certificates import InvalidCertificate, Pairs, pairs
from kvcore.metrics import SUMS
from tests.support.drawer import tiny_instance

FLOW = "total-flow-time"


def instance(*requests, **machine):
    return Instance(machine=Machine(**{"memory": 6, "host_memory": 0, **machine}), requests=requests)


def request(id, prompt, *decodes, arrival=0, call=0):
    calls = [Call(duration=call)] * (len(decodes) - 1) + [None]
    segments = tuple(Segment(decode=d, call=c) for d, c in zip(decodes, calls, strict=True))
    return Request(id=id, prompt=prompt, segments=segments, arrival=arrival)


def test_by_hand():
    """Prompts of 2 and four outputs: together contexts of 3 fit into 6, and of 4 and 5 do not."""
    two = instance(request("A", 2, 4), request("B", 2, 4))
    assert Pairs().value(two, FLOW) == 4 + 6
    assert kv.solve(two).value >= 10
    assert Pairs().value(two.replace(machine=two.machine.replace(memory=10)), FLOW) == 8
    assert Pairs().value(two.replace(machine=two.machine.replace(memory=20, batch_requests=1)), FLOW) == 4 + 8


def test_the_other_works_in_calls():
    """A has a context of 5 before and after a call of 3 ticks, in which B ends."""
    two = instance(request("A", 5, 1, 1, call=3), request("B", 4, 2), memory=7)
    assert Pairs().value(two, FLOW) == 5 + 3
    assert Pairs().value(two.replace(requests=(two.requests[0], request("B", 4, 2, arrival=4))), FLOW) == 5 + 3


def test_of_three_each_is_in_two_pairs():
    three = instance(*(request(id, 3, 1) for id in "ABC"), memory=5)
    assert Pairs().value(three, FLOW) == -(-3 * (1 + 2) // 2)


def test_the_heavier_may_end_before_the_other_begins():
    """Memory for one: the prompt of A, of two tokens, before B's one costs 1 + 2 * 2; behind it 2 + 2 * 1."""
    two = instance(request("A", 2, 1), request("B", 1, 1), memory=2)
    heavy = two.requests[1].replace(weight=2)
    assert Pairs().value(two.replace(requests=(two.requests[0], heavy)), "weighted-flow-time") == 2 + 2 * 1


def test_contexts_beyond_all_memory_of_this_world_are_still_compared():
    huge = [request(id, 4 * 10**14, 1) for id in "AB"]
    for memory, value in ((8 * 10**14, 2), (8 * 10**14 - 1, 3), (None, 2)):
        assert Pairs().value(instance(*huge, memory=memory), FLOW) == value


@pytest.mark.parametrize(("changes", "objective", "message"), [
    ({}, "makespan", "pairs is not proved with makespan"),
    ({"requests": (request("A", 1, 1),)}, FLOW, "two requests"),
    ({"requests": (request("A", 1, 10**6), request("B", 1, 10**6))}, FLOW, "too long"),
    ({"cost": kv.Cost((kv.CostFunction(busy=2),))}, FLOW, "pairs is not proved with batches of several ticks"),
])  # fmt: skip
def test_what_it_declines(changes, objective, message):
    two = instance(request("A", 1, 1), request("B", 1, 1), memory=None).replace(**changes)
    with pytest.raises(InvalidCertificate, match=message):
        Pairs().value(two, objective)


def test_ticks_are_counted_before_they_are_laid_out():
    for seed in range(60):
        tiny = tiny_instance(seed, cost="unit")
        for objective in SUMS:
            for one in tiny.requests:
                assert pairs._size(tiny, one, objective) == sum(ticks for _, ticks in pairs._runs(tiny, one, objective))
