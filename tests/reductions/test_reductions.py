"""Every program returns, from random and optimal schedules, one of its reduced space that is valid and no worse."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from formulations.horizon import most_batches, transfers_make_drops
from formulations.refills import drops_need_batches, splitting
from kvcore import OBJECTIVES, Cost, Instance, objective_value, verify_schedule
from kvcore.schedule import Schedule
from tests.fuzz.draw import tiny
from tests.reductions.drops import few_batches
from tests.reductions.early import early
from tests.reductions.exchange import ends_in_order, exchanged, is_in_order
from tests.reductions.prefills import is_whole, whole_prefills
from tests.reductions.waits import at_once, without_waits
from tests.reductions.windows import put_off
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.random_schedules import random_instance, random_schedule

DATA = Path(__file__).parents[1] / "data"
SEEDS = few(range(240))
PACED = [name for name in OBJECTIVES if name != "late-requests"]
"""Objectives that no earlier token raises, SLOs or not."""


def cases(seeds, change=lambda instance: instance):
    """Yield instances of all corners with a schedule: random ones, and optimal ones of some objective."""
    for seed in seeds:
        draw = Random(seed)
        instance = change(random_instance(draw) if seed % 4 == 0 else tiny(draw)[1])
        if instance is None:
            continue
        yield instance, random_schedule(draw, instance, carriers=draw.choice([0.0, 0.3, 0.6]))
        try:
            yield instance, exhaustive_optimum(instance, draw.choice(list(OBJECTIVES)), max_states=600)[1]
        except TooManyStates:
            continue


def no_worse(instance, before, after, objectives=PACED, of=None):
    """Assert that the schedule `after` is valid and no worse than `before` (one of the instance `of`)."""
    old, new = verify_schedule(of or instance, before), verify_schedule(instance, after)
    for name in objectives:
        assert objective_value(new, name) <= objective_value(old, name), name


def test_early():
    for instance, schedule in cases(SEEDS):
        no_worse(instance, schedule, early(instance, schedule))


def test_waits():
    for instance, schedule in cases(SEEDS):
        there = at_once(instance)
        found = without_waits(instance, schedule)
        no_worse(there, schedule, found, ["busy-time"], of=instance)
        trace = verify_schedule(there, found)
        assert objective_value(trace, "makespan") == objective_value(trace, "busy-time")


def test_exchange():
    done = 0
    for instance, schedule in cases(SEEDS):
        alike = [
            (a.id, b.id) for a in instance.requests for b in instance.requests if a.shape == b.shape and a.id < b.id
        ]
        for pair in alike:
            no_worse(instance, schedule, exchanged(instance, schedule, *pair), OBJECTIVES)
            done += 1
        found = ends_in_order(instance, schedule)
        no_worse(instance, schedule, found, OBJECTIVES)
        assert is_in_order(instance, found)
    assert done >= 5


def free_and_whole(instance):
    requests = tuple(r.with_calls(lambda call: call.replace(handling="free")) for r in instance.requests)
    machine = instance.machine.replace(partial=False)
    try:
        return instance.replace(requests=requests, machine=machine, cost=Cost.unit())
    except ValueError:
        return None


def test_windows():
    times = 0
    for seed in few(range(1200)):
        instance = free_and_whole(random_instance(Random(seed)))
        if instance is not None and any(request.calls for request in instance.requests):
            schedule = random_schedule(Random(seed), instance)
            found, moved = put_off(instance, schedule)
            no_worse(instance, schedule, found, OBJECTIVES)
            times += moved
    assert times >= 5


def without_host(instance):
    try:
        return instance.replace(machine=instance.machine.replace(host_memory=0, pause=True))
    except ValueError:
        return None


def compared_drops(instance, schedule):
    """Compare the schedule with few batches, and count it against the horizon; return whether any batch is gone."""
    found = few_batches(instance, schedule)
    no_worse(instance, schedule, found)
    trace = verify_schedule(instance, found)
    needed = instance.machine.evict and drops_need_batches(instance)
    works = [bool(batch.work) for batch in found.batches]
    assert all(works) if not needed else all(a or b for a, b in pairwise(works))
    assert len(works) <= most_batches(instance, objective_value(trace, "busy-time"))[0]
    return len(works) < len(verify_schedule(instance, schedule).batches)


def test_drops():
    """Where a batch for drops alone may not pay, none is left; the horizons count those that are."""
    gone = {False: 0, True: 0}
    for instance, schedule in cases(SEEDS, without_host):
        assert transfers_make_drops(instance)
        gone[instance.machine.evict and drops_need_batches(instance)] += compared_drops(instance, schedule)
    assert min(gone.values()) >= 3


def test_drops_fails_with_the_rule_that_was_false(monkeypatch):
    """F1: chunks were forgotten. The program then returns what no referee takes, or what is worse."""
    instance = Instance.model_validate_json((DATA / "drops.json").read_text())
    schedule = Schedule.model_validate_json((DATA / "drops-schedule.json").read_text())
    assert not compared_drops(instance, schedule)
    monkeypatch.setattr("tests.reductions.drops.drops_need_batches", lambda instance: False)
    with pytest.raises(Exception, match="R8 is broken"):
        compared_drops(instance, schedule)


def splits(instance):
    """The instance with prefills to split, where that is said to be of no use."""
    machine = {"chunked": True, "batch_tokens": None, "prefill_tokens": None}
    machine |= {"pause": True, "host_memory": 0} if instance.machine.evict else {}
    try:
        made = instance.replace(machine=instance.machine.replace(**machine))
        if not made.cost.always_one_tick:
            made = at_once(made)
    except ValueError:
        return None
    return made if splitting(made, "late-requests") == "none" else None


def test_whole_prefills():
    joined = 0
    for instance, schedule in cases(few(range(960)), splits):
        found = whole_prefills(instance, schedule)
        no_worse(instance, schedule, found)
        assert is_whole(instance, found)
        joined += not is_whole(instance, schedule)
    assert joined >= 5
