"""Every program returns, from random and optimal schedules, one of its reduced space that is valid and no worse."""

from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from formulations.chains import apart, chains
from formulations.horizon import by_first_tokens, by_work, most_batches, transfers_make_drops
from formulations.refills import drops_need_batches, needs_chunks, refill_pays
from kvcore import (
    OBJECTIVES,
    Call,
    Cost,
    CostFunction,
    Instance,
    Machine,
    Request,
    Segment,
    Slo,
    objective_value,
    verify_schedule,
)
from kvcore.cost import TokensAbove
from kvcore.schedule import Schedule
from tests.fuzz.draw import tiny
from tests.reductions.copies import copied
from tests.reductions.drops import few_batches
from tests.reductions.early import closed, early
from tests.reductions.exchange import ends_in_order, exchanged, is_in_order
from tests.reductions.first_tokens import soon_done
from tests.reductions.parts import MOVES, late, schedule_of
from tests.reductions.prefills import is_whole, whole_prefills
from tests.reductions.transfers import joined
from tests.reductions.waits import at_once, without_waits
from tests.reductions.windows import put_off
from tests.support.drawer import draw_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.random_schedules import random_schedule

DATA = Path(__file__).parents[1] / "data"
SEEDS = few(range(240))
PACED = [name for name in OBJECTIVES if name != "late-requests"]
"""Objectives that no earlier token raises, SLOs or not."""


def cases(seeds, change=lambda instance: instance):
    """Yield instances of all corners with a schedule: random ones, and optimal ones of some objective."""
    for seed in seeds:
        draw = Random(seed)
        instance = change(draw_instance(draw) if seed % 4 == 0 else tiny(draw)[1])
        if instance is None:
            continue
        yield instance, random_schedule(draw, instance, carriers=draw.choice([0.0, 0.3, 0.6]))
        try:
            yield instance, exhaustive_optimum(instance, draw.choice(list(OBJECTIVES)), max_states=600)[1]
        except TooManyStates:
            continue


@cache
def any_cases():
    return list(cases(SEEDS))


def no_worse(instance, before, after, objectives=PACED, of=None):
    """Assert that the schedule `after` is valid and no worse than `before` (one of the instance `of`)."""
    old, new = verify_schedule(of or instance, before), verify_schedule(instance, after)
    for name in objectives:
        assert objective_value(new, name) <= objective_value(old, name), name


def test_early():
    for instance, schedule in any_cases():
        no_worse(instance, schedule, early(instance, schedule))


def test_closed():
    for instance, schedule in any_cases():
        found = closed(instance, schedule)
        no_worse(instance, schedule, found)
        old, new = (verify_schedule(instance, each) for each in (schedule, found))
        for before, after in zip(old.requests, new.requests, strict=True):
            assert after.completion - after.first_token <= before.completion - before.first_token
        calls = sum(request.call_time for request in instance.requests)
        waited = max(request.arrival for request in instance.requests) + calls
        assert objective_value(new, "makespan") <= waited + objective_value(new, "busy-time")


def test_waits():
    for instance, schedule in any_cases():
        there = at_once(instance)
        found = without_waits(instance, schedule)
        no_worse(there, schedule, found, ["busy-time"], of=instance)
        trace = verify_schedule(there, found)
        assert objective_value(trace, "makespan") == objective_value(trace, "busy-time")


def test_exchange():
    done = 0
    for instance, schedule in any_cases():
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
        instance = free_and_whole(draw_instance(Random(seed)))
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
    no_worse(instance, schedule, found, OBJECTIVES)
    trace = verify_schedule(instance, found)
    needed = instance.machine.evict and drops_need_batches(instance)
    works = [bool(batch.work) for batch in found.batches]
    assert all(works) if not needed else all(a or b for a, b in pairwise(works))
    assert len(works) <= most_batches(instance, objective_value(trace, "busy-time"))[0]
    return len(works) < len(verify_schedule(instance, schedule).batches)


def test_drops():
    """Where a batch for drops alone may not pay, none is left; the horizons count those that are."""
    gone = {False: 0, True: 0}
    for instance, schedule in cases(few(range(28, 268), 6), without_host):
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
    """The instance with longer prefills to split, where that is said to be of no use; often with one linear cost."""
    draw = Random(instance.sha256)
    requests = tuple(r.replace(arrival=0, prompt=r.prompt + draw.randint(1, 4)) for r in instance.requests)
    peaks = [request.peak for request in requests]
    machine = {"chunked": True, "evict": True, "pause": True, "host_memory": 0, "hybrid": True, "prefill_tokens": None}
    machine |= {"batch_tokens": draw.choice([None, None, sum(peaks), max(peaks)]), "batch_requests": None}
    machine |= {"memory": draw.choice([None, 3 * max(peaks)])}
    cost = instance.cost
    if draw.random() < 0.7:
        above = draw.choice([None, None, TokensAbove(knee=draw.randint(0, 4), coefficient=1)])
        features = {name: draw.choice([0, 1, 1, 2, 3]) for name in ("busy", "tokens", "prefill_requests", "prefill_kv")}
        cost = Cost((CostFunction(divisor=draw.randint(1, 4), tokens_above=above, **features),))
    try:
        made = instance.replace(requests=requests, machine=instance.machine.replace(**machine), cost=cost)
        made = made if cost.always_one_tick else at_once(made)
    except ValueError:
        return None
    return None if refill_pays(made) or needs_chunks(made) else made


def test_whole_prefills():
    joined = gone = 0
    for instance, schedule in cases(few(range(960), 16), splits):
        if not instance.cost.always_one_tick:
            schedule = early(instance, schedule)
        found = whole_prefills(instance, schedule)
        no_worse(instance, schedule, found, OBJECTIVES)
        assert is_whole(instance, found)
        joined += not is_whole(instance, schedule)
        gone += compared_drops(instance, schedule)
    assert min(joined, gone) >= (5 if ALL else 1)


def split_prefill(cost, tpot):
    """An instance of A (prompt 3) and B (prompt 2, then two tokens), and its schedule that splits A's prefill."""
    sizes, slo = {"A": (3, 1), "B": (2, 3)}, None if tpot is None else Slo(tpot=tpot)
    requests = tuple(Request(id=id, prompt=p, slo=slo, segments=(Segment(decode=o),)) for id, (p, o) in sizes.items())
    machine = Machine(memory=20, host_memory=0, evict=True)
    instance = Instance(name="split", machine=machine, cost=Cost((CostFunction(**cost),)), requests=requests)
    works = [{"A": 1, "B": 2}, {"A": 2, "B": 1}, {"B": 1}]
    if "busy" not in cost:
        works = [{"B": 2}, {"A": 1, "B": 1}, {"A": 2, "B": 1}]
    batches = [{"start": late(j), "work": work, **{kind: {} for kind in MOVES}} for j, work in enumerate(works)]
    return instance, early(instance, schedule_of(instance, batches))


@pytest.mark.parametrize(("objective", "tpot", "cost"), [
    ("makespan", None, {"busy": 1, "tokens": 1, "divisor": 2}),
    ("makespan", None, {"busy": 1, "tokens_above": TokensAbove(knee=3, coefficient=1)}),
    ("makespan", None, {"prefill_pairs": 1}),
    ("late-requests", Fraction(3), {"busy": 1, "tokens": 1}),
])  # fmt: skip
def test_prefills_need_chunks(objective, tpot, cost):
    """Each case breaks one condition of the rule; then taking prefills whole is worse."""
    instance, schedule = split_prefill(cost, tpot)
    assert not refill_pays(instance)
    assert needs_chunks(instance)
    with pytest.raises(AssertionError, match=objective):
        no_worse(instance, schedule, whole_prefills(instance, schedule), [objective])


def no_evict(instance):
    return instance.replace(machine=instance.machine.replace(evict=False))


def test_joined_transfers():
    """For busy-time each batch works."""
    gone = 0
    for instance, schedule in cases(few(range(20, 500), 6), no_evict):
        found = joined(instance, schedule)
        no_worse(instance, schedule, found, ["busy-time"])
        assert all(batch.work for batch in found.batches)
        assert len(found.batches) <= by_work(instance, "busy-time", 0).batches
        gone += len(found.batches) < len(schedule.batches)
        if by_work(instance, "makespan", 0) is not None and not transfers_make_drops(instance):
            assert all(batch.work for batch in schedule.batches)
    assert gone >= 20


def test_by_work_for_all_objectives():
    """Where KV is not swapped to any effect, each batch works."""
    gone = 0
    for instance, schedule in cases(few(range(960), 12), lambda made: without_host(no_evict(made))):
        found = few_batches(instance, schedule)
        no_worse(instance, schedule, found, OBJECTIVES)
        assert all(batch.work for batch in found.batches)
        assert len(found.batches) <= by_work(instance, "late-requests", 0).batches
        gone += len(found.batches) < len(schedule.batches)
    assert gone >= 5


def swaps_first(instance):
    """The instance as it is, or one in which each first token starts a call that swaps, with eviction."""
    if Random(instance.sha256).random() < 0.6:
        return instance
    first = Segment(decode=1, call=Call(duration=1, handling="swap"))
    requests = tuple(r.replace(segments=(first, *r.segments), max_new=None) for r in instance.requests)
    machine = instance.machine.replace(host_memory=None, memory=None, evict=True)
    try:
        return instance.replace(requests=requests, machine=machine)
    except ValueError:
        return None


def test_soon_done():
    gone = {False: 0, True: 0}
    for instance, schedule in cases(few(range(480), 24), swaps_first):
        value = objective_value(verify_schedule(instance, schedule), "total-ttft")
        horizon = by_first_tokens(instance, "total-ttft", value)
        if horizon is not None:
            less = few_batches(instance, schedule) if transfers_make_drops(instance) else schedule
            found = soon_done(instance, less)
            no_worse(instance, schedule, found, ["total-ttft"])
            assert len(found.batches) <= horizon.batches
            gone[instance.machine.evict] += len(found.batches) < len(less.batches)
    assert (min if ALL else max)(gone.values()) >= 5


def crowded(instance):
    """The instance with room for little more than the largest request."""
    draw, peaks = Random(instance.sha256), [request.peak for request in instance.requests]
    limits = dict.fromkeys(("batch_tokens", "prefill_tokens", "batch_requests"))
    room = instance.machine.block * max(map(instance.machine.blocks, peaks)) + draw.randint(0, max(peaks))
    return instance.replace(machine=instance.machine.replace(memory=room, **limits))


def test_requests_apart_have_their_last_prefills_apart():
    """No program: it holds of every schedule. Of other requests some share the batch."""
    pairs = shared = 0
    for instance, schedule in cases(few(range(480), 40), crowded):
        trace = verify_schedule(instance, schedule)
        last = {r.request.id: max(s.batch for s in r.steps if s.phase == "prefill") for r in trace.requests}
        chosen = [last[chain.request.id] for chain in apart(instance, chains(instance))]
        assert len(set(chosen)) == len(chosen)
        pairs += len(chosen) > 1
        shared += len(set(last.values())) < len(last)
    assert min(pairs, shared) >= (10 if ALL else 3)


def test_copies_that_last_several_batches_are_swaps_in_parts():
    """No request ends later than by a token's copy in each batch; swaps as a whole take up to half as long again."""
    longer, extra = [], []
    for seed in few(range(1800)):
        ran = copied(Random(seed))
        for schedule in (ran.parts, ran.whole):
            trace = verify_schedule(ran.instance, schedule)
            late = {one.request.id: one.completion - ran.completion[one.request.id] for one in trace.requests}
            assert schedule is ran.whole or max(late.values()) <= ran.slack
        longer.append(sum(late.values()) if ran.spans > 1 else 0)
        extra.append(ran.extra)
    assert min(extra) >= 0
    assert max(longer) > 0
