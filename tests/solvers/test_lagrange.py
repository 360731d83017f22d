"""Prices of slots: none proves too much, and what is fixed is in no better schedule."""

import random

import numpy as np
import pytest

from kvcore import BadInput, Machine
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.packing import Packing
from solvers.lagrange.prices import SlotRelaxation
from solvers.lagrange.scope import OBJECTIVES, UNIT
from tests.support.few import few
from tests.support.optima import optima
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


def test_refuses_other_objectives():
    with pytest.raises(BadInput, match="not makespan"):
        PathNetwork(builtin.builtin_instance("mars-figure1"), "makespan")
