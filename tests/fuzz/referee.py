"""The referee, `library/check.py` and accounts of every tick: the same verdict, the same rule, the same values."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from kvcore import OBJECTIVES, Instance, InvalidSchedule, Schedule, Trace, handlings, measures, objective_value
from kvcore import referee as validator
from library import check as second
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.draw import TRAITS, tiny, traits
from tests.support.drawer import draw_instance
from tests.support.random_schedules import fold, mutate, random_schedule, tighten
from tests.support.second_referee import Outcome, Refusal, execute

MUTANTS = 12


def make(draw: Random) -> Iterator[Case]:
    """A random valid schedule, folded, under tighter limits, and with random changes."""
    instance = draw_instance(draw) if draw.random() < 0.5 else tiny(draw)[1]
    try:
        schedule = random_schedule(draw, instance)
    except AssertionError:  # it takes more batches than are drawn
        return
    case = Case(instance, "makespan", 0, schedule)
    yield case
    yield replace(case, schedule=fold(schedule))
    trace = validator.verify_schedule(instance, schedule)
    features = [batch.features for batch in trace.batches]
    peak = {
        "memory": max(batch.device for batch in trace.batches),
        "host_memory": max(batch.host for batch in trace.batches),
        "batch_tokens": max(1, *(each.tokens for each in features)),
        "batch_requests": max(1, *(each.decode_requests + each.prefill_requests for each in features)),
    }
    for _ in range(3):
        try:
            yield case.of(instance.replace(machine=instance.machine.replace(**tighten(draw, instance, peak))))
        except ValueError:  # a request does not even fit alone
            continue
    for _ in range(MUTANTS):
        yield replace(case, schedule=mutate(draw, instance, schedule))


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where two differ."""
    schedule = case.schedule
    if schedule is None or sum(batch.repeat for batch in schedule.batches) > 500:
        raise Skip
    rule = agree(case.instance, schedule)
    if rule:
        seen[f"breaks R{rule}"] += 1
    else:
        seen["valid"] += 1
        seen["repeated"] += any(batch.repeat > 1 for batch in schedule.batches)
        seen.update(f"objective {name}" for name in OBJECTIVES)
    seen.update(traits(case.instance))


def agree(instance: Instance, schedule: Schedule) -> int:
    """Return the rule that all say is broken (0: none, and all give the same values); raise Wrong where two differ."""
    expected = execute(instance, schedule)
    try:
        trace = validator.verify_schedule(instance, schedule)
    except InvalidSchedule as broken:
        if not isinstance(expected, Refusal):
            raise Wrong("referee refuses a valid schedule", broken) from None
        if (broken.rule, broken.batch) != (expected.rule, expected.batch):
            raise Wrong(f"referee is wrong about R{expected.rule}", f"{broken}, not {expected}") from None
        if broken.request not in expected.requests:
            raise Wrong(f"referee names another request for R{expected.rule}", f"{broken}, not {expected}") from None
        if as_files(instance, schedule) != (broken.rule, broken.batch):
            raise Wrong(f"check.py is wrong about R{broken.rule}", broken) from None
        return broken.rule
    if isinstance(expected, Refusal):
        raise Wrong(f"referee is wrong about R{expected.rule}", f"it accepts what is {expected}")
    try:
        assert_same(trace, expected)
    except AssertionError as error:
        raise Wrong("referee gives other values", error) from error
    if as_files(instance, schedule) != {n: objective_value(trace, n) for n in (*second.OBJECTIVES, *second.TAILS)}:
        raise Wrong("check.py gives other values")
    if any(batch.repeat > 1 for batch in schedule.batches):
        return agree(instance, trace.expanded().replace(instance_sha256=instance.sha256))
    return 0


def as_files(instance: Instance, schedule: Schedule) -> object:
    """Return what `library/check.py` says of the files: the values, or the rule that is broken and the batch."""
    data = second.read_instance(json.loads(instance.to_json()))
    assert second.sha256(data) == instance.sha256
    try:
        return second.verify_schedule(data, json.loads(schedule.to_json()))
    except second.Broken as broken:
        said = f"R{broken.rule} is broken in batch {broken.batch}" in str(broken)
        return said and (broken.rule, broken.batch)


def assert_same(trace: Trace, expected: Outcome) -> None:
    """Assert that a trace gives the accounts: of requests, of batches and of memory, tick by tick."""
    assert {name: objective_value(trace, name) for name in expected.objectives} == expected.objectives
    report = measures(trace)
    requests = report["requests"]
    assert {id: of["completion"] for id, of in requests.items()} == expected.completion
    assert {id: of["ttft"] for id, of in requests.items()} == expected.ttft
    shown = {id: None if value is None else str(value) for id, value in expected.tpot.items()}
    assert {id: None if of["tpot"] is None else str(of["tpot"]) for id, of in requests.items()} == shown
    assert {id for id, of in requests.items() if of["late"]} == expected.late
    assert handlings(trace) == expected.handling
    for name in ("processed", "recomputed", "swapped_out", "swapped_in"):
        assert report[f"tokens_{name}"] == getattr(expected, name)
    assert report["waste"] == expected.waste | {"total": sum(expected.waste.values())}
    names = ("start", "duration", "device", "device_after", "host")
    assert [{name: getattr(batch, name) for name in names} for batch in trace.batches] == expected.batches
    assert report["peak_memory"] == max(batch["device"] for batch in expected.batches)
    curve, memory = dict(trace.memory_curve()), []
    for tick in range(len(expected.memory)):
        memory.append(curve.get(tick, memory[-1] if memory else 0))
    assert memory == expected.memory
    assert trace.memory_curve()[-1] == (len(expected.memory), 0)
    for boundary, states in enumerate(expected.states):
        assert {id: tuple(state) for id, state in trace.states(boundary).items()} == states, boundary


REACH = TRAITS | {f"breaks R{rule}" for rule in range(1, 12)} | {"valid", "repeated"}
PART = Part("referee", make, check, frozenset(REACH), tries=1500)
