"""Prices that are proposed for certificates of configurations: the maximum they look for, and what comes of them."""

import numpy as np
import pytest

from bounds.bundle import Bundle, Evaluation, maximise
from bounds.configurations import (
    CheapestPaths,
    ConfigurationOptions,
    Stage,
    WindowPricing,
    proofs,
    propose_configurations,
)
from bounds.task import Task
from bounds.tuning import chosen
from kvcore.certificates import certify
from kvcore.certificates.budget import Budget
from kvcore.certificates.running import Running, TooMany
from kvcore.errors import BadInput
from kvcore.rigid import kinds_of, memory_of
from solvers.ways import CONFIGURATIONS
from tests.kvcore.test_configurations import OBJECTIVES
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.clock import Clock
from tests.support.exhaustive import exhaustive_optimum
from tests.support.rigid import RIGID, rigid
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
NEVER = float("inf")


def test_the_maximum_of_a_concave_function_is_found():
    slopes = np.array([[[1.0, 2.0], [-1.0, 1.0], [0.0, -1.0]], [[2.0, 0.0], [-3.0, -1.0], [1.0, -2.0]]])
    levels = np.array([[0.0, 3.0, 6.0], [1.0, 9.0, 8.0]])
    linear = np.array([0.1, 0.2])
    seen = []

    def evaluate(x):
        all_values = slopes @ x + levels
        chosen = all_values.argmin(axis=1)
        values = all_values.min(axis=1)
        seen.append(float(linear @ x + values.sum()))
        return Evaluation(x, seen[-1], values, slopes[[0, 1], chosen])

    best, _ = maximise(
        evaluate, np.zeros(2), Bundle(), linear=linear, low=np.zeros(2), high=np.full(2, 9.0), scale=np.ones(2),
        size=0.5, worth=1e-9, deadline=NEVER,
    )  # fmt: skip
    grid = np.array([[x, y] for x in np.linspace(0, 9, 181) for y in np.linspace(0, 9, 181)])
    expected = (grid @ linear + (slopes @ grid.T + levels[:, :, None]).min(axis=1).sum(axis=0)).max()
    assert best.value == max(seen)
    assert expected - 1e-6 <= best.value <= expected + 0.2
    assert len(seen) < 40


def test_the_network_in_floating_point_equals_the_checkers():
    draw = np.random.default_rng(1)
    for seed in range(15):
        instance = rigid(seed, requests=(3, 5))
        kinds = kinds_of(instance, FLOW)
        running = Running(kinds, memory_of(instance, kinds), 10_000, Budget())
        network = CheapestPaths(running, 30)
        for _ in range(5):
            price = draw.integers(-9, 5, (30, len(kinds)))
            least, started = network.cheapest(price.astype(float))
            assert least == running.cheapest(price) == (started * price[: len(started)]).sum()


@pytest.mark.parametrize("online", [False, True])
def test_proofs_rise_and_stay_below_the_optimum(online):
    reached = 0
    for seed in range(16):
        objective = OBJECTIVES[seed % (2 if online else 3)]
        instance = rigid(seed, requests=(3, 5), online=online, budgets=False)
        optimum = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        bounds = [proof.value(instance, objective) for proof in proofs(instance, objective, NEVER)]
        assert bounds == sorted(bounds)
        assert bounds[-1] <= optimum
        reached += bounds[-1] == optimum
    assert reached >= 10


def test_a_stage_promises_what_its_certificate_proves():
    instance = builtin_instance("hindsight:n=16,M=20,seed=4")
    pricing = WindowPricing(instance, FLOW)
    stage = Stage(pricing, [k for k, kind in enumerate(pricing.kinds) if kind.load[-1] > 9], 100_000)
    x = stage.enter(np.zeros(len(pricing.kinds) + pricing.windows), [])
    alone = sum(r.output for r in instance.requests)
    assert stage.evaluate(x).value == stage.proof(x).value(instance, FLOW) == alone
    *_, proof = stage.improve(x, Bundle(), 20.0, 1e-3, NEVER)
    proved = proof.value(instance, FLOW)
    assert abs(proved - stage.best.value) < 2
    assert proved > 1.3 * alone


def test_what_does_not_fit_into_the_network_stays_out():
    instance = builtin_instance("hindsight:n=16,M=20,seed=4")
    with chosen(ConfigurationOptions(most=3_000)):
        inside = [sum(y is not None for y in proof.starts) for proof in proofs(instance, FLOW, NEVER)]
    assert inside == sorted(inside)
    assert 0 < inside[-1] < 16
    with pytest.raises(TooMany):
        Stage(WindowPricing(instance, FLOW), list(range(len(kinds_of(instance, FLOW)))), 3_000)


def test_instances_that_are_not_rigid_or_too_long_are_refused():
    chunked = make(request("A", 2, 2), memory=4, **(RIGID | {"chunked": True}))
    with pytest.raises(BadInput, match="configurations is not proved with chunked"):
        CONFIGURATIONS.proposals(Task(chunked, FLOW, NEVER))
    with pytest.raises(BadInput, match="too many, or take too long"):
        next(propose_configurations(Task(builtin_instance("hindsight:n=1000,M=50,seed=0"), FLOW, NEVER)))


def test_it_stops_at_the_deadline(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("bounds.clock.time", clock)
    instance = builtin_instance("hindsight:n=40,M=40,seed=19")
    *_, (proof, _) = propose_configurations(Task(instance, FLOW, 40))
    assert 40 < clock.monotonic() < 60
    assert certify(instance, FLOW, proof).value > sum(request.output for request in instance.requests)
