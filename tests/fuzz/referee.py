"""The referee against the second referee: the same verdict, the same rule, the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from kvcore import OBJECTIVES, InvalidSchedule
from kvcore import referee as validator
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.draw import TRAITS, tiny, traits
from tests.kvcore.test_properties import assert_same_memory, assert_same_values
from tests.support.random_schedules import fold, mutate, random_instance, random_schedule, tighten
from tests.support.second_referee import Refusal, execute

MUTANTS = 10


def make(draw: Random) -> Iterator[Case]:
    """A random valid schedule, folded, under tighter limits, and with random changes."""
    instance = random_instance(draw) if draw.random() < 0.5 else tiny(draw)[1]
    try:
        schedule = random_schedule(draw, instance)
    except AssertionError:  # it takes more batches than are drawn
        return
    case = Case(instance, "makespan", 0, schedule)
    yield case
    yield replace(case, schedule=fold(schedule))
    trace = validator.verify_schedule(instance, schedule)
    peak = {
        "memory": max(batch.device for batch in trace.batches),
        "host_memory": max(batch.host for batch in trace.batches),
        "batch_tokens": max(1, *(batch.features.tokens for batch in trace.batches)),
    }
    for _ in range(3):
        try:
            yield case.of(instance.replace(machine=instance.machine.replace(**tighten(draw, instance, peak))))
        except ValueError:  # a request does not even fit alone
            continue
    for _ in range(MUTANTS):
        yield replace(case, schedule=mutate(draw, instance, schedule))


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where the two differ."""
    instance, schedule = case.instance, case.schedule
    if schedule is None or sum(batch.repeat for batch in schedule.batches) > 500:
        raise Skip
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
        seen[f"breaks R{broken.rule}"] += 1
    else:
        if isinstance(expected, Refusal):
            raise Wrong(f"referee is wrong about R{expected.rule}", f"it accepts what is {expected}")
        try:
            assert_same_values(trace, expected)
            assert_same_memory(trace, expected)
        except AssertionError as error:
            raise Wrong("referee gives other values", error) from error
        states = [{id: tuple(s) for id, s in trace.states(j).items()} for j in range(len(expected.states))]
        if states != expected.states:
            raise Wrong("referee has other states")
        seen["valid"] += 1
        seen["repeated"] += any(batch.repeat > 1 for batch in schedule.batches)
        seen.update(f"objective {name}" for name in OBJECTIVES)
    seen.update(traits(instance))


REACH = TRAITS | {f"breaks R{rule}" for rule in range(1, 12)} | {"valid", "repeated"}
PART = Part("referee", make, check, frozenset(REACH), tries=1500)
