"""Prices of slots prove no more than the optimum, whatever they are."""

import random

import numpy as np
import pytest
from pydantic import ValidationError

import kvbound as kv
from bounds.lagrangian import Oracle, SlotPricing, machine_prices
from kvcore import Cost, Machine, objective_value, verify_schedule
from kvcore.certificates import InvalidCertificate, Prices, certify, path_kernels
from kvcore.certificates.paths import Course, PriceRows, cheapest
from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.instance import Instance, Request, Segment
from kvcore.metrics import FLOWS
from tests.support.drawer import PROFILES, draw_instance, tiny_instance
from tests.support.few import few
from tests.support.optima import optima
from tests.support.random_proofs import PRICEABLE, random_prices
from tests.support.random_schedules import random_schedule
from workloads import builtin

NEVER = float("inf")
NAMES = ("any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict")


def priceable(seed):
    """A random instance to which prices of slots apply, or None, with a random schedule of it that is valid."""
    draw = random.Random(seed)
    instance = draw_instance(draw)
    try:
        machine = instance.machine.replace(partial=False)
        instance = instance.replace(machine=machine, cost=Cost.unit())
        return draw, instance, verify_schedule(instance, random_schedule(draw, instance))
    except (ValidationError, ValueError, RuntimeError):
        return None


def refute(seeds, prices_each):
    """Let random prices bound random schedules; return how many bounds there were above 0."""
    positive = 0
    for seed in seeds:
        made = priceable(seed)
        if made is None:
            continue
        draw, instance, trace = made
        for objective in FLOWS:
            value = objective_value(trace, objective)
            for _ in range(prices_each):
                bound = random_prices(draw, instance).value(instance, objective)
                assert bound <= value, (seed, objective)
                positive += bound > 0
    return positive


def test_no_schedule_is_below_a_bound():
    assert refute(few(range(8000), 180), 2) > 100


@pytest.mark.parametrize("profile", NAMES)
def test_no_prices_prove_more_than_the_optimum(profile):
    met = 0
    for seed, instance, objective, optimum in optima(profile, few(range(240), 120), FLOWS, max_states=800, **PRICEABLE):
        draw = random.Random(seed)
        for _ in range(40):
            assert random_prices(draw, instance).value(instance, objective) <= optimum, instance.name
        found = kv.bound(instance, objective, time_limit=NEVER).bound
        assert found <= optimum
        met += found == optimum
    assert met >= 1


@pytest.mark.parametrize("seed", range(6))
def test_compiled_ways_cost_what_the_checker_says(seed):
    compared = 0
    for k in range(12):
        instance = tiny_instance(100 * seed + k, **PROFILES[NAMES[k % len(NAMES)]] | PRICEABLE)
        draw = random.Random(k)
        prices = random_prices(draw, instance)
        pricing = SlotPricing(instance, "weighted-flow-time")
        oracle = Oracle(pricing, prices.slots, 1, 1)
        names = ("device", "host", "tokens", "requests")
        rows = np.array([getattr(prices, name) or (0,) * prices.slots for name in names]) / prices.scale
        if instance.machine.host_memory == 0:
            prices = prices.replace(host=prices.device)
        point = oracle.evaluate(rows)
        assert float(prices.value(instance, "weighted-flow-time")) == pytest.approx(point.bound)
        for kind, path in zip(pricing.kinds, point.paths, strict=True):  # what it takes and pays is all but its time
            time = kind.route.rate * (path.ends[-1] + 1 - kind.route.arrival)
            assert path.ends[-1] >= prices.slots or path.cost == pytest.approx(time)
        compared += 1
    assert compared == 12


def test_a_lone_request_pays_by_hand():
    """R1: five tokens with 1 to 5 resident, a call of 2 slots that keeps 5, and one token with 6."""
    course = Course(MARS.machine, MARS.requests[0])
    assert [leg.context for leg in course.legs] == [1, 6]
    prices = PriceRows(*(np.zeros(30, np.int64),) * 4)
    assert cheapest(course, prices, 0, 100) == 800
    one = np.ones(30, np.int64)
    device = PriceRows(one, np.zeros(30, np.int64), np.zeros(30, np.int64), np.zeros(30, np.int64))
    assert cheapest(course, device, 0, 100) == 800 + 15 + 2 * 5 + 6


MARS = builtin.builtin_instance("mars-figure1")


def test_prices_of_an_eviction_by_hand():
    """Three tokens, and a slot 1 in which a block costs 9: who evicts there ends in slot 3, who does not, in slot 4."""
    request = Request(id="A", prompt=2, segments=(Segment(decode=3),))
    prices = Prices(scale=1, slots=9, device=(0, 9))
    for evict, flow in ((False, 5), (True, 4)):
        machine = Machine(memory=4, host_memory=0, evict=evict)
        assert prices.value(Instance(machine=machine, requests=(request,)), "total-flow-time") == flow - 9 * 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": (1,) * 31}, "31 prices for 30 slots"),
        ({"device": (2**50,) * 30}, "could exceed 64 bits"),
    ],
)
def test_what_is_no_proof(changes, message):
    with pytest.raises(InvalidCertificate, match=message):
        Prices(scale=1, slots=30).replace(**changes).value(MARS, "total-flow-time")


@pytest.mark.parametrize(
    ("instance", "objective", "message"),
    [
        (MARS, "makespan", "prices is not proved with makespan"),
        (
            MARS.replace(machine=MARS.machine.replace(partial=True)),
            "total-flow-time",
            "with partial and calls",
        ),
        (
            builtin.builtin_instance("infermax-figure15"),
            "total-flow-time",
            "with batches of several ticks",
        ),
    ],
)
def test_where_prices_prove_nothing(instance, objective, message):
    with pytest.raises(InvalidCertificate, match=message):
        Prices(scale=1, slots=30).value(instance, objective)
    with pytest.raises(BadInput, match=message):
        kv.bound(instance, objective, method="prices")


def test_certificates_with_windows_of_ends_are_read_no_more():
    with pytest.raises(BadInput, match=r"windows: .* at most 0 items"):
        parse(Prices, '{"kind": "prices", "scale": 1, "slots": 1, "windows": [{}]}', "old.json")


@pytest.mark.parametrize(("count", "decode", "slots"), [(1, 2**37, 1), (5000, 3, 2**21), (1, 2**37, 2**21)])
def test_every_call_of_numpy_counts_however_small_its_arrays(count, decode, slots):
    requests = tuple(Request(id=f"R{i}", prompt=1 + i, segments=(Segment(decode=decode),)) for i in range(count))
    instance = Instance(machine=Machine(memory=10**12, block=2, chunked=False), requests=requests)
    with pytest.raises(InvalidCertificate, match=rf"prices of {slots} slots would take too long to check, about \d+ s"):
        Prices(scale=1, slots=slots).value(instance, "total-flow-time")


def test_tables_of_evictions_that_would_not_fit_are_not_made():
    evicts = MARS.replace(machine=MARS.machine.replace(evict=True))
    with pytest.raises(BadInput, match="at most 100 tokens times slots, not"):
        kv.bound(evicts, method="prices", options={"prices.most_cells": 100})


def test_prices_that_would_be_declined_are_not_proposed(monkeypatch):
    began = []
    monkeypatch.setattr("bounds.slot_prices.Oracle", lambda *_: began.append(1))
    monkeypatch.setattr("kvcore.certificates.budget.Budget.__init__.__defaults__", (1000, 2**32))
    with pytest.raises(BadInput, match="prices of 23 slots would take too long to check"):
        kv.bound(MARS, "total-flow-time", method="prices")
    assert not began


def test_prices_of_what_has_no_limit_are_refused():
    instance = MARS.replace(machine=MARS.machine.replace(memory=None))
    with pytest.raises(InvalidCertificate, match="prices of device, which have no limit"):
        Prices(scale=1, slots=3, device=(1,)).value(instance, "total-flow-time")


def test_the_worked_example_is_proved_with_free_calls():
    assert kv.bound(MARS.with_free_calls()).bound == 27
    assert certify(MARS, "total-flow-time", kv.bound(MARS, method="prices").certificate.proof).bound == "29"


def test_legs_are_named_as_the_kernels_read_them():
    pricing = SlotPricing(MARS, "total-flow-time")
    assert pricing.kinds[0].route.legs[0, path_kernels.DECODE] == 5
    assert pricing.kinds[0].route.legs[1, path_kernels.PRESERVED] == 1
    assert pricing.kinds[0].route.starts[1, 0, path_kernels.KEPT] == 5


def test_a_linear_program_that_fails_keeps_the_prices_known(monkeypatch):
    instance = tiny_instance(1, **PROFILES["calls-fixed"] | PRICEABLE)
    before = kv.bound(instance, "total-flow-time", method="prices", time_limit=NEVER).bound
    tried = []
    monkeypatch.setattr("bounds.column_generation.Master.solve", lambda *_: tried.append(1))
    found = kv.bound(instance, "total-flow-time", method="prices", time_limit=NEVER)
    assert tried
    assert found.certificate is not None
    assert found.bound <= before


def test_memory_is_worth_less_as_time_goes_on_and_nothing_when_idle():
    worth = machine_prices([(50, 1 / 3, 3.0), (0, 1 / 10, 10.0), (0, 1 / 10, 10.0)], 5.0, 60)
    assert worth.tolist() == pytest.approx([0.4, 0.3, 0.2, 0.1, *[0.0] * 46, 1 / 3])
