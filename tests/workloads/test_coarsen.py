"""Coarsening: lengths are rounded up, limits down, and what has no coarse form is refused."""

import pytest

from kvcore import BadInput, Cost, CostFunction, Instance, Slo
from kvcore.files import parse
from kvcore.instance import KvLayout
from tests.support.build import instance, request
from workloads.coarsen import coarsen

ONE = request("A", 9, 6)


def test_rounding_by_hand():
    """Blocks of 4: prompt 9 is 3 blocks; 6 tokens are the one that ends the prefill, and 5 more in 2 blocks."""
    fine = instance(request("A", 9, (6, 5, 7, "preserve"), 1, arrival=3), memory=50, host_memory=11, batch_tokens=6)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4)
    expected = request("A", 3, (3, 2, 1, "preserve"), 1, arrival=1)
    assert coarse.requests == (expected,)
    assert (coarse.machine.memory, coarse.machine.host_memory, coarse.machine.batch_tokens) == (12, 2, 6)


def test_headroom_lets_decodes_follow_a_prefill_within_its_slot():
    fine = instance(request("A", 7, (4, 5, 0, "preserve"), 4), memory=50, batch_tokens=8)
    coarse = coarsen(fine, block_tokens=8, slot_ticks=8, headroom_ticks=3)
    assert coarse.requests == (request("A", 2, (1, 1, 0, "preserve"), 1),)
    assert coarse.machine.batch_tokens == 5  # 8 tokens in each of the 5 ticks before the headroom are 5 blocks


def test_a_slot_has_room_to_refill_what_was_evicted():
    """Of the 8 ticks of a slot one refills, and up to 8 decode, the first of them in the tick that refills."""
    fine = instance(request("A", 9, 20), request("B", 30, 4), memory=40, batch_tokens=64, evict=True)
    coarse = coarsen(fine, block_tokens=8, slot_ticks=8)
    assert coarse.coarsening.headroom_ticks == 7
    assert (coarse.machine.evict, coarse.machine.batch_tokens) == (True, 64 // 8)
    assert (coarse.request("A"), coarse.request("B")) == (request("A", 2, 3), request("B", 5, 1))


def test_the_room_to_refill_is_what_the_budgets_need():
    for tokens, ticks, decode in ((64, 7, 3), (8, 7, 3), (4, 6, 3), (3, 5, 4), (1, 0, 20)):
        fine = instance(request("A", 9, 20), batch_tokens=tokens, evict=True)
        coarse = coarsen(fine, block_tokens=8, slot_ticks=8)
        assert coarse.coarsening.headroom_ticks == ticks
        assert coarse.machine.batch_tokens >= 1
        assert coarse.request("A").output == decode


def test_the_last_block_of_a_prefill_is_one_known_token_where_phases_matter():
    for prefill, prompt in ((None, 2), (4, 3)):
        fine = instance(request("A", 7, 5), batch_tokens=8, prefill_tokens=prefill)
        assert coarsen(fine, block_tokens=4, slot_ticks=8, headroom_ticks=1).request("A").prompt == prompt


def test_freeing_the_calls_and_coarsening_commute():
    calls = [(tokens, tokens, 9 - tokens, way) for tokens, way in ((2, "preserve"), (6, "swap"), (7, "discard"))]
    fine = instance(request("A", 5, *calls, 4), memory=60)
    grid = {"block_tokens": 3, "slot_ticks": 3}
    assert coarsen(fine, **grid).with_free_calls() == coarsen(fine.with_free_calls(), **grid)


@pytest.mark.parametrize("evict", [False, True])
def test_the_output_limit_is_rounded_as_an_output_of_that_length(evict):
    for limit in (7, 8, 9, 15, 16, 40, 10**9):
        of = [
            request("A", 9, (6, 5, 7, "free"), 1, max_new=limit), request("B", 9, min(limit, 200)), request("C", 9, 2),
        ]  # fmt: skip
        fine = instance(*of, memory=500, evict=evict)
        for block, slot in ((4, 4), (3, 4), (5, 4)):
            coarse = coarsen(fine, block_tokens=block, slot_ticks=slot)
            a, b, c = coarse.requests
            assert c.max_new is None
            assert a.max_new == b.output if limit < 200 else a.max_new > b.output
            assert parse(Instance, coarse.to_json(), "file") == coarse


def test_the_file_keeps_the_coarsening():
    fine = instance(request("A", 9, (6, 5, 7, "free"), 1, arrival=3), memory=50)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4)
    assert parse(Instance, coarse.to_json(), "file") == coarse
    assert coarse.tick_seconds == 4


# --- what is refused -------------------------------------------------------------------------------------------------

HINGE = (CostFunction(busy=1, decode_requests=1),)


@pytest.mark.parametrize(("fine", "changes", "message"), [
    (instance(ONE), {"block_tokens": 0}, "block_tokens is from 1 to 10.9, not 0"),
    (instance(ONE), {"slot_ticks": -4}, "slot_ticks is from 1 to 10.9, not -4"),
    (instance(ONE), {"headroom_ticks": 4}, "headroom_ticks is from 0 to 3 .*, not 4"),
    (instance(ONE, cost=HINGE), {}, r"only instances whose batches all last one tick \(unit cost\)"),
    (instance(ONE.replace(slo=Slo(latency=3))), {}, "request A has SLOs, which have no coarse form"),
    (instance(ONE, chunked=False), {}, "only a machine with chunked is coarsened"),
    (instance(ONE, hybrid=False), {}, "only a machine with hybrid is coarsened"),
    (instance(ONE, pause=False), {}, "only a machine with pause is coarsened"),
    (instance(ONE, drop_and_work=True), {}, "only a machine without drop_and_work is coarsened"),
    (instance(ONE, layout=KvLayout(state=1)), {}, "a layout of KV has no coarse form"),
    (instance(ONE, memory=15, block=3), {}, "block of 3 tokens neither divides 4 nor is a multiple"),
    (instance(request("A", 1, 1), memory=3), {}, "memory of 3 tokens is less than one block of 4"),
    (instance(ONE, batch_tokens=1), {"headroom_ticks": 1}, "batch_tokens of 1 is less than one block of 4"),
    (instance(ONE, prefill_tokens=1), {"headroom_ticks": 1}, "prefill_tokens of 1 is less than one block"),
    (coarsen(instance(ONE), block_tokens=2, slot_ticks=2), {}, "is coarse already"),
    (instance(ONE, memory=16), {}, "coarsened to blocks of 4: request A can never fit: .* needs 5 tokens"),
])  # fmt: skip
def test_what_has_no_coarse_form_is_refused(fine, changes, message):
    grid = {"block_tokens": 4, "slot_ticks": 4} | changes
    with pytest.raises(BadInput, match=message):
        coarsen(fine, **grid)


def test_any_cost_of_one_tick_is_unit():
    halves = (CostFunction(divisor=2, busy=1, any_decode=1),)
    coarse = coarsen(instance(ONE, cost=halves), block_tokens=4, slot_ticks=4)
    assert coarse.cost == Cost.unit()
