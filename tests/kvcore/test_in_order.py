"""Prices in order: by hand; never above the optimum; the second checker says the same; and every slip is noticed."""

import json
import random
from collections import Counter
from contextlib import suppress
from math import inf

import pytest

import kvbound as kv
from bounds.in_order import propose_in_order
from bounds.task import Task
from kvcore import Call, Cost, CostFunction, Instance, Machine, Request, Segment
from kvcore.certificates import InOrder, InvalidCertificate, Shares, in_order
from kvcore.certificates.certificate import rounded
from kvcore.certificates.shares import UNIT
from kvcore.metrics import SUMS
from library import check
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.random_proofs import random_in_order

FLOW = "total-flow-time"
PLACES = {"memory": 128, "block": 64, "host_memory": 0}
"""Of two requests of up to 64 tokens."""


def jobs(*decodes, arrivals=None, machine=PLACES, cost=None):
    requests = tuple(
        Request(id=f"R{i}", prompt=1, arrival=arrival, segments=(Segment(decode=decode),))
        for i, (decode, arrival) in enumerate(zip(decodes, arrivals or [0] * len(decodes), strict=True))
    )
    return Instance(machine=Machine(**machine), requests=requests, **({"cost": cost} if cost else {}))


def test_arrivals():
    """Two requests of three ticks each that never meet."""
    two, (best, _) = TWO, exhaustive_optimum(TWO, FLOW)
    assert best == 12
    for slots in (0, 1, 20, 60):
        for price in (0, 1, 64, 2000):
            for packs in range(4):
                for most in (1, 2, 5, 10**6):
                    proof = InOrder(most=most, packs=packs, scale=64, price=(price,) * slots)
                    assert proof.value(two, FLOW) <= 12
                    assert second(two, FLOW, proof) == proof.value(two, FLOW)
    assert InOrder(scale=1, price=()).value(two, FLOW) == 12


def second(instance, objective, proof):
    read = check.proof(json.loads(proof.model_dump_json()), "proof")
    check.spent[0] = 0
    return rounded(check.prove(check.read_instance(json.loads(instance.to_json())), read, objective), objective)


def test_three_equal_jobs_on_two_places():
    """They cost 4 p, as one has to wait; `shares` lets one alone use both places."""
    assert Shares(functions=(UNIT, 0), packing=UNIT).value(THREE, FLOW) == 225
    assert HALVES.value(THREE, FLOW) == second(THREE, FLOW, HALVES) == 240


def test_what_is_proposed_is_true_and_both_checkers_say_the_same():
    met = Counter()
    for seed in few(range(180)):
        objective = SUMS[seed % len(SUMS)]
        instance = tiny_instance(seed, cost=("unit", "linear", "large"), duration=(0, 2, 5), arrival=(0, 0, 1, 4, 9))
        with suppress(TooManyStates, InvalidCertificate):
            best, _ = exhaustive_optimum(instance, objective, max_states=200)
            for proof, _ in propose_in_order(Task(instance, objective, upper=best)):
                value = proof.value(instance, objective)
                assert value <= best
                assert second(instance, objective, proof) == value
                met["proofs"] += 1
                met["optimal"] += value == best
    assert met["proofs"] > met["optimal"] > 0


def test_random_prices_are_true_and_both_checkers_say_the_same():
    met = Counter()
    for seed in few(range(900), 50):
        objective, draw = SUMS[seed % len(SUMS)], random.Random(seed)
        instance = tiny_instance(seed, duration=(0, 2, 5), arrival=(0, 0, 1, 4, 9))
        with suppress(TooManyStates, InvalidCertificate):
            best, _ = exhaustive_optimum(instance, objective, max_states=200)
            for _ in range(4):
                proof = random_in_order(draw, instance)
                value = proof.value(instance, objective)
                assert value <= best
                assert second(instance, objective, proof) == value
                met[value == best] += 1
    assert met[False] > 10


def test_a_first_turn_that_ends_at_once_leaves_no_packs_untried():
    """Two of three requests fit, which only `packs` 2 says."""
    instance = jobs(60, 60, 60, machine={**PLACES, "memory": 150, "block": 1})
    turns = propose_in_order(task := Task(instance, FLOW, deadline=-inf))
    first = next(turns).proof
    task.deadline = inf
    *_, last = (proof for proof, _ in turns)
    *_, whole = (proof for proof, _ in propose_in_order(Task(instance, FLOW)))
    assert first.value(instance, FLOW) < last.value(instance, FLOW) == whole.value(instance, FLOW)
    assert last.packs == 2


CHAIN = in_order.Units.chain
CALLED = Instance(
    machine=Machine(memory=10, chunked=False),
    cost=Cost((CostFunction(busy=3),)),
    requests=(Request(id="R1", prompt=4, segments=(
        Segment(decode=3, call=Call(duration=9, returns=2, handling="discard")), Segment(decode=2))),),
)  # fmt: skip
PROMPT = Instance(
    machine=Machine(memory=3),
    cost=Cost((CostFunction(busy=7, tokens=3),)),
    requests=(Request(id="R1", prompt=2, segments=(Segment(decode=1),)),),
)
TWO = jobs(3, 3, arrivals=(0, 100), machine={"memory": 3, "evict": True}, cost=Cost((CostFunction(busy=1, tokens=1),)))
THREE, HALVES = jobs(60, 60, 60), InOrder(scale=1, price=(2,) * 60)
LATER = InOrder(scale=60, price=tuple(range(180, 0, -1)))


def changed(**how):
    """Return `chain` with other fields."""

    def chain(self, request):
        found = CHAIN(self, request)
        return found._replace(**{name: change(self, getattr(found, name)) for name, change in how.items()})

    return "chain", chain


PLANTED = {
    "a call ends a unit later": (
        CALLED, InOrder(scale=1, price=(0,) * 29), 24, changed(wait=lambda self, wait: wait + self.each * (wait > 0))
    ),
    "units are rounded up": (
        PROMPT, InOrder(scale=1, price=(0,) * 5), 13,
        ("count", lambda self, tokens: -(-(self.base + self.token * tokens) // self.each)),
    ),
    "a context takes all places": (THREE, LATER, 240, ("packed", lambda self, context: self.parts)),
    "units pay twice": (THREE, LATER, 240, changed(paid=lambda self, paid: 2 * paid)),
    "arrivals are forgotten": (
        TWO, InOrder(scale=5, price=(9, 7, 5, 3, 1)), 12, changed(arrival=lambda self, arrival: 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_found(error, monkeypatch):
    instance, proof, least, mutant = PLANTED[error]
    best, _ = exhaustive_optimum(instance, FLOW) if instance is not THREE else (240, None)
    assert least == best
    assert proof.value(instance, FLOW) <= best
    monkeypatch.setattr(in_order.Units, *mutant)
    assert proof.value(instance, FLOW) > best


@pytest.mark.parametrize(
    ("proof", "objective", "message"),
    [
        (InOrder(scale=1, price=()), "makespan", "in-order is not proved with makespan"),
        (InOrder(line=2, scale=1, price=()), FLOW, "there is no line 2: the cost has 2"),
        (InOrder(line=0, scale=1, price=()), FLOW, "line 0 gives batches no time"),
        (InOrder(line=1, scale=2**30, price=(2**50,) * 9), FLOW, "numbers are too large to be added up"),
        (InOrder(line=1, most=2**20, scale=1, price=(1,) * 2**14), FLOW, "prices in order would take too"),
    ],
)
def test_what_it_declines(proof, objective, message):
    with pytest.raises(InvalidCertificate, match=message):
        proof.value(jobs(2**12, 9, machine={"memory": 2**13}, cost=Cost((CostFunction(),))), objective)


def test_the_ladder_has_it():
    rung = kv.bound(THREE, method="in-order")
    assert rung.bound == 240
