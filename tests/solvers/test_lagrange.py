"""Lagrangian branch and bound: its optimum is that of the exhaustive search, and no price proves too much."""

import random
import sys

import numpy as np
import pytest

import solvers
from kvcore import BadInput, Machine, objective_value, verify_schedule
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.packing import Packing
from solvers.lagrange.prices import SlotRelaxation
from solvers.lagrange.scope import OBJECTIVES, UNIT
from solvers.lagrange.solve import Lagrange
from solvers.task import Bound, Found, Task
from tests.support.clock import Clock
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.optima import optima
from tests.support.tiny_instances import tiny_instance
from workloads import builtin

HERE = {"partial": False, "pause": True, "hybrid": True, "cost": "unit"}
NAMES = ("any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict")


def questions(profile, seeds):
    """Instances that the method takes, with an objective and the optimum."""
    for _, instance, objective, optimum in optima(profile, seeds, OBJECTIVES, max_states=1500, **HERE):
        try:
            PathNetwork(instance, objective)
        except BadInput:
            continue
        yield instance, objective, optimum


def solve(instance, objective, seconds=1e6):
    """The best value (executed by the referee), and the bound."""
    values, bounds = [], []

    def send(message):
        if isinstance(message, Found):
            values.append(objective_value(verify_schedule(instance, message.schedule), objective))
            assert values[-1] == message.claimed
        elif isinstance(message, Bound):
            bounds.append(message.value)

    task = Task(instance, objective, "arc-flow", "lagrange", None, None, None, seconds, 4000, 1, 0)
    done = Lagrange(task, send).run()
    return min(values), max(bounds), done.stop


@pytest.mark.parametrize("profile", NAMES)
def test_proves_the_optimum(profile):
    answers = 0
    for instance, objective, optimum in questions(profile, few(range(12), 2)):
        value, bound, stop = solve(instance, objective)
        assert bound <= optimum <= value, (instance.name, objective)
        assert (value, bound, stop) == (optimum, optimum, "proved"), (instance.name, objective)
        answers += 1
    assert answers >= 2


@pytest.mark.slow
@pytest.mark.parametrize("profile", NAMES)
def test_proves_the_optimum_of_many(profile):
    for instance, objective, optimum in questions(profile, range(12, 400)):
        value, bound, _ = solve(instance, objective)
        assert (value, bound) == (optimum, optimum), (instance.name, objective)


@pytest.mark.parametrize("profile", NAMES)
def test_any_prices_give_a_lower_bound(profile):
    draw = np.random.default_rng(1)
    for instance, objective, optimum in questions(profile, few(range(30, 40))):
        for slots in (2, 9, 40):
            relaxation = SlotRelaxation(PathNetwork(instance, objective), slots)
            for scale in (1, UNIT // 4, 3 * UNIT):
                prices = draw.integers(0, scale + 1, (slots, 5)) * relaxation.network.is_priced
                assert relaxation.relax(prices).bound <= optimum * UNIT


def test_what_is_fixed_is_in_no_better_schedule():
    for instance, objective, optimum in questions("calls-free", range(40, 52)):
        relaxation = SlotRelaxation(PathNetwork(instance, objective), 60)
        _, prices = relaxation.find_prices(float(optimum), 60)
        slack = optimum * UNIT - relaxation.relax(prices).bound
        assert all(len(rows) for rows in relaxation.survivors(prices, slack))


def test_bounds_hold_where_token_budgets_are_left_out(monkeypatch):
    """Budgets that bind although a prefill fits: the relaxation may stay below, and never above."""
    for seed in few(range(40)):
        fixed = HERE | {"chunked": True, "batch_requests": None, "prefill_tokens": None, "calls": (0, 1)}
        instance = tiny_instance(seed, **fixed)
        peak = max(request.peak for request in instance.requests)
        instance = instance.replace(machine=instance.machine.replace(batch_tokens=peak))
        try:
            optimum, _ = exhaustive_optimum(instance, "total-flow-time", max_states=1500)
        except TooManyStates:
            continue
        try:
            assert PathNetwork(instance, "total-flow-time").is_late
        except BadInput:
            continue
        with monkeypatch.context() as patch:
            for module in ("lagrange.solve", "neighbourhoods.improve"):
                patch.setattr(sys.modules[f"solvers.{module}"], "time", Clock())
            value, bound, _ = solve(instance, "total-flow-time", seconds=200)
        assert bound <= optimum <= value


@pytest.mark.parametrize("block", [1, 3])
def test_the_host_takes_over_the_most_blocks(block):
    draw = random.Random(block)
    instance = builtin.builtin_instance("infercept-sample:k=3").with_free_calls()
    instance = instance.replace(machine=instance.machine.replace(block=block, memory=600))
    packing = Packing(PathNetwork(instance, "total-flow-time"), 1)
    for _ in range(50):
        items, room = [draw.randint(1, 9) for _ in range(draw.randint(1, 6))], draw.randint(0, 25)
        sets = [[m for i, m in enumerate(items) if mask >> i & 1] for mask in range(2 ** len(items))]
        most = max(sum(map(packing.blocks, chosen)) for chosen in sets if sum(chosen) <= room)
        assert sum(items[i] for i in packing.hosted(items, room)) <= room
        assert packing.least_resident(items, room) == sum(map(packing.blocks, items)) - most
        device, host = draw.randint(0, 20), packing.limits[1]
        packing.movable, packing.taken[0, :2] = [items], (packing.limits[0] - device, host - room)
        assert packing.fits() == (sum(map(packing.blocks, items)) - most <= device)


def test_through_the_driver():
    result = solvers.solve(
        builtin.builtin_instance("mars-figure1"), formulation="arc-flow", solver="lagrange", certify_limit=0
    )
    assert (result.value, result.bound, result.status, result.bound_kind) == (29, 29, "claimed", "search")
    assert result.solver.name == "lagrange"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"partial": True}, "without `partial`"),
        ({"pause": False}, "or without budgets of tokens"),
        ({"hybrid": False}, "with `hybrid`"),
    ],
)
def test_refuses_other_machines(change, reason):
    instance = builtin.builtin_instance("mars-figure1")
    machine = Machine.model_validate(instance.machine.model_dump() | change)
    with pytest.raises(BadInput, match=reason):
        PathNetwork(instance.replace(machine=machine), "total-flow-time")


def test_without_budgets_breaks_are_of_no_use():
    answers = 0
    fixed = HERE | {
        "pause": False,
        "batch_tokens": None,
        "prefill_tokens": None,
        "batch_requests": None,
        "calls": (0, 1),
    }
    for seed in range(14):
        instance = tiny_instance(seed, **fixed)
        try:
            optimum, _ = exhaustive_optimum(instance, "total-flow-time", max_states=1500)
            PathNetwork(instance, "total-flow-time")
        except (TooManyStates, BadInput):
            continue
        value, bound, _ = solve(instance, "total-flow-time")
        assert (value, bound) == (optimum, optimum), instance.name
        answers += 1
    assert answers >= 5


def test_refuses_other_objectives():
    with pytest.raises(BadInput, match="not makespan"):
        PathNetwork(builtin.builtin_instance("mars-figure1"), "makespan")
