"""Percentiles: bounds are never above the truth, and meet it on tiny instances; tampered certificates are refused."""

import json
import random
from contextlib import suppress
from functools import cache

import pytest

from kvcore import BadInput
from kvcore.certificates import Certificate, InvalidCertificate, LateTail, certify, verify_certificate
from kvcore.files import parse
from kvcore.metrics import check_objective, tail_of, understood
from library import check
from solvers import simulate_policy
from solvers.choice import choose
from solvers.dual_bound import ladder, rungs
from solvers.improve import improve
from tests.kvcore.test_late_windows import MANY, batches, request
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum, least_percentile
from tests.support.few import few
from tests.support.random_proofs import random_late_windows

NAMES = ("p99-flow-time", "p99-ttft", "p70-flow-time", "p60-ttft", "p30-flow-time")


@cache
def cases(start, size=15):
    found = []
    for seed in range(start, start + size):
        with suppress(TooManyStates):
            instance, objective = tiny_instance(seed, **MANY | {"slo": False}), NAMES[seed % len(NAMES)]
            found.append((instance, objective, least_percentile(instance, objective, max_states=400)[0]))
    return found


@pytest.mark.parametrize("start", few(range(0, 900, 15), 60))
def test_bounds_are_never_above_the_truth_and_meet_it(start):
    draw, met, by_windows = random.Random(start), 0, 0
    for instance, objective, value in cases(start):
        *_, last = [
            rung for rung in rungs(instance, objective, ladder(instance), time_limit=10.0**6) if rung.bound is not None
        ]
        assert last.bound <= value, instance.name
        met += last.bound == value
        for within in (value - 1, value, value + 2):
            drawn = random_late_windows(draw, tail_of(objective).due(instance, max(0, within)))
            proved = LateTail(within=max(0, within), proof=drawn).value(instance, objective)
            assert proved <= value, instance.name
            by_windows += proved == value > 0
        data, search = check.read_instance(json.loads(instance.to_json())), check.Box(kind="events", states=1)
        for within, proved in ((value - 1, value), (value, 0)):
            assert check.late_tail(data, check.Box(within=within, proof=search), objective) == proved, instance.name
    assert met > 0.9 * len(cases(start)) > 5
    assert by_windows


def test_of_fewer_than_a_hundred_p99_is_the_largest():
    """Enumeration finds that in another way."""
    for seed in few(range(40), 10):
        with suppress(TooManyStates):
            instance = tiny_instance(seed, requests=(2, 3))
            largest = exhaustive_optimum(instance, "max-flow-time", max_states=400)[0]
            assert least_percentile(instance, "p99-flow-time", max_states=400)[0] == largest


def test_a_percentile_is_solved_and_both_checkers_refuse_a_tampered_certificate():
    """Six prompts, one a batch of ten ticks: half of the first tokens come within 30 ticks, and no more."""
    instance = batches(*(request(name) for name in "ABCDEF"), batch_requests=1)
    assert simulate_policy(instance, "on-time:ttft=30", "p50-ttft").value == 30
    result = next(rung for rung in rungs(instance, "p50-ttft", ladder(instance)) if rung.method == "late-tail")
    data, file = check.read_instance(json.loads(instance.to_json())), json.loads(result.certificate.to_json())
    assert check.verify_certificate(data, file) == ("p50-ttft", 30)
    rows = [[start, end, 0, 0] for start, end, *_ in file["proof"]["proof"]["rows"]]
    for change in ({"within": 30}, {"proof": file["proof"]["proof"] | {"rows": rows}}, {"within": 28}):
        tampered = file | {"proof": file["proof"] | change}
        with pytest.raises(check.Broken):
            check.verify_certificate(data, tampered)
        with pytest.raises(InvalidCertificate, match="proves"):
            verify_certificate(instance, parse(Certificate, json.dumps(tampered), "c.json"))
    with pytest.raises(InvalidCertificate, match="late-windows is not proved with percentiles"):
        certify(instance, "p99-ttft", result.certificate.proof.proof)
    with pytest.raises(BadInput, match="events is not proved with percentiles"):
        choose(instance, "p50-ttft", "events", "auto")


def test_the_best_due_time_has_a_name_that_makes_the_schedule_again():
    requests = [request(f"R{i}", arrival=9 * i, prompt=1 + i % 7, decode=3) for i in range(30)]
    instance = batches(*requests, batch_tokens=4)
    found = improve(instance, "p95-ttft", rounds=12)
    assert found.policy.startswith("on-time:")
    again = simulate_policy(instance, found.policy, "p95-ttft")
    assert (
        found.value == again.value < min(simulate_policy(instance, name, "p95-ttft").value for name in ("fcfs", "srpt"))
    )


def test_names():
    assert [understood(name) for name in ("P99_latency", "p50-ttft", "p99-flow-time")] == [
        "p99-flow-time", "p50-ttft", "p99-flow-time",
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"no objective is called 'p100-ttft'.* there are .*, p99-flow-time, p99-ttft"):
        check_objective("p100-ttft")
