"""The referee and a second one agree on random schedules and on random mutations of them."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kvcore import Instance, InvalidSchedule, Schedule, handlings, measures, objective_value, verify_schedule
from tests.support.random_schedules import fold, mutate, random_instance, random_schedule, tighten
from tests.support.second_referee import Outcome, Refusal, execute

DETERMINISTIC = {"derandomize": True, "deadline": None, "database": None}
MUTANTS = 12
"""Mutants of each random schedule."""


def agree(instance: Instance, schedule: Schedule) -> int:
    """Assert that the referee and the second referee agree in everything; return the rule broken (0: none)."""
    expected = execute(instance, schedule)
    if isinstance(expected, Refusal):
        with pytest.raises(InvalidSchedule, match=f"R{expected.rule} is broken in batch {expected.batch}") as caught:
            verify_schedule(instance, schedule)
        assert (caught.value.rule, caught.value.batch) == (expected.rule, expected.batch)
        assert caught.value.request in expected.requests
        return expected.rule
    trace = verify_schedule(instance, schedule)
    assert_same_values(trace, expected)
    assert_same_memory(trace, expected)
    for boundary, states in enumerate(expected.states):
        assert {id: tuple(state) for id, state in trace.states(boundary).items()} == states, boundary
    return 0


def assert_same_values(trace, expected: Outcome) -> None:
    assert {name: objective_value(trace, name) for name in expected.objectives} == expected.objectives
    report = measures(trace)
    requests = report["requests"]
    assert {id: of["completion"] for id, of in requests.items()} == expected.completion
    assert {id: of["ttft"] for id, of in requests.items()} == expected.ttft
    shown = {id: None if value is None else str(value) for id, value in expected.tpot.items()}
    assert {id: None if of["tpot"] is None else str(of["tpot"]) for id, of in requests.items()} == shown
    assert {id for id, of in requests.items() if of["late"]} == expected.late
    assert handlings(trace) == expected.handling
    assert report["tokens_processed"] == expected.processed
    assert report["tokens_recomputed"] == expected.recomputed
    assert report["tokens_swapped_out"] == expected.swapped_out
    assert report["tokens_swapped_in"] == expected.swapped_in
    assert report["waste"] == expected.waste | {"total": sum(expected.waste.values())}


def assert_same_memory(trace, expected: Outcome) -> None:
    assert report_batches(trace) == expected.batches
    assert measures(trace)["peak_memory"] == max(batch["device"] for batch in expected.batches)
    curve, memory = dict(trace.memory_curve()), []
    for tick in range(len(expected.memory)):
        memory.append(curve.get(tick, memory[-1] if memory else 0))
    assert memory == expected.memory
    assert trace.memory_curve()[-1] == (len(expected.memory), 0)


def report_batches(trace) -> list[dict[str, int]]:
    names = ("start", "duration", "device", "device_after", "host")
    return [{name: getattr(batch, name) for name in names} for batch in trace.batches]


def check_case(draw: random.Random, instance: Instance) -> Counter:
    """Compare on one random schedule, its mutants, and its machine with one limit or switch changed."""
    schedule = random_schedule(draw, instance)
    assert agree(instance, schedule) == 0, "the random schedule is valid"
    seen: Counter = Counter(valid=1)
    folded = fold(schedule)
    if agree(instance, folded) == 0:
        trace = verify_schedule(instance, folded)
        assert agree(instance, trace.expanded()) == 0
        seen["repeated"] += any(len(run.ends) > 1 for run in trace.runs)
    for _ in range(MUTANTS):
        seen[agree(instance, mutate(draw, instance, schedule))] += 1
    trace = verify_schedule(instance, schedule)
    peak = {
        "memory": max(batch.device for batch in trace.batches),
        "host_memory": max(batch.host for batch in trace.batches),
        "batch_tokens": max(1, *(batch.features.tokens for batch in trace.batches)),
        "batch_requests": max(
            1, *(batch.features.decode_requests + batch.features.prefill_requests for batch in trace.batches)
        ),
    }
    for _ in range(3):
        try:
            changed = instance.replace(machine=instance.machine.replace(**tighten(draw, instance, peak)))
        except ValidationError:
            continue  # some request does not even fit alone
        seen[agree(changed, schedule.model_copy(update={"instance_sha256": changed.sha256}))] += 1
    return seen


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], **DETERMINISTIC)
@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_the_referee_agrees_with_the_second_referee(shrinkable: random.Random, seed: int) -> None:
    check_case(random.Random(seed), random_instance(shrinkable))


@pytest.mark.slow
@settings(max_examples=2000, suppress_health_check=[HealthCheck.too_slow], **DETERMINISTIC)
@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_the_referee_agrees_with_the_second_referee_on_many(shrinkable: random.Random, seed: int) -> None:
    check_case(random.Random(seed), random_instance(shrinkable))


def drawn_schedules() -> str:
    """Return a digest of random schedules and mutants of them."""
    digest = hashlib.sha256()
    for seed in range(40):
        draw = random.Random(seed)
        instance = random_instance(draw)
        schedule = random_schedule(draw, instance)
        digest.update(schedule.to_json().encode() + mutate(draw, instance, schedule).to_json().encode())
    return digest.hexdigest()


def test_what_is_drawn_does_not_depend_on_the_order_of_sets() -> None:
    command = [sys.executable, "-c", f"import {__name__} as it; print(it.drawn_schedules())"]
    for seed in ("1", "2"):
        other = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        assert subprocess.run(command, env=other, capture_output=True, text=True).stdout.strip() == drawn_schedules()


def test_fixed_seeds_meet_every_rule_and_accepted_mutants() -> None:
    seen: Counter = Counter()
    for seed in range(80):
        draw = random.Random(seed)
        seen += check_case(draw, random_instance(draw))
    missed = [rule for rule in range(1, 12) if not seen[rule]]
    assert not missed, f"no mutant breaks {missed}: {seen}"
    assert seen[0] > 100, seen
    assert seen["repeated"] > 10, seen
    assert sum(seen[rule] for rule in range(1, 12)) > 400, seen
