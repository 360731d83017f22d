"""Prices of slots prove no more than the optimum, whatever they are."""

import random

import numpy as np
import pytest
from pydantic import ValidationError

from kvcore import Cost, Machine, objective_value, verify_schedule
from kvcore.certificates import InvalidCertificate, Prices
from kvcore.certificates.old.paths import Course, PriceRows, cheapest
from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.instance import Instance, Request, Segment
from kvcore.metrics import FLOWS
from tests.support.drawer import draw_instance
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
    for seed, instance, objective, optimum in optima(profile, few(range(240), 120), FLOWS, max_states=800, **PRICEABLE):
        draw = random.Random(seed)
        for _ in range(40):
            assert random_prices(draw, instance).value(instance, objective) <= optimum, instance.name


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
    [({"device": (1,) * 31}, "31 prices for 30 slots"), ({"device": (2**50,) * 30}, "could exceed 64 bits")],
)
def test_what_is_no_proof(changes, message):
    with pytest.raises(InvalidCertificate, match=message):
        Prices(scale=1, slots=30).replace(**changes).value(MARS, "total-flow-time")


@pytest.mark.parametrize(
    ("instance", "objective", "message"),
    [
        (MARS, "makespan", "prices is not proved with makespan"),
        (MARS.replace(machine=MARS.machine.replace(partial=True)), "total-flow-time", "with partial and calls"),
        (builtin.builtin_instance("infermax-figure15"), "total-flow-time", "with batches of several ticks"),
    ],
)
def test_where_prices_prove_nothing(instance, objective, message):
    with pytest.raises(InvalidCertificate, match=message):
        Prices(scale=1, slots=30).value(instance, objective)


def test_certificates_with_windows_of_ends_are_read_no_more():
    with pytest.raises(BadInput, match=r"windows: .* at most 0 items"):
        parse(Prices, '{"kind": "prices", "scale": 1, "slots": 1, "windows": [{}]}', "old.json")


@pytest.mark.parametrize(("count", "decode", "slots"), [(1, 2**37, 1), (5000, 3, 2**21), (1, 2**37, 2**21)])
def test_every_call_of_numpy_counts_however_small_its_arrays(count, decode, slots):
    requests = tuple(Request(id=f"R{i}", prompt=1 + i, segments=(Segment(decode=decode),)) for i in range(count))
    instance = Instance(machine=Machine(memory=10**12, block=2, chunked=False), requests=requests)
    with pytest.raises(InvalidCertificate, match=rf"prices of {slots} slots would take too long to check, about \d+ s"):
        Prices(scale=1, slots=slots).value(instance, "total-flow-time")


def test_prices_of_what_has_no_limit_are_refused():
    instance = MARS.replace(machine=MARS.machine.replace(memory=None))
    with pytest.raises(InvalidCertificate, match="prices of device, which have no limit"):
        Prices(scale=1, slots=3, device=(1,)).value(instance, "total-flow-time")
