"""Coarsening: `restrict` schedules are carried out finely, and `relax` never rounds against the schedule."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvcore import (
    BadInput,
    Batch,
    Cost,
    CostFunction,
    Instance,
    InvalidSchedule,
    Machine,
    Schedule,
    Slo,
    objective_value,
    verify_schedule,
)
from kvcore.coarsen import coarsen, fine_bound, lift
from kvcore.files import parse
from tests.fuzz.case import looked_at
from tests.fuzz.coarsening import HARD, PART
from tests.support.build import batch, instance, request, schedule
from tests.support.coarse_instances import fine_for_restrict
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.projection import project

ONE = request("A", 9, 6)

# --- restrict --------------------------------------------------------------------------------------------------------


def test_schedules_are_carried_out_finely_and_are_above_no_bound() -> None:
    """Random ones, and optima: among them enough of what is hard, and enough that are compared with the optimum."""
    seen = looked_at(PART, few(range(2800), 10))
    assert min(seen[f"{direction} against the optimum"] for direction in ("relax", "restrict")) >= 30, seen
    assert min(seen[what] for what in HARD) >= 5, seen


def test_restrict_by_hand() -> None:
    """Blocks of 4: prompt 9 is 3 blocks; 6 tokens are the one that ends the prefill, and 5 more in 2 blocks."""
    fine = instance(request("A", 9, (6, 5, 7, "preserve"), 1, arrival=3), memory=50, host_memory=11, batch_tokens=6)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="restrict")
    expected = request("A", 3, (3, 2, 1, "preserve"), 1, arrival=1)
    assert coarse.requests == (expected,)
    assert (coarse.machine.memory, coarse.machine.host_memory, coarse.machine.batch_tokens) == (12, 2, 6)
    batches = [batch(1, A=3), batch(2, A=1), batch(3, A=1), batch(6, A=2)]
    trace = verify_schedule(fine, lift(schedule(coarse, *batches), fine, coarse))
    assert [item.start for item in trace.batches] == [4, 5, 7, 8, 9, 10, 11, 15, 24, 25, 27]
    assert trace.requests[0].calls[0].start == 16
    assert trace.requests[0].completion == 28


def test_headroom_lets_decodes_follow_a_prefill_within_its_slot() -> None:
    fine = instance(request("A", 7, (4, 5, 0, "preserve"), 4), memory=50, batch_tokens=8)
    coarse = coarsen(fine, block_tokens=8, slot_ticks=8, direction="restrict", headroom_ticks=3)
    assert coarse.requests == (request("A", 2, (1, 1, 0, "preserve"), 1),)
    assert coarse.machine.batch_tokens == 5  # 8 tokens in each of the 5 ticks before the headroom are 5 blocks
    trace = verify_schedule(fine, lift(schedule(coarse, batch(0, A=2), batch(2, A=1)), fine, coarse))
    assert [call.start for call in trace.requests[0].calls] == [8]
    assert trace.requests[0].completion == 20  # the last slot works at once: 1 token known, then 3 more, from tick 16


def test_a_prefill_that_starts_a_run_counts_to_the_prefill_budget() -> None:
    fine = instance(request("A", 1, 1), request("B", 5, 1), prefill_tokens=2)
    coarse = coarsen(fine, block_tokens=2, slot_ticks=2, direction="restrict")
    assert coarse.machine.prefill_tokens == 2
    trace = verify_schedule(fine, lift(schedule(coarse, batch(0, A=1, B=1), batch(1, B=2)), fine, coarse))
    assert [batch.work for batch in trace.schedule.batches] == [{"A": 1, "B": 1}, {"B": 1}, {"B": 2}, {"B": 1}]


def test_an_ordered_move_follows_the_call_at_once() -> None:
    fine = instance(request("A", 3, (2, 9, 0, "discard"), 1), request("B", 1, 9), memory=40)
    coarse = coarsen(fine, block_tokens=2, slot_ticks=2, direction="restrict")
    a, b = coarse.request("A"), coarse.request("B")
    assert (a.prompt, a.segments[0].decode, b.segments[0].decode) == (2, 2, 5)
    batches = [batch(0, A=2, B=1), batch(1, A=1, B=1), batch(2, drop={"A": 3}, B=1), batch(3, B=1), batch(4, B=1),
               batch(7, A=4)]  # fmt: skip
    trace = verify_schedule(fine, lift(schedule(coarse, *batches), fine, coarse))
    assert trace.schedule.batches[trace.requests[0].calls[0].batch + 1].drop == {"A": 4}


def test_a_slot_has_room_to_refill_what_was_evicted() -> None:
    """Of the 8 ticks of a slot one refills, and up to 8 decode, the first of them in the tick that refills."""
    fine = instance(request("A", 9, 20), request("B", 30, 4), memory=40, batch_tokens=64, evict=True)
    coarse = coarsen(fine, block_tokens=8, slot_ticks=8, direction="restrict")
    assert coarse.coarsening.headroom_ticks == 7
    assert (coarse.machine.evict, coarse.machine.batch_tokens) == (True, 64 // 8)
    assert (coarse.request("A"), coarse.request("B")) == (request("A", 2, 3), request("B", 5, 1))
    batches = [batch(0, A=2), batch(1, A=1), batch(2, drop={"A": 3}, B=5), batch(3, A=4)]
    trace = verify_schedule(fine, lift(schedule(coarse, *batches), fine, coarse))
    refill = [(trace.batches[step.batch].start, step.tokens, step.recomputed) for step in trace.requests[0].steps[-5:]]
    assert refill == [(24, 24, 24), (28, 1, 0), (29, 1, 0), (30, 1, 0), (31, 1, 0)]


def test_the_room_to_refill_is_what_the_budgets_need() -> None:
    for tokens, ticks, decode in ((64, 7, 3), (8, 7, 3), (4, 6, 3), (3, 5, 4), (1, 0, 20)):
        fine = instance(request("A", 9, 20), batch_tokens=tokens, evict=True)
        coarse = coarsen(fine, block_tokens=8, slot_ticks=8, direction="restrict")
        assert coarse.coarsening.headroom_ticks == ticks
        assert coarse.machine.batch_tokens >= 1
        assert coarse.request("A").output == decode


# --- relax -----------------------------------------------------------------------------------------------------------


def test_requests_shorter_than_a_slot_share_it() -> None:
    fine = instance(*[request(id, 1, 1) for id in "ABCD"], memory=4)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    assert coarse.machine.memory == 1 + 4
    assert fine_bound(coarse, "total-flow-time", exhaustive_optimum(coarse, "total-flow-time")[0]) == 4


def test_prompts_shorter_than_a_block_share_memory() -> None:
    fine = instance(request("A", 1, 4), request("B", 1, 4), memory=5)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    exact, below = (exhaustive_optimum(of, "total-flow-time")[0] for of in (fine, coarse))
    assert exact == 4 + 7
    assert fine_bound(coarse, "total-flow-time", below) == 4 + 4


def test_a_part_of_a_block_on_the_host_counts_as_a_block() -> None:
    """A holds 5 tokens at its call, drops one and swaps out one: 3 on the device are one block of 2, so one is out."""
    fine = instance(request("A", 4, (2, 6, 0, "free"), 2), request("B", 2, 8), host_memory=1, partial=True)
    batches = [batch(0, A=4, B=2), batch(1, A=1, B=1), batch(2, drop={"A": 1}, out={"A": 1}, B=1)]
    batches += [batch(tick, B=1) for tick in range(3, 8)] + [batch(8, back={"A": 1}, A=2), batch(9, A=1)]
    coarse = coarsen(fine, block_tokens=2, slot_ticks=2, direction="relax")
    assert coarse.machine.host_memory == (1 + 2) // 2
    trace = verify_schedule(coarse, project(schedule(fine, *batches), fine, coarse))
    assert trace.batches[1].host == 1


def test_relax_by_hand() -> None:
    """Blocks of 4: segments of 3 tokens and the time around them become parts of calls and offsets."""
    fine = instance(
        request("A", 9, (3, 5, 2, "free"), (6, 5, 7, "preserve"), (3, 4, 1, "preserve"), (9, 3, 0, "free"), 2,
                arrival=3),
        request("B", 4, 5, arrival=2, weight=3),
        request("C", 2, 3, arrival=1),
        memory=51, host_memory=11, batch_tokens=6,
    )  # fmt: skip
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    a = request("A", 3, (1, 3, 3, "preserve"), 2, arrival=2)  # call: 2 left over, 5, 3 decoded, 4; context 31 of 4
    assert coarse.requests == (a, request("B", 1, 1, weight=3), request("C", 1, 1))
    assert coarse.machine == Machine(memory=13, host_memory=3)
    grid = coarse.coarsening
    assert grid.completion_offset == {"A": 6, "B": 1, "C": 0}  # A: 1 left over, 3 for the call, 2; C: 1 + 3 - 4
    assert grid.flow_offset == {"A": 6 + 8 - 3, "B": 1 + 0 - 2, "C": 0 + 0 - 1}
    assert fine_bound(coarse, "total-flow-time", 10) == 40 + 11 - 1 - 1
    assert fine_bound(coarse, "weighted-flow-time", 10) == 40 + 11 - 3 - 1
    assert fine_bound(coarse, "max-flow-time", 10) == 40 - 1
    assert fine_bound(coarse, "makespan", 10) == 40


@pytest.mark.parametrize(
    ("before", "after", "together"),
    [
        ("preserve", "preserve", "preserve"),
        ("preserve", "discard", "discard"),
        ("swap", "discard", "discard"),
        ("discard", "preserve", "free"),
        ("preserve", "swap", "free"),
        ("free", "preserve", "free"),
    ],
)
def test_calls_that_become_one_are_handled_as_the_kv_allows(before: str, after: str, together: str) -> None:
    fine = instance(request("A", 4, (4, 1, 0, before), (3, 1, 0, after), 4))
    assert coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax").requests[0].calls[0].handling == together


def test_pages_that_are_no_multiple_of_the_block_are_left_out_by_relax() -> None:
    for page, coarse_page in ((1, 1), (3, 1), (4, 1), (6, 1), (8, 2)):
        fine = instance(ONE, memory=120, block=page)
        assert coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax").machine.block == coarse_page


def test_requests_take_turns_within_a_slot_where_kv_is_evicted() -> None:
    """Three requests of a slot each, of which two fit, end within one slot and a half: each waits two of six ticks."""
    requests = [request(id, 8, 4) for id in "ABC"]
    fine = instance(*requests, memory=22, host_memory=0, batch_tokens=16, evict=True)
    turns = [batch(0, A=8, B=8), batch(1, A=1, B=1), batch(2, drop={"B": 9}, A=1, C=8), batch(3, A=1, C=1),
             batch(4, B=10, C=1), batch(5, B=1, C=1)]  # fmt: skip
    trace = verify_schedule(fine, schedule(fine, *turns))
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    assert coarse.machine == Machine(memory=(22 + 16 * 3) // 4, evict=True)
    assert verify_schedule(coarse, project(trace.schedule, fine, coarse))
    bound = fine_bound(coarse, "makespan", exhaustive_optimum(coarse, "makespan")[0])
    assert bound <= objective_value(trace, "makespan") == 6
    one = coarse.replace(machine=coarse.machine.replace(memory=22 // 4))  # that of one tick proves too much
    assert fine_bound(one, "makespan", exhaustive_optimum(one, "makespan")[0]) == 8


@pytest.mark.parametrize(("changes", "memory"), [
    ({"host_memory": 6}, (22 + 6 + 16 * 3) // 4), ({"host_memory": None}, None), ({"batch_tokens": None}, None),
    ({"memory": None}, None),
])  # fmt: skip
def test_what_takes_turns_is_on_the_device_on_the_host_or_processed_in_the_slot(changes, memory) -> None:
    limits = {"memory": 22, "host_memory": 0, "batch_tokens": 16, "evict": True} | changes
    fine = instance(request("A", 8, (4, 1, 0, "preserve"), 4), **limits)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    assert coarse.machine.memory == memory
    assert coarse.requests[0].calls[0].handling == "free"
    assert coarsen(fine, block_tokens=1, slot_ticks=1, direction="relax").machine.memory == limits["memory"]


def test_relax_rounds_budgets_up_where_no_segment_is_merged() -> None:
    fine = instance(request("A", 9, 8), request("B", 5, 4), memory=40, host_memory=0, batch_tokens=6, prefill_tokens=2)
    machine = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax").machine
    assert (machine.batch_tokens, machine.prefill_tokens) == ((24 + 2 * 9) // 4, (8 + 2 * 10) // 4)
    assert (machine.memory, machine.host_memory) == (10, 0)
    longer = coarsen(fine, block_tokens=2, slot_ticks=4, direction="relax").machine
    assert longer.batch_tokens is None


def test_relax_at_blocks_and_slots_of_one_changes_nothing_but_swaps() -> None:
    fine = instance(request("A", 3, (2, 3, 1, "discard"), 2), request("B", 1, 4, arrival=2), memory=9, host_memory=2)
    coarse = coarsen(fine, block_tokens=1, slot_ticks=1, direction="relax")
    assert coarse.replace(coarsening=None) == fine
    assert fine_bound(coarse, "total-flow-time", 17) == 17


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["relax", "restrict"])
def test_freeing_the_calls_and_coarsening_commute(direction: str) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        fine, _ = fine_for_restrict(draw, {"block_tokens": 3, "slot_ticks": 3}, [1, 2, 3], [0, 1, 2], 9)
        grid: dict[str, Any] = {"block_tokens": 3, "slot_ticks": 3, "direction": direction}
        assert coarsen(fine, **grid).with_free_calls() == coarsen(fine.with_free_calls(), **grid)


@pytest.mark.parametrize("direction", ["relax", "restrict"])
@pytest.mark.parametrize("evict", [False, True])
def test_the_output_limit_is_rounded_as_an_output_of_that_length(direction: str, evict: bool) -> None:
    for limit in (7, 8, 9, 15, 16, 40, 10**9):
        of = [
            request("A", 9, (6, 5, 7, "free"), 1, max_new=limit),
            request("B", 9, min(limit, 200)),
            request("C", 9, 2),
        ]
        fine = instance(*of, memory=500, evict=evict)
        for block, slot in ((4, 4), (3, 4), (5, 4)):
            coarse = coarsen(fine, block_tokens=block, slot_ticks=slot, direction=direction)
            a, b, c = coarse.requests
            assert c.max_new is None
            assert a.max_new == b.output if limit < 200 else a.max_new > b.output
            assert parse(Instance, coarse.to_json(), "file") == coarse


@pytest.mark.parametrize("direction", ["relax", "restrict"])
def test_the_file_keeps_the_coarsening(direction: str) -> None:
    fine = instance(request("A", 9, (6, 5, 7, "free"), 1, arrival=3), memory=50)
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction=direction)
    assert parse(Instance, coarse.to_json(), "file") == coarse
    assert coarse.tick_seconds == 4


def test_nothing_is_proved_for_other_objectives_nor_by_restrict() -> None:
    fine = instance(request("A", 9, 6), memory=50)
    relaxed = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    for objective in ("busy-time", "total-ttft", "late-requests", "normalized-latency"):
        assert fine_bound(relaxed, objective, 3) is None
    restricted = coarsen(fine, block_tokens=4, slot_ticks=4, direction="restrict")
    assert fine_bound(restricted, "makespan", 3) is None


# --- what is refused -------------------------------------------------------------------------------------------------

HINGE = (CostFunction(busy=1, decode_requests=1),)


@pytest.mark.parametrize(
    ("fine", "changes", "message"),
    [
        (instance(ONE), {"direction": "up"}, "relax or restrict, not 'up'"),
        (instance(ONE), {"block_tokens": 0}, "block_tokens is from 1 to 10.9, not 0"),
        (instance(ONE), {"slot_ticks": -4}, "slot_ticks is from 1 to 10.9, not -4"),
        (instance(ONE), {"headroom_ticks": 4}, "headroom_ticks is from 0 to 3 .*, not 4"),
        (instance(ONE), {"direction": "relax", "headroom_ticks": 1}, "headroom_ticks has no meaning for relax"),
        (instance(ONE, cost=HINGE), {}, r"only instances whose batches all last one tick \(unit cost\)"),
        (instance(ONE.replace(slo=Slo(latency=3))), {}, "request A has SLOs, which have no coarse form"),
        (instance(ONE, chunked=False), {}, "restrict is proved only for a machine with chunked"),
        (instance(ONE, hybrid=False), {}, "restrict is proved only for a machine with hybrid"),
        (instance(ONE, pause=False), {}, "restrict is proved only for a machine with pause"),
        (instance(ONE, memory=15, block=3), {}, "block of 3 tokens neither divides 4 nor is a multiple"),
        (instance(request("A", 1, 1), memory=3), {}, "memory of 3 tokens is less than one block of 4"),
        (
            instance(ONE, batch_tokens=1),
            {"headroom_ticks": 1},
            "batch_tokens of 1 is less than one block of 4",
        ),
        (instance(ONE, prefill_tokens=1), {"headroom_ticks": 1}, "prefill_tokens of 1 is less than one block"),
        (instance(ONE, memory=16), {}, "coarsened to blocks of 4: request A can never fit: .* needs 5 tokens"),
    ],
)
def test_what_is_not_proved_is_refused(fine: Instance, changes: dict, message: str) -> None:
    grid = {"block_tokens": 4, "slot_ticks": 4, "direction": "restrict"} | changes
    with pytest.raises(BadInput, match=message):
        coarsen(fine, **grid)


def test_only_fine_instances_are_coarsened_and_only_coarse_ones_bound() -> None:
    fine = instance(ONE)
    coarse = coarsen(fine, block_tokens=2, slot_ticks=2, direction="relax")
    with pytest.raises(BadInput, match="is coarse already"):
        coarsen(coarse, block_tokens=2, slot_ticks=2, direction="relax")
    with pytest.raises(BadInput, match="was not coarsened"):
        fine_bound(fine, "makespan", 3)
    with pytest.raises(BadInput, match="no objective is called 'speed'"):
        fine_bound(coarse, "speed", 3)
    bare = coarse.replace(coarsening=coarse.coarsening.replace(flow_offset={}))
    with pytest.raises(BadInput, match="must give the offsets of every request"):
        fine_bound(bare, "makespan", 3)


def test_only_schedules_of_its_own_restrict_instance_are_lifted() -> None:
    fine, other = instance(ONE), instance(request("A", 10, 6))
    coarse = coarsen(fine, block_tokens=4, slot_ticks=4, direction="restrict")
    relaxed = coarsen(fine, block_tokens=4, slot_ticks=4, direction="relax")
    whole = schedule(coarse, batch(0, A=3), batch(1, A=1), batch(2, A=1))
    assert verify_schedule(fine, lift(whole, fine, coarse)).requests[0].completion == 9
    with pytest.raises(BadInput, match="is no restrict coarsening"):
        lift(whole, fine, relaxed)
    with pytest.raises(BadInput, match="is not the coarsening of"):
        lift(whole, instance(request("A", 13, 6)), coarse)
    with pytest.raises(InvalidSchedule, match="R11"):
        lift(Schedule(instance_sha256=coarse.sha256, batches=(Batch(start=0, work={"A": 3}),)), fine, coarse)
    assert lift(whole, other, coarsen(other, block_tokens=4, slot_ticks=4, direction="restrict"))


def test_any_cost_of_one_tick_is_unit() -> None:
    halves = (CostFunction(divisor=2, busy=1, any_decode=1),)
    coarse = coarsen(instance(ONE, cost=halves), block_tokens=4, slot_ticks=4, direction="relax")
    assert coarse.cost == Cost.unit()
