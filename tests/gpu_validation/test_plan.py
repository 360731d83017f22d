"""The plan of a replay: who holds which block, what moves, and who waits for which transfer."""

import random

import numpy as np
import pytest

from gpu_validation.allocator import Allocator, Blocks, Piece
from gpu_validation.plan import Mismatch, make_plan, synthetic_plan
from gpu_validation.scenarios import WAYS, laid_out, workload
from gpu_validation.swap import runs
from tests.support.build import batch, instance, request, schedule
from tests.support.drawer import draw_instance
from tests.support.random_schedules import random_schedule, random_trace


def moved(pieces):
    return sum(piece.last - piece.first for piece in pieces)


def assert_sound(plan):
    """No slot is written twice in a batch, no block is in two tables, and everything lies in the pools."""
    for planned in plan.batches:
        slots = planned.slots(plan.block)
        assert len(set(slots.tolist())) == len(slots)
        blocks = [block for work in planned.work for block in work.table]
        assert len(set(blocks)) == len(blocks)
        assert all(0 <= block < plan.blocks for block in blocks)
        for piece in planned.out + planned.back:
            assert 0 <= piece.device < plan.blocks
            assert 0 <= piece.host < plan.host_blocks
            assert 0 <= piece.first < piece.last <= plan.block


def test_random_schedules_hold_what_the_referee_counts():
    plans = [make_plan(trace.instance, trace.schedule) for trace in map(random_trace, range(120))]
    for plan in plans:
        assert_sound(plan)
        assert plan.trace is not None
        assert [len(b.sampled()) for b in plan.batches] == [b.features.generated for b in plan.trace.batches]
        assert [len(b.slots(plan.block)) for b in plan.batches] == [b.features.tokens for b in plan.trace.batches]
        outs = [moved(b.out) for b in plan.batches]
        assert outs == [b.features.swap_out_tokens for b in plan.trace.batches]
        backs = [moved(b.back) for b in plan.batches]
        assert backs == [b.features.swap_in_tokens for b in plan.trace.batches]
    assert sum(bool(b.out) for plan in plans for b in plan.batches) > 50


@pytest.mark.parametrize("block", [1, 2, 16])
@pytest.mark.parametrize("way", WAYS)
def test_the_ways_of_a_workload_are_valid_and_do_what_they_say(way, block):
    made = workload(block=block)
    plan = make_plan(made, laid_out(made, way))
    assert_sound(plan)
    assert plan.trace is not None
    swaps = sum(b.features.swap_outs for b in plan.trace.batches)
    recomputed = sum(step.recomputed for trace in plan.trace.requests for step in trace.steps)
    assert (swaps > 0) == way.startswith("swap")
    assert (recomputed > 0) == way.startswith("recompute")


def test_a_swap_lays_out_the_same_work_as_none():
    made = workload()
    works = [
        [[(w.request, w.resident, w.tokens) for w in b.work] for b in make_plan(made, laid_out(made, way)).batches]
        for way in ("preserve", "swap")
    ]
    assert works[0] == [work for work in works[1] if work]


def test_tables_get_permuted():
    made = workload()
    tables = [w.table for b in make_plan(made, laid_out(made, "recompute")).batches for w in b.work]
    assert any(list(table) != sorted(table) for table in tables)


def test_parts_of_blocks_move_by_tokens():
    allocator = Allocator(1, 4)
    allocator.grow(0, 10)
    assert allocator.table(0) == (0, 1, 2)
    assert allocator.swap_out(0, 3) == [Piece(0, 1, 1, 0, 3, 4, True), Piece(0, 2, 2, 1, 0, 2, True)]
    assert allocator.table(0) == (0, 1)
    assert allocator.tail(0) == [(1, 3)]
    assert allocator.swap_out(0, 2) == [Piece(0, 1, 1, 0, 1, 3, False)]
    assert allocator.swap_in(0, 1) == [Piece(0, 1, 1, 0, 1, 2, False)]
    allocator.drop(0, 3)  # on the host: positions 7 to 9
    assert (allocator.host_tokens, allocator.host.held) == (1, 1)
    allocator.swap_out(0, 6)
    assert allocator.device.held == 0
    assert allocator.swap_in(0, 7) == [Piece(0, 0, 0, 1, 0, 4, True), Piece(0, 1, 1, 0, 0, 3, True)]
    assert (allocator.host_tokens, allocator.host.held) == (0, 0)


def test_blocks_freed_last_are_taken_first_in_their_old_order():
    blocks = Blocks()
    assert [blocks.take() for _ in range(4)] == [0, 1, 2, 3]
    blocks.give([1, 3])
    assert (blocks.collect(), blocks.collect()) == ([1, 3], [])
    assert [blocks.take() for _ in range(3)] == [1, 3, 4]
    assert (blocks.held, blocks.made) == (5, 5)


def test_the_lowest_block_of_the_host_is_taken_first():
    blocks = Blocks(lowest=True)
    for _ in range(4):
        blocks.take()
    blocks.give([3])
    blocks.give([0])
    assert [blocks.take() for _ in range(2)] == [0, 3]


def test_neighbours_on_both_sides_are_one_run():
    whole = [Piece(0, k, device, host, 0, 4, True) for k, (device, host) in enumerate([(5, 1), (4, 0), (6, 3), (7, 4)])]
    assert runs([*whole, Piece(0, 9, 8, 5, 0, 2, False)]) == [(4, 0, 2), (6, 3, 2)]


def in_and_out_again():
    """R1 swaps out, R2 takes its block in that batch, R1 comes back to another one, and out and in again at once."""
    made = instance(request("R1", 2, (1, 1, 0, "free"), 1), request("R2", 1, 4), block=2, evict=True)
    moves = batch(1, out={"R1": 2}, R2=1), batch(2, back={"R1": 2}, R2=1)
    both = batch(3, out={"R1": 2}, back={"R1": 2}, R1=1, R2=1)
    return make_plan(made, schedule(made, batch(0, R1=2), *moves, both, batch(4, R2=1)))


def test_who_waits_for_which_transfer():
    waits = [(b.back_after_out, b.work_after_out, b.work_after_back) for b in in_and_out_again().batches]
    none, takes_its_block, all_at_once = (False, False, False), (False, True, False), (True, True, True)
    assert waits == [none, takes_its_block, none, all_at_once, none]


def test_rows_slots_and_places():
    made = instance(request("R1", 3, 1), request("R2", 5, 2), block=2)
    plan = make_plan(made, schedule(made, batch(0, R1=3, R2=5), batch(1, R2=1)))
    first, second = plan.batches
    assert plan.width == 7
    assert first.starts() == [0, 3, 8]
    assert first.positions().tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert first.places(plan.width).tolist() == [1, 2, 3, 8, 9, 10, 11, 12]
    assert first.slots(2).tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert first.sampled().tolist() == [2, 7]
    assert second.slots(2).tolist() == [9]


def test_given_tokens_depend_on_seed_id_and_position_alone():
    requests = [request("A", 3, (2, 1, 2, "free"), 1), request("B", 2, 1)]
    histories = {}
    for order in ((0, 1), (1, 0)):
        made = instance(*(requests[i] for i in order))
        plan = preserving_plan(made)
        rows = plan.history(50, 7)[1:].reshape(2, plan.width)
        histories[order] = dict(zip(plan.ids, rows.tolist(), strict=True))
    assert histories[0, 1] == histories[1, 0]
    assert [token < 0 for token in histories[0, 1]["A"]] == [False] * 3 + [True] * 2 + [False] * 2 + [True]
    assert preserving_plan(made).history(50, 8)[1:].tolist() != plan.history(50, 7)[1:].tolist()


def preserving_plan(made):
    return make_plan(made, laid_out(made, every=0))


def test_a_synthetic_batch_has_the_work_and_the_swaps_asked_for():
    plan = synthetic_plan([(1, 31), (5, 0)], 16, swap_out_tokens=20, swap_in_tokens=16)
    [planned] = plan.batches
    assert [(w.resident, w.tokens, len(w.table)) for w in planned.work] == [(31, 1, 2), (0, 5, 1)]
    assert (moved(planned.out), moved(planned.back)) == (20, 16)
    assert (plan.history(9, 0) >= 0).all()
    assert_sound(plan)
    assert len(np.unique(planned.slots(16))) == 6


MUTANTS = {
    "a drop keeps the last block": ("_release", lambda self, i: None),
    "a drop from the host counts as one from the device": (
        "drop",
        lambda self, i, tokens: (self._m.__setitem__(i, self._m[i] - tokens), self._release(i))[1],
    ),
    "growth takes a block too many": (
        "grow",
        lambda self, i, tokens: (
            GROW(self, i, tokens),
            self._tables.__setitem__(i, (*self._tables[i], self.device.take())),
        )[1],
    ),
    "growth never takes a block": ("grow", lambda self, i, tokens: self._m.__setitem__(i, self._m[i] + tokens)),
    "a finished request keeps its blocks": ("finish", lambda self, i: None),
}
GROW = Allocator.grow


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_allocator_is_caught_by_the_referees_memory(name, monkeypatch):
    plans = [(laid_out(made, way), made) for made in [workload()] for way in WAYS]
    draw = random.Random(9)
    drawn = [draw_instance(draw) for _ in range(20)]
    plans += [(random_schedule(draw, one), one) for one in drawn]
    method, mutant = MUTANTS[name]
    monkeypatch.setattr(Allocator, method, mutant)
    caught = 0
    for made, one in plans:
        try:
            make_plan(one, made)
        except Mismatch:
            caught += 1
        except (IndexError, KeyError):
            pass
    assert caught > 0
