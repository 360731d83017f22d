"""Prices for several lines of a cost: never above the truth, whatever the numbers; worth having under a roofline."""

import json
import random
from collections import Counter
from functools import cache
from unittest import mock

import pytest

from bounds.speed import SpeedOptions, _Search
from bounds.task import Task
from kvcore import Cost, CostFunction, Instance, Machine, Request, Segment
from kvcore.certificates import Alone, certify, speed
from kvcore.certificates.certificate import rounded
from kvcore.metrics import SUMS
from tests.bounds.test_speed import FLOW, NEVER, busy_instance, holds
from tests.fuzz.certificates import both
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.random_proofs import random_speed, with_lines

SIZE, ALL = 15, 2_505
OBJECTIVES = (*SUMS, FLOW, "max-flow-time")


def roofline(draw):
    """A line with weights to read and KV, and one of work, with a hinge now and then."""
    upto = draw.randint
    memory = {"busy": upto(2, 40), "decode_kv": upto(0, 9), "prefill_kv": upto(0, 9), "tokens": upto(0, 5)}
    compute = {"busy": draw.choice([0, 0, upto(0, 20)]), "tokens": upto(0, 30), "generated": upto(0, 9),
               "decode_requests": upto(0, 3), "decode_kv": upto(0, 3), "prefill_pairs": upto(0, 3),
               "prefill_requests": draw.choice([0, 0, 5]), "any_prefill": draw.choice([0, 0, 9]),
               "tokens_above": draw.choice([None, None, {"knee": upto(1, 3), "coefficient": upto(1, 9)}])}  # fmt: skip
    return Cost(tuple(CostFunction(divisor=draw.choice([1, 3, 10]), **each) for each in (memory, compute)))


def drawn(seed):
    """Every switch, calls, P below C, blocks, swaps: with a roofline, or transfers beside."""
    draw = random.Random(seed)
    if seed % 3 == 0:
        return busy_instance(seed).replace(cost=roofline(draw))
    profile = draw.choice(list(PROFILES.values()))
    instance = tiny_instance(seed, **profile | {"cost": "two-functions"})
    return instance.replace(cost=roofline(draw)) if seed % 3 == 1 else instance


@cache
def cases(start):
    """Return instances with optima, and prices for their lines that rose a little."""
    found = []
    for seed in range(start, start + SIZE):
        instance, objective = drawn(seed), OBJECTIVES[seed % len(OBJECTIVES)]
        try:
            truth = exhaustive_optimum(instance, objective, max_states=150)[0]
        except TooManyStates:
            continue
        risen = _Search(Task(instance, objective if objective in SUMS else FLOW, NEVER))._several()
        if risen is None:
            continue
        risen.rise(seed % 40, NEVER)
        found.append((instance, objective, truth, risen.proof(NEVER)))
    return found


def above(start):
    """Return what exceeds the truth, and how often prices of lines prove more than what requests take alone."""
    found, seen, draw = [], Counter[str](), random.Random(start)
    for instance, objective, truth, proof in cases(start):
        more = [random_speed(draw, instance) for _ in range(3)]
        more += [proof.replace(price=tuple(int(2 * draw.random() * each) for each in proof.price)) for _ in range(2)]
        for one in (proof, *more[3:], *(with_lines(draw, instance, each) for each in (proof, *more))):
            if objective not in SUMS:
                found += [(instance.name, truth, one)] * holds(one, instance, truth)
            elif (value := rounded(one.value(instance, objective), objective)) > truth:
                found.append((instance.name, truth, one))
            else:
                seen["more than alone"] += value > Alone().value(instance, objective)
                seen["the truth"] += value == truth
    return found, seen


@pytest.mark.parametrize("start", few(range(0, ALL, SIZE), ALL // SIZE))
def test_no_prices_of_lines_prove_more_than_the_truth(start):
    found, seen = above(start)
    assert found == []
    assert seen["more than alone"] > 5


def test_a_planted_error_is_noticed(monkeypatch):
    """Every share counts twice."""
    cases(0)
    shares = speed.PricedSteps.shares
    monkeypatch.setattr(
        speed.PricedSteps, "shares", lambda self, last: (2 * shares(self, last=last)[0], shares(self)[1])
    )
    assert above(0)[0]


@pytest.mark.parametrize("seed", [246, 351, 8898, 11047])
def test_both_checkers_end_where_first_tokens_come_too_late(seed):
    """A cell of which the rest alone takes as long as the best so far is not looked at, by either."""
    instance, objective, draw = drawn(seed), OBJECTIVES[seed % len(OBJECTIVES)], random.Random(seed)
    proof = random_speed(draw, instance)
    proof = with_lines(draw, instance, proof) if seed == 351 else proof
    certificate = json.loads(certify(instance, objective, proof).to_json())
    ours, theirs = both(instance, certificate)
    assert ours <= theirs <= ours + 1


def crowd(n):
    """Prompts that fill the line of compute, and decodes that read much KV, a request every 60 ticks."""
    cost = Cost((CostFunction(busy=30, decode_kv=1, tokens=1), CostFunction(tokens=10)))
    segments = (Segment(decode=6),)
    requests = tuple(Request(id=f"R{i}", arrival=60 * i, prompt=8, segments=segments) for i in range(n))
    return Instance(machine=Machine(memory=10**4, evict=True), cost=cost, requests=requests)


def test_two_lines_prove_more_than_one():
    instance = crowd(9)
    with mock.patch.multiple(SpeedOptions, rounds=30, trial_rounds=20, ordered_pairs=16_000, most_slots=300):
        search = _Search(Task(instance, FLOW, NEVER))
        search.begin()
        one = search.best
        search.ascend()
        assert len(search.best.division.lines) == 1
        assert search.best.value > 1.01 * one.value
        assert 0.97 < search.best.value / float(search.best.proof(NEVER).value(instance, FLOW)) < 1 + 1e-4
