"""The enumeration of states with contents: optima that both checkers prove, and what it declines."""

import json
import random
from contextlib import suppress
from fractions import Fraction
from math import inf
from unittest.mock import patch

import pytest

import solvers
from bounds.enumeration import propose_enumeration
from bounds.tails import propose_tails
from bounds.task import Proposal, Task
from kvcore import BadInput, CostFunction, Instance, Slo, objective_value, verify_schedule
from kvcore.certificates import (
    Alone,
    Certificate,
    Enumeration,
    InvalidCertificate,
    LateTail,
    certify,
    verify_certificate,
)
from kvcore.certificates.budget import Budget
from kvcore.metrics import Value
from kvcore.schedule import Schedule
from library import check
from tests.support.build import request
from tests.support.contents import IDLE, TOKENS, idling, shared
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few

ORDER = ("total-flow-time", "makespan", "max-flow-time")


def solved(instance: Instance, objective: str) -> tuple[Schedule, Certificate]:
    """Return the schedule and the last certificate of the enumeration."""
    *_, (proof, bound), schedule = propose_enumeration(Task(instance, objective))
    return schedule, certify(instance, objective, proof, bound)


def test_an_optimum_idles_to_keep_a_prefix() -> None:
    schedule, certificate = solved(IDLE, "total-flow-time")
    assert schedule == idling().schedule
    assert certificate.bound == "11"


def sharing(seed: int) -> Instance:
    """Return four requests on a forest of six blocks, and not enough memory for all."""
    draw = random.Random(seed)
    tree = (("a", None, 2), ("b", "a", draw.choice((1, 2))), ("c", "a", 1), ("d", None, 1))
    ends = [end for id, _, blocks in tree for end in ((id, k) for k in range(1, blocks + 1))]
    longest = {"a": 0, "b": 2, "c": 2, "d": 0}
    machine = tiny_instance(seed, block=1, requests=4, batch_tokens=None, prefill_tokens=None).machine
    requests = []
    for id in "ABCD":
        node, k = draw.choice(ends)
        prompt, calls = longest[node] + k + draw.choice((0, 0, 1)), draw.random() < 0.2
        call = [(1, 1, draw.choice((0, 1)), "discard")] * calls
        arrival = draw.choice((0, 0, 1, 3, 4))
        requests.append(request(id, prompt, *call, 1, arrival=arrival, path=(node, k)))
    peak = max(each.peak for each in requests)
    given = machine.replace(memory=peak + draw.choice((0, 0, 1, 2)), host_memory=draw.choice((0, 0, 2)), partial=False)
    given = given.replace(same_batch=draw.random() < 0.5, pause=given.pause or given.evict)
    made = shared(*requests, tree=tree, cost=TOKENS)
    return made.replace(machine=given)


def second(instance: Instance, certificate: Certificate) -> Value | None:
    """Return what `library/check.py` proves in 3,000 tries (None: it needs more)."""
    with patch.object(check, "MOST_TRIED", 3000), suppress(check.NotChecked):
        data = json.loads(instance.to_json()), json.loads(certificate.to_json())
        return check.verify_certificate(check.read_instance(data[0]), data[1])[1]
    return None


def test_four_requests_and_six_blocks_are_proved_by_both_checkers() -> None:
    reused = forgot = by_both = 0
    seeds = few(range(90), 15)
    for seed in seeds:
        instance, objective = sharing(seed), ORDER[seed % 3]
        schedule, certificate = solved(instance, objective)
        value = objective_value(verify_schedule(instance, schedule), objective)
        assert value == verify_certificate(instance, certificate), seed
        other = second(instance, certificate)
        assert other in (value, None), seed
        by_both += other is not None
        assert seed % 4 or value == exhaustive_optimum(instance, objective)[0], seed
        reused += any(batch.reuse for batch in schedule.batches)
        forgot += any(batch.forget for batch in schedule.batches)
    assert by_both >= len(seeds) // 2
    assert reused > 0
    assert forgot > 0


def due(seed: int) -> Instance:
    """Return four requests of `sharing`, most of them with SLOs."""
    draw, instance = random.Random(seed), sharing(seed)
    slos = [Slo(latency=draw.randint(2, 12), ttft=draw.choice((None, draw.randint(1, 7)))) for _ in instance.requests]
    slos = draw.choice((slos, slos[:1] * 4))
    return instance.replace(requests=tuple(r.replace(slo=slo) for r, slo in zip(instance.requests, slos, strict=True)))


def test_late_requests_are_proved_by_both_checkers() -> None:
    late = by_both = 0
    for seed in (seeds := few(range(54))):
        instance = due(seed)
        schedule, certificate = solved(instance, "late-requests")
        value = objective_value(verify_schedule(instance, schedule), "late-requests")
        assert value == verify_certificate(instance, certificate), seed
        other = second(instance, certificate)
        assert other in (value, None), seed
        by_both += other is not None
        assert seed % 4 or value == exhaustive_optimum(instance, "late-requests")[0], seed
        late += 0 < value < 4
    assert by_both >= len(seeds) // 3
    assert late >= len(seeds) // 3


def test_percentiles_are_proved_by_both_checkers() -> None:
    by_both = tails = 0
    for seed in (seeds := few(range(27))):
        instance, objective = sharing(seed), ("p50-flow-time", "p99-flow-time", "p50-ttft")[seed % 3]
        (proof, bound), best = Proposal(Alone(), Alone().value(instance, objective)), inf
        with suppress(BadInput):  # no more is to be proved
            for found in propose_tails(Task(instance, objective)):
                if isinstance(found, Proposal):
                    proof, bound = found
                else:
                    best = objective_value(verify_schedule(instance, found), objective)
        assert best == bound, seed
        certificate = certify(instance, objective, proof, bound)
        assert verify_certificate(instance, certificate) == bound, seed
        other = second(instance, certificate)
        assert other in (bound, None), seed
        by_both += other is not None
        tails += isinstance(proof, LateTail) and isinstance(proof.proof, Enumeration)
    assert by_both >= len(seeds) // 3
    assert tails >= len(seeds) // 3


def test_both_checkers_move_all_or_nothing_where_nothing_is_partial() -> None:
    """R1 swaps 3 tokens out for its call: to drop one of them there, and bring two back, would save a tick."""
    one = request("R1", 3, (1, 0, 0, "swap"), 1, path=("n", 3))
    on = shared(one, tree=(("n", None, 3),), cost=(CostFunction(busy=1, swap_in_tokens=1),), memory=8, evict=True)
    _, certificate = solved(on, "total-flow-time")
    assert second(on, certificate) == certificate.value == exhaustive_optimum(on, "total-flow-time")[0] == 5
    partial = on.replace(machine=on.machine.replace(partial=True))
    _, certificate = solved(partial, "total-flow-time")
    assert second(partial, certificate) == certificate.value == 4


def test_solve_is_optimal_by_the_certificate_alone() -> None:
    result = solvers.solve(IDLE)
    assert (result.status, result.value, result.proved_by) == ("optimal", 11, "enumeration")
    assert result.failed == []
    assert "the enumeration of states takes shared contents and layouts of KV" in result.chosen
    pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    claimed = solvers.solve(IDLE, formulation="cp-sat", certify_limit=0)
    assert (claimed.status, claimed.value, claimed.bound_kind) == ("claimed", 11, "solver")
    certified = solvers.solve(IDLE, formulation="cp-sat")
    assert (certified.status, certified.proved_by) == ("optimal", "enumeration")


def test_solve_begins_with_policies_that_share():
    """The contents of the second are there when it arrives: without them it takes 6 ticks more."""
    one, other = request("A", 7, 1, path=("a", 6)), request("B", 7, 1, arrival=20, path=("a", 6))
    instance = shared(one, other, tree=(("a", None, 6),), cost=TOKENS, memory=8, evict=True, chunked=True)
    found = solvers.solve(instance, formulation="alone", certify_limit=0)
    assert (found.value, found.schedule.batches[-1].reuse) == (8, {"B": 6})


def test_what_it_declines() -> None:
    plain = tiny_instance(0)
    with pytest.raises(
        BadInput, match="enumeration is for shared contents or a layout of KV; without them events sees more"
    ):
        propose_enumeration(Task(plain, "makespan"))
    due = IDLE.replace(requests=(IDLE.requests[0].replace(slo=Slo(tpot=Fraction(1))), *IDLE.requests[1:]))
    with pytest.raises(InvalidCertificate, match="enumeration is not proved with late-requests and TPOT SLOs"):
        Enumeration(states=9).value(due, "late-requests")
    long = shared(request("A", 1001, 1, path=("n", 1001)), tree=(("n", None, 1001),))
    with pytest.raises(InvalidCertificate, match="an enumeration takes at most 1000 blocks of contents"):
        Enumeration(states=9).value(long, "makespan")
    for budget, why in ((Budget(work=100), "too long"), (Budget(memory=100), "too much memory")):
        with pytest.raises(InvalidCertificate, match=f"of an enumeration would take {why} to check|requests .* {why}"):
            Enumeration(states=9).checked(IDLE, "makespan", budget)


def test_a_deadline_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for looks, words in ((1, "no time for the batches of one state"), (400, None)):
        monkeypatch.setattr("bounds.enumeration._TimedBudget.every", looks)
        found = propose_enumeration(Task(IDLE, "total-flow-time", deadline=inf))
        monkeypatch.setattr(Task, "stops", lambda task: True)
        if words:
            with pytest.raises(BadInput, match=words):
                next(found)
        else:
            proof, bound = next(found)
            assert proof.value(IDLE, "total-flow-time") == bound < 11


def test_a_search_that_stops_early_proves_less() -> None:
    first, *_ = propose_enumeration(Task(IDLE, "total-flow-time"))
    assert isinstance(first, Proposal)
    bounds = [Enumeration(states=states).value(IDLE, "total-flow-time") for states in (1, 5, 20, 1000)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] == first.value == 11
