"""Prices of slots, and trees of ends with prices at their leaves (`test_features` draws both beside the optimum)."""

import random

import numpy as np
import pytest
from pydantic import ValidationError

from kvcore import Cost, Machine, objective_value, verify_schedule
from kvcore.certificates import Branch, InvalidCertificate, Leaf, Prices, Tree
from kvcore.certificates.old import tree
from kvcore.certificates.old.paths import ANY_LATER as LATER
from kvcore.certificates.old.paths import NEVER, Course, PriceRows, cheapest
from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.instance import Instance, Request, Segment
from kvcore.metrics import FLOWS
from tests.support.drawer import draw_instance
from tests.support.few import few
from tests.support.optima import optima
from tests.support.random_proofs import PRICEABLE, random_prices, random_tree
from tests.support.random_schedules import random_schedule
from workloads import builtin

MARS = builtin.builtin_instance("mars-figure1")
FLAT = Prices(scale=1, slots=30)


def value(prices, instance, objective="total-flow-time"):
    """What prices prove without a branch."""
    return Tree(prices=(prices,), nodes=(Leaf(prices=0),)).value(instance, objective)


def priceable(seed):
    """A random instance to which prices of slots apply, or None, with a random schedule of it that is valid."""
    draw = random.Random(seed)
    instance = draw_instance(draw)
    try:
        machine = instance.machine.replace(partial=False, evict=False, block=1)
        instance = instance.replace(machine=machine, cost=Cost.unit())
        return draw, instance, verify_schedule(instance, random_schedule(draw, instance))
    except (ValidationError, ValueError, RuntimeError):
        return None


def test_a_lone_request_pays_by_hand():
    """R1: five tokens with 1 to 5 resident, a call of 2 slots that keeps 5, and one token with 6."""
    course = Course(MARS.machine, MARS.requests[0])
    assert [leg.context for leg in course.legs] == [1, 6]
    prices = PriceRows(*(np.zeros(30, np.int64),) * 3)
    assert cheapest(course, prices, 0, 100) == 800
    one = np.ones(30, np.int64)
    device = PriceRows(one, np.zeros(30, np.int64), np.zeros(30, np.int64))
    assert cheapest(course, device, 0, 100) == 800 + 15 + 2 * 5 + 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"device": (1,) * 31}, "31 prices for 30 slots"), ({"device": (2**50,) * 30}, "could exceed 64 bits")],
)
def test_what_is_no_proof(changes, message):
    with pytest.raises(InvalidCertificate, match=message):
        value(FLAT.replace(**changes), MARS)


@pytest.mark.parametrize(
    ("instance", "objective", "message"),
    [
        (MARS, "makespan", "tree is not proved with makespan"),
        (MARS.replace(machine=MARS.machine.replace(partial=True)), "total-flow-time", "with partial"),
        (builtin.builtin_instance("infermax-figure15"), "total-flow-time", "batches of several ticks"),
    ],
)
def test_where_prices_prove_nothing(instance, objective, message):
    with pytest.raises(InvalidCertificate, match=message):
        value(FLAT, instance, objective)


def test_certificates_with_windows_of_ends_are_read_no_more():
    with pytest.raises(BadInput, match=r"windows: .* at most 0 items"):
        parse(Prices, '{"kind": "prices", "scale": 1, "slots": 1, "windows": [{}]}', "old.json")


def test_every_call_of_numpy_counts_however_small_its_arrays():
    requests = tuple(Request(id=f"R{i}", prompt=1 + i, segments=(Segment(decode=3),)) for i in range(5000))
    instance = Instance(machine=Machine(memory=10**12, chunked=False), requests=requests)
    with pytest.raises(InvalidCertificate, match=r"prices of 2097152 slots would take too long to check, about \d+ s"):
        value(Prices(scale=1, slots=2**21), instance)


def test_prices_of_what_has_no_limit_are_refused():
    instance = MARS.replace(machine=MARS.machine.replace(memory=None))
    with pytest.raises(InvalidCertificate, match="prices of device, which have no limit"):
        value(Prices(scale=1, slots=3, device=(1,)), instance)


# --- trees ----------------------------------------------------------------------------------------------------------


def compare(seeds):
    """Compare random trees with optima."""
    for seed, instance, objective, optimum in optima("no-calls", seeds, FLOWS, max_states=800, **PRICEABLE):
        draw = random.Random(seed)
        for _ in range(60):
            proof = random_tree(draw, instance)
            assert proof.value(instance, objective) <= optimum, (seed, proof)


@pytest.mark.parametrize(("by", "after"), [(-1, 0), (0, 2)], ids=["by a slot less", "after two more"])
def test_sides_that_leave_something_out_are_found_out(monkeypatch, by, after):
    plain = tree._sides

    def sides(ends, branch, segments):
        moved = (branch.replace(slot=max(0, branch.slot + more)) for more in (by, after))
        return tuple(plain(ends, each, segments)[side] for side, each in enumerate(moved))

    monkeypatch.setattr(tree, "_sides", sides)
    with pytest.raises((AssertionError, InvalidCertificate), match=r"assert|without a schedule"):
        compare(range(40))


def refute(seeds):
    """Bound random schedules by random prices and just the slots in which their segments ended; return how many."""
    positive = 0
    for seed in seeds:
        made = priceable(seed)
        if made is None:
            continue
        draw, instance, trace = made
        starts = [batch.start - instance.first_arrival for batch in trace.batches]
        for objective in FLOWS:
            prices = random_prices(draw, instance)
            paths, paid = prices.paths(instance, objective), 0
            for item in trace.requests:
                done = [starts[step.batch] for step in item.steps if step.generated]
                last, ends = -1, []
                for segment in item.request.segments:
                    last += segment.decode
                    e = done[last]
                    ends.append((e, e) if e < prices.slots else (prices.slots, LATER))
                paid += paths(item.request, tuple(ends))
            assert paid < NEVER
            bound = prices.bound(instance.machine, paid)
            assert bound <= objective_value(trace, objective), (seed, objective)
            positive += bound > 0
    return positive


def test_no_schedule_pays_less_than_the_paths_that_end_as_it_does():
    assert refute(few(range(12_000), 180)) > 100


def branch(slot=5, segment=0, request=MARS.requests[0].id):
    return Branch(request=request, segment=segment, slot=slot)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((branch(), Leaf(prices=0)), "without its second side"),
        ((branch(),), "without its second side"),
        ((branch(), Leaf(prices=0), branch(7), Leaf(prices=0)), "without its second side"),
        ((Leaf(prices=0), Leaf(prices=0)), "no branch of the tree leads to"),
        ((Leaf(prices=1),), "prices 1, of 1"),
        ((branch(slot=30), Leaf(prices=0), Leaf(prices=0)), "no request, segment or slot"),
        ((branch(segment=2), Leaf(prices=0), Leaf(prices=0)), "no request, segment or slot"),
        ((branch(request="nobody"), Leaf(prices=0), Leaf(prices=0)), "no request, segment or slot"),
    ],
)
def test_what_is_no_tree(nodes, message):
    with pytest.raises(InvalidCertificate, match=message):
        Tree(prices=(FLAT,), nodes=nodes).value(MARS, "total-flow-time")


def test_a_tree_that_would_take_too_long_is_refused():
    nodes = (*(branch(slot) for slot in range(10_000)), *(Leaf(prices=0),) * 10_001)
    with pytest.raises(InvalidCertificate, match="would take too long"):
        Tree(prices=(FLAT.replace(slots=2**21),), nodes=nodes).value(MARS, "total-flow-time")


def test_ends_by_hand():
    """R1 takes five tokens, a call of two slots and one token: its segments end in slots 4 and 7 at the earliest."""
    paths = FLAT.paths(MARS, "total-flow-time")
    for first, last, cost in (
        ((0, LATER), (0, LATER), 8), ((4, 4), (7, 7), 8), ((6, LATER), (0, LATER), 10), ((0, 3), (0, LATER), NEVER),
        ((0, LATER), (0, 6), NEVER), ((5, LATER), (0, 7), NEVER), ((0, 4), (12, LATER), 13),
        ((30, LATER), (0, 29), NEVER),
    ):  # fmt: skip
        assert min(NEVER, paths(MARS.requests[0], (first, last))) == cost
