"""Every program returns, from random and optimal schedules, one of its reduced space that is valid and no worse."""

from copy import deepcopy
from dataclasses import replace
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path
from random import Random

import pytest

from formulations.horizon import most_batches, transfers_make_drops
from formulations.refills import drops_need_batches, splitting
from kvcore import OBJECTIVES, Cost, Instance, objective_value, verify_schedule
from kvcore.schedule import Schedule
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.scope import OBJECTIVES as FLOW_TIMES
from solvers.lagrange.scope import why_not
from solvers.lagrange.setting import make_setting
from tests.fuzz.draw import tiny
from tests.reductions.drops import few_batches
from tests.reductions.early import early
from tests.reductions.exchange import ends_in_order, exchanged, is_in_order
from tests.reductions.lives import held, is_path, lives, schedule_of_lives, works
from tests.reductions.places import early_drops, hosted, parts_late
from tests.reductions.prefills import is_whole, whole_prefills
from tests.reductions.segments import late_segments
from tests.reductions.waits import at_once, without_waits
from tests.reductions.windows import put_off
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.random_schedules import random_instance, random_schedule
from tests.support.tiny_instances import tiny_instance

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


# --- the network of slots --------------------------------------------------------------------------------------------

SLOTTED = {"partial": False, "hybrid": True, "cost": "unit"}
GAPS = {"arrival": (0, 0, 2, 6, 9), "duration": (0, 0, 1, 4, 7), "returns": (0, 1, 3), "block": (1, 2, 3)}
NO_BUDGETS = {"batch_tokens": None, "prefill_tokens": None, "batch_requests": None}
WIDE = {"batch_requests": None, "prefill_tokens": None, "batch_tokens": (None, 4, 6, 8)}
CHUNKS = {"batch_requests": None, "prompt": (2, 3, 4, 5, 6), "batch_tokens": (3, 4, 5), "chunked": True}


def slotted(seeds, **fixed):
    """Yield instances that the network takes, from the corners of its reductions, with random and optimal schedules."""
    for seed in seeds:
        draw = Random(seed)
        corner = draw.choice([{}, GAPS]) | draw.choice([{}, {"handling": "free"}]) | SLOTTED
        corner |= draw.choice([{}, WIDE, CHUNKS, NO_BUDGETS | {"pause": False}]) | fixed
        instance = tiny_instance(seed, **{"pause": True} | corner)
        if why_not(instance, "weighted-flow-time") is None:
            yield instance, random_schedule(draw, instance, carriers=draw.choice([0.0, 0.3]))
            yield instance, random_schedule(draw, instance)
            try:
                yield instance, exhaustive_optimum(instance, draw.choice(FLOW_TIMES), max_states=600)[1]
            except TooManyStates:
                continue


def are_paths(network, found):
    """Whether all lives are paths that take in each slot what they do, and fit together in each, idle or not."""
    machine = network.instance.machine
    for slot in zip_longest(*(held(life, range(max(life) + 1)) for life in found.values()), fillvalue=(0, 0, 0)):
        blocks, hosted = (sum(machine.blocks(device) for _, device, _ in slot), sum(host for *_, host in slot))
        assert blocks <= (blocks if machine.memory is None else machine.block_limit)
        assert hosted <= (hosted if machine.host_memory is None else machine.host_memory)
    return all(is_path(network, request, found[request.id]) for request in network.instance.requests)


def fresh_tokens(request, life):
    """Yield (slot, tokens) that no batch before can have processed (`tokens_so_far`)."""
    towards = iter(works(request, life))
    for segment, first in zip(request.segments, [request.prompt, *(c.returns + 1 for c in request.calls)], strict=True):
        yield from ((next(towards)[-1].slot, 1 if generated else first) for generated in range(segment.decode))


def test_late_segments():
    """Without token budgets. Tokens that are processed for the first time keep to the budgets up to each slot."""
    changed = {(evict, pause): 0 for evict in (False, True) for pause in (False, True)}
    limited = 0
    for instance, schedule in slotted(few(range(600))):
        network = PathNetwork(instance, FLOW_TIMES[0])
        if not network.is_late:
            continue
        machine, before = instance.machine, lives(instance, schedule)
        wide = instance.replace(machine=machine.replace(batch_tokens=None, prefill_tokens=None))
        found = late_segments(instance, schedule)
        no_worse(wide, schedule, schedule_of_lives(wide, found), FLOW_TIMES, of=instance)
        assert are_paths(network, found)
        if not machine.pause:  # then breaks are of no use
            assert are_paths(PathNetwork(instance, FLOW_TIMES[0], exact=True), found)
        if machine.batch_tokens is not None:
            slots, tokens = zip(
                *sorted(x for r in instance.requests for x in fresh_tokens(r, found[r.id])), strict=True
            )
            so_far = zip(slots, accumulate(tokens), strict=True)
            assert all(processed <= machine.batch_tokens * (t + 1) for t, processed in so_far)
            limited += 1
        changed[machine.evict, machine.pause] += not are_paths(network, before)
    assert min(changed.values()) >= 5
    assert limited >= 5


def test_the_network_without_eviction():
    """One after another; then each life is a path, whether the host has room for all or not."""
    changed = dict.fromkeys((early_drops, parts_late, hosted), 0)
    excluded = {False: 0, True: 0}
    for instance, schedule in slotted(few(range(900)), evict=False, pause=True):
        network, found = PathNetwork(instance, FLOW_TIMES[0], exact=True), lives(instance, schedule)
        excluded[network.setting.hosted] += not are_paths(network, found)
        for program in changed if network.setting.hosted else (early_drops, parts_late):
            before = deepcopy(found)
            program(instance, found)
            no_worse(instance, schedule, schedule_of_lives(instance, found), FLOW_TIMES)
            changed[program] += found != before
        assert are_paths(network, found)
    assert min(*changed.values(), *excluded.values()) >= 5


def test_the_network_fails_with_a_rule_that_is_false(monkeypatch):
    """Of a split prefill one token less than `most_partial` is to be early: some schedule is no path then."""

    def stricter(instance):
        setting = make_setting(instance)
        return replace(setting, most_partial=setting.most_partial and setting.most_partial - 1)

    monkeypatch.setattr("solvers.lagrange.network.make_setting", stricter)
    with pytest.raises(AssertionError, match="are_paths"):
        test_the_network_without_eviction()


def test_the_network_with_eviction_leaves_nothing_out():
    for instance, schedule in slotted(few(range(300)), evict=True, pause=True):
        assert are_paths(PathNetwork(instance, FLOW_TIMES[0], exact=True), lives(instance, schedule))
