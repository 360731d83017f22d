"""The search for starts under prices of configurations: agreement with the exhaustive search, and what it refuses."""

import random

import numpy as np
import pytest

import solvers
from bounds.configurations import Layers, StartSolver, climb, proofs
from bounds.task import Proposal, Task
from kvcore import objective_value, verify_schedule
from kvcore.certificates import Certificate, Configurations, InvalidCertificate, certify, verify_certificate
from kvcore.certificates import configuration_search as module
from kvcore.certificates.budget import Budget
from kvcore.certificates.running import Running
from kvcore.rigid import kinds_of
from tests.kvcore.test_configurations import OBJECTIVES, random_proof
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.rigid import RIGID, rigid
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
FAMILY = "hindsight:n=14,M=30,seed=14"


def priced(instance, objective, draw, target=None, tries=10**7):
    """Return random prices, in quarters: requests in or out of the network, memory dear at some ticks, or never."""
    return random_proof(instance, objective, draw, memory=draw.random() < 0.5).replace(target=target, tries=tries)


@pytest.mark.parametrize("online", [False, True])
def test_no_target_above_the_optimum_is_proved_and_the_optimum_is(online):
    draw = random.Random(1)
    for seed in few(range(280), 7):
        objective = OBJECTIVES[seed % (2 if online else 3)]
        instance = rigid(seed, online=online, budgets=False)
        optimum = int(exhaustive_optimum(instance, objective, max_states=300_000)[0])
        for _ in range(5):
            assert priced(instance, objective, draw, optimum).value(instance, objective) == optimum
            with pytest.raises(InvalidCertificate, match=f"finds starts at {optimum}, below {optimum + 1}"):
                priced(instance, objective, draw, optimum + 1).value(instance, objective)


def test_budgets_are_left_out_so_nothing_above_the_optimum_is_proved():
    draw, refused = random.Random(2), 0
    for seed in range(60):
        instance = rigid(seed)
        optimum = int(exhaustive_optimum(instance, FLOW, max_states=300_000)[0])
        with pytest.raises(InvalidCertificate, match="finds starts at"):
            priced(instance, FLOW, draw, optimum + 1).value(instance, FLOW)
        try:
            priced(instance, FLOW, draw, optimum).value(instance, FLOW)
        except InvalidCertificate:
            refused += 1
    assert 0 < refused < 30


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_it_climbs_to_the_optimum(objective):
    for seed in range(6):
        instance = rigid(seed, requests=(3, 5), budgets=False)
        optimum = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        values, bounds = [], [0]
        for found in climb(Task(instance, objective)):
            if isinstance(found, Proposal):
                bounds.append(certify(instance, objective, *found).value)
            else:
                values.append(objective_value(verify_schedule(instance, found), objective))
        assert values[-1] == bounds[-1] == optimum
        assert values == sorted(values, reverse=True)


def test_the_theory_familys_example_is_certified_in_a_few_tries():
    result = solvers.solve(builtin_instance(FAMILY))
    assert (result.status, result.value, result.certificate.proof.kind) == ("optimal", 626, "configurations")
    proof = result.certificate.proof
    assert proof.tries < 10_000
    assert verify_certificate(result.instance, Certificate.model_validate_json(result.certificate.to_json())) == 626
    with pytest.raises(InvalidCertificate, match=f"does not end within {proof.tries - 1} tries"):
        proof.replace(tries=proof.tries - 1).value(result.instance, FLOW)
    with pytest.raises(InvalidCertificate, match="finds starts at 626, below 627"):
        proof.replace(target=627, tries=10**6).value(result.instance, FLOW)


def test_a_beam_proves_nothing_and_finds_a_schedule():
    instance = builtin_instance(FAMILY)
    *_, proof = proofs(instance, FLOW, float("inf"))
    search = proof.search(instance, FLOW, Budget())
    assert StartSolver(Task(instance, FLOW), proof).search(500, 10**6, beam=True).proof is None
    assert search.run(500, 10**6, Layers(search, 1).look).cost is None
    assert search.run(700, 10**6, Layers(search, 5).look).cost < 700
    assert search.run(626, 10**6).proved


def test_a_layer_that_is_too_large_ends_the_search(monkeypatch):
    monkeypatch.setattr("kvcore.certificates.budget.Most.layer", 3)
    instance = builtin_instance(FAMILY)
    proof = priced(instance, FLOW, random.Random(1), 600)
    with pytest.raises(InvalidCertificate, match="does not end within"):
        proof.value(instance, FLOW)


def test_sums_beyond_64_bits_are_refused():
    instance = builtin_instance("hindsight:n=3,M=12,seed=1")
    kinds, running = kinds_of(instance, FLOW), Running([], 12, 10, Budget())
    none = np.zeros(0, np.int64)
    with pytest.raises(InvalidCertificate, match="too large, or its requests too many"):
        module.ConfigurationSearch(kinds, (2**60,) * 3, 1, 12, none, running, np.zeros((0, 3), np.int64))


@pytest.mark.parametrize(
    ("length", "count", "what"), [(40_000, 2, None), (90, 22, "too long|too much can run|too large")]
)
def test_long_requests_take_no_more_memory_than_is_there(length, count, what):
    requests = [request(f"R{i}", 1 + i, length - i) for i in range(count)]
    instance = make(*requests, memory=10**7, **RIGID)
    alone = sum(each.output for each in requests)
    proof = Configurations(memory=(), starts=(None,) * count, target=alone + 1, tries=100)
    with pytest.raises(InvalidCertificate, match=what or f"finds starts at {alone}"):
        proof.replace(starts=(0,) * count if what else proof.starts).value(instance, FLOW)


def test_the_search_takes_no_more_than_its_budget_has():
    instance = builtin_instance(FAMILY)
    proof = priced(instance, FLOW, random.Random(1), 600, tries=10**9)
    with pytest.raises(InvalidCertificate, match="a search of 1000000000 tries would take too long"):
        proof.prove(instance, FLOW, Budget(work=10**11))
