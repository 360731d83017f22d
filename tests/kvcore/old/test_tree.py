"""Trees of ends with prices at their leaves prove no more than the optimum, whatever they are, and cover everything."""

import random

import pytest

from kvcore import objective_value
from kvcore.certificates import Branch, InvalidCertificate, Leaf, Prices, Tree
from kvcore.certificates.old import tree
from kvcore.certificates.old.paths import ANY_LATER as LATER
from kvcore.certificates.old.paths import NEVER
from kvcore.metrics import FLOWS
from tests.kvcore.old.test_prices import priceable
from tests.support.few import few
from tests.support.optima import optima
from tests.support.random_proofs import PRICEABLE, random_prices, random_tree
from workloads import builtin

NAMES = ("any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict")
MARS = builtin.builtin_instance("mars-figure1")
FLAT = Prices(scale=1, slots=30)


def compare(profile, seeds, trees):
    """Compare random trees with optima."""
    for seed, instance, objective, optimum in optima(profile, seeds, FLOWS, max_states=800, **PRICEABLE):
        draw = random.Random(seed)
        for _ in range(trees):
            proof = random_tree(draw, instance)
            assert proof.value(instance, objective) <= optimum, (seed, proof)


@pytest.mark.parametrize("profile", NAMES)
def test_no_tree_proves_more_than_the_optimum(profile):
    compare(profile, few(range(240), 80), 30)


@pytest.mark.parametrize(("by", "after"), [(-1, 0), (0, 2)], ids=["by a slot less", "after two more"])
def test_sides_that_leave_something_out_are_found_out(monkeypatch, by, after):
    plain = tree._sides

    def sides(ends, branch, segments):
        moved = (branch.replace(slot=max(0, branch.slot + more)) for more in (by, after))
        return tuple(plain(ends, each, segments)[side] for side, each in enumerate(moved))

    monkeypatch.setattr(tree, "_sides", sides)
    with pytest.raises((AssertionError, InvalidCertificate), match=r"assert|without a schedule"):
        compare("no-calls", range(40), 60)


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
            cheapest, paid = prices.paths(instance, objective), 0
            for item in trace.requests:
                done = [starts[step.batch] for step in item.steps if step.generated]
                last, ends = -1, []
                for segment in item.request.segments:
                    last += segment.decode
                    e = done[last]
                    ends.append((e, e) if e < prices.slots else (prices.slots, LATER))
                paid += cheapest(item.request, tuple(ends))
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
    cheapest = FLAT.paths(MARS, "total-flow-time")
    for first, last, cost in (
        ((0, LATER), (0, LATER), 8), ((4, 4), (7, 7), 8), ((6, LATER), (0, LATER), 10), ((0, 3), (0, LATER), NEVER),
        ((0, LATER), (0, 6), NEVER), ((5, LATER), (0, 7), NEVER), ((0, 4), (12, LATER), 13),
        ((30, LATER), (0, 29), NEVER),
    ):  # fmt: skip
        assert min(NEVER, cheapest(MARS.requests[0], (first, last))) == cost
