"""Who works in each batch, with amounts by a linear program: rounded, they keep the rules, and are best where few."""

from math import inf
from random import Random

import pytest

from bounds.clock import limited
from heuristics import get_policy, run_policy, trace_policy
from kvbound.instances import load_instance
from kvcore import Cost, CostFunction, Machine, objective_value, verify_schedule
from kvcore.instance import Call, Instance, Request, Segment
from kvcore.schedule import Schedule
from solvers import epochs
from solvers.amounts import Moves, Patterns, Who, _free, _Program, _run, improve, pattern_of
from solvers.improve import ImproveOptions
from solvers.improve import improve as improved
from tests.solvers.test_epochs import FEW
from tests.support.drawer import draw_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import ALL, few

FLOW = "total-flow-time"


def value(instance, schedule):
    return objective_value(verify_schedule(instance, schedule), FLOW)


@pytest.mark.parametrize("seed", few(range(120)))
def test_every_schedule_keeps_the_rules_and_comes_again(seed):
    instance = draw_instance(Random(seed), FEW)
    given = epochs.search(instance, FLOW, 0, seed, rounds=400)
    found = improve(instance, FLOW, 0, seed, 12, given)
    assert verify_schedule(instance, found).batches
    assert found == improve(instance, FLOW, 0, seed, 12, given)


@pytest.mark.parametrize(("prompt", "optimum"), [(3, 60), (4, 73), (5, 86)])
def test_copies_hide_behind_work(prompt, optimum):
    machine = Machine(memory=prompt + 1, host_memory=6, hybrid=True, evict=True, partial=True, pause=True)
    call = Call(duration=20, returns=0, handling="free")
    away = Request(id="away", prompt=prompt, segments=(Segment(decode=1, call=call), Segment(decode=1)))
    short = Request(id="short", arrival=4 * prompt + 1, prompt=prompt, segments=(Segment(decode=2),))
    cost = Cost((CostFunction(busy=1, tokens=4), CostFunction(swap_out_tokens=1, swap_in_tokens=4)))
    tiny = Instance(machine=machine, cost=cost, requests=(away, short))
    found = improve(tiny, FLOW, 0, 0, 80, run_policy(tiny, get_policy("vllm-v1")))
    assert value(tiny, found) == optimum
    assert not ALL or exhaustive_optimum(tiny, FLOW)[0] == optimum
    assert any(batch.swap_in and batch.work for batch in found.batches)


def test_a_token_that_rounding_lacks_costs_no_copy_on_the_host():
    """Of eight tokens three are out, and then 2.4 more: three go, as what is dropped goes from the host first."""
    machine = Machine(memory=16, host_memory=16, hybrid=True, evict=True, partial=True, pause=True)
    call = Call(duration=20, returns=0, handling="free")
    away = Request(id="away", prompt=8, segments=(Segment(decode=1, call=call), Segment(decode=1)))
    cost = Cost((CostFunction(busy=1, tokens=1, swap_out_tokens=1, swap_in_tokens=1),))
    tiny = Instance(machine=machine, cost=cost, requests=(away,))
    pattern = [Who(1, 1), Who(0, 0), Who(0, 0), Who(1, 1)]
    amounts = [[Moves(8, 0, 0, 0)], [Moves(5, 3, 0, 0)], [Moves(2.6, 2.4, 0, 0)], [Moves(9, 0, 6, 0)]]
    _, batches = _run(tiny, epochs.jobs_of(tiny, FLOW), pattern, amounts)
    assert [batch.swap_out.get("away", 0) for batch in batches] == [0, 3, 3, 0]
    assert not any(batch.drop for batch in batches)
    assert value(tiny, Schedule(instance_sha256=tiny.sha256, batches=tuple(batches))) == 9 + 20 + 8


def test_where_work_is_counted_no_program_ends_by_the_clock():
    instance = load_instance("real-3-ve-s3")
    order = [who for who in pattern_of(trace_policy(instance, get_policy("infercept-heuristic"))) if who.makes]
    program = _Program(epochs.jobs_of(instance, FLOW), _free(order))
    assert program.solved(0) is None
    with limited(inf, 10**9):
        pattern, _ = program.solved(0)
    assert [who.makes for who in pattern if who.makes] == [who.makes for who in order]
    assert any(who.work > who.makes for who in pattern)


def test_improve_goes_through_patterns(monkeypatch):
    instance = load_instance("real-3-ve-s3")
    given = run_policy(instance, get_policy("infercept-heuristic"))
    found = improve(instance, FLOW, 0, 0, 4, given)
    assert value(instance, found) < 0.95 * value(instance, given)
    monkeypatch.setattr(epochs, "search", lambda *_: None)
    monkeypatch.setattr(ImproveOptions, "patterns", 4)
    assert improved(instance, start=given, rounds=2).schedule == found
    monkeypatch.setattr(Patterns, "batches", 10)
    assert improve(instance, FLOW, 0, 0, 4, given) is None
