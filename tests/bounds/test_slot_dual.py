"""What is proposed of prices of slots: they prove as much as can be, and what is too large is declined."""

import random

import numpy as np
import pytest

import kvbound as kv
from bounds.slot_dual import PriceAscent, machine_prices
from bounds.task import Task
from kvcore import BadInput
from kvcore.certificates.budget import Budget
from kvcore.metrics import SUMS, scale_of
from tests.support.drawer import PROFILES
from tests.support.few import few
from tests.support.optima import optima
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
FLOW = "total-flow-time"


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_proposed_is_at_most_the_optimum_and_often_meets_it(profile):
    met = 0
    for _, instance, objective, optimum in optima(profile, few(range(60), 12), SUMS, max_states=800, cost="unit"):
        found = kv.bound(instance, objective, method="slot-dual", time_limit=float("inf")).bound
        assert found <= optimum, instance.name
        met += found == optimum
    assert met


@pytest.mark.parametrize(("free", "proved"), [(False, 28), (True, 27)])
def test_the_worked_example_lacks_a_tick_at_most(free, proved):
    """The optima are 29 and 27."""
    assert kv.bound(MARS.with_free_calls() if free else MARS, method="slot-dual").bound == proved


@pytest.mark.parametrize("objective", SUMS)
def test_an_evaluation_is_what_the_checker_says(objective):
    instance = builtin_instance("mars-like:n=6").with_free_calls()
    ascent, draw = PriceAscent(Task(instance, objective)), random.Random(3)
    for _ in range(5):
        prices = np.array([[draw.choice([0, 0, draw.random()]) for _ in row] for row in ascent.best])
        bound, slope = ascent.evaluate(prices)
        exact = ascent.requests.bound(ascent.whole(prices), ascent.scale, Budget())
        assert float(exact * scale_of(instance.requests, objective)) == pytest.approx(bound)
        assert (slope[ascent.limits[:, 0] == 0] == 0).all()


def test_requests_with_too_many_options_are_declined():
    with pytest.raises(BadInput, match=r"prices of slots take requests with few options, and these may have \d+"):
        kv.bound(MARS, method="slot-dual", options={"slot-dual.most_options": 10})


def test_too_many_values_of_states_are_declined(monkeypatch):
    monkeypatch.setattr("bounds.slot_dual.DualOptions.most_values", 100)
    with pytest.raises(BadInput, match="prices of slots take at most 100 values of states, and"):
        kv.bound(MARS, method="slot-dual")


def test_memory_is_worth_less_as_time_goes_on_and_nothing_when_idle():
    worth = machine_prices([(50, 1 / 3, 3.0), (0, 1 / 10, 10.0), (0, 1 / 10, 10.0)], 5.0, 60)
    assert worth.tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1, *[0.0] * 46, 1 / 3])
