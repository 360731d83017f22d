"""P3 and P6' on random schedules of tiny instances with contents, and the corners in which P6' is false."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from bounds.enumeration import schedule_of
from kvcore import OBJECTIVES, Batch, CostFunction, Instance, InvalidSchedule, objective_value, verify_schedule
from kvcore.certificates.budget import Budget
from kvcore.certificates.enumeration import EnumerationSearch
from kvcore.cost import Cost
from tests.kvcore.test_features import sharing
from tests.reductions.prefixes import is_on_demand, may_not_reuse, missed, on_demand, reused
from tests.reductions.test_reductions import no_worse
from tests.support import build
from tests.support.contents import shared
from tests.support.few import few

CASES = json.loads((Path(__file__).parents[1] / "data" / "prefix_cases.json").read_text())


def walk(draw, instance):
    """Return a random schedule with forgets too many, or None where it does not end soon."""
    search = EnumerationSearch(instance, "makespan", Budget())
    state = search.heap[0][2]
    for _ in range(60):
        if all(rules.is_done(local) for rules, local in zip(search.rules, state.row, strict=True)):
            return forgetful(draw, instance, schedule_of(search, state))
        following = [each for _, each in zip(range(200), search._following(state), strict=False)]
        if not following:
            return None
        state = draw.choice(following)
    return None


def forgetful(draw, instance, schedule):
    """Return the schedule with random forgets more, as far as it stays valid."""
    for _ in range(6):
        batches = [{"forget": {}} | batch.model_dump() for batch in schedule.batches]
        batch, node = draw.choice(batches), draw.choice(instance.contents).id
        batch["forget"] = {**batch["forget"], node: batch["forget"].get(node, 0) + 1}
        changed = schedule.model_copy(update={"batches": tuple(Batch(**each) for each in batches)})
        with suppress(InvalidSchedule):
            verify_schedule(instance, changed)
            schedule = changed
    return schedule


def cases(seeds, change=lambda instance: instance):
    for seed in seeds:
        draw, instance = Random(seed), change(sharing(seed)[0])
        if instance.contents and (schedule := walk(draw, instance)):
            yield instance, schedule


def cheap(instance):
    """Return the instance with costs for which P6' holds."""
    functions = []
    for f in instance.cost.functions:
        kv = max(f.prefill_kv, f.decode_kv)
        requests = max(f.prefill_requests, f.decode_requests)
        functions.append(f.model_copy(update={
            "tokens": max(f.tokens, kv), "prefill_kv": kv, "prefill_requests": requests, "any_decode": 0}))  # fmt: skip
    machine = instance.machine.replace(hybrid=True)
    return instance.replace(cost=Cost(tuple(functions)), machine=machine)


def test_forgets_are_put_off():
    changed = 0
    for instance, schedule in cases(few(range(500), 25)):
        found = on_demand(instance, schedule)
        no_worse(instance, schedule, found, OBJECTIVES)
        assert is_on_demand(instance, found)
        changed += not is_on_demand(instance, schedule)
    assert changed


def test_reuses_what_is_resident():
    changed = 0
    for instance, schedule in cases(few(range(500), 25), cheap):
        assert may_not_reuse(instance) is None
        found = reused(instance, on_demand(instance, schedule))
        no_worse(instance, schedule, found)
        assert is_on_demand(instance, found)
        assert not [*missed(instance, found)]
        changed += bool([*missed(instance, schedule)])
    assert changed


@pytest.mark.parametrize(("name", "reason"), [
    ("P6prime_decode_kv", "prefill_kv < decode_kv"), ("P3_with_P6prime", "prefill_kv < decode_kv"),
    ("P6prime_any_decode", "any_decode"),
])  # fmt: skip
def test_declines_where_a_reuse_costs_more(name, reason):
    row = next(row for row in CASES if row["name"] == name)
    assert may_not_reuse(Instance.model_validate_json(json.dumps(row["instance"]))) == reason


@pytest.mark.parametrize(("cost", "machine", "reason"), [
    ({"tokens": 1, "prefill_kv": 2, "decode_kv": 2}, {}, "tokens < prefill_kv"),
    ({"tokens": 1, "decode_kv": 1}, {}, "prefill_kv < decode_kv"),
    ({"decode_requests": 3}, {}, "prefill_requests < decode_requests"),
    ({"any_decode": 5, "any_prefill": 5}, {}, "any_decode"),
    ({"tokens": 1}, {"hybrid": False}, "hybrid"),
])  # fmt: skip
def test_each_condition_is_needed(cost, machine, reason):
    """A has computed xyz, then C prefills beside B, which computes yz again on its x: all that B holds is resident."""
    a, b, c = (build.request(id, 3, 1, path=path) for id, path in (("A", ("xyz", 3)), ("B", ("xyz", 3)), ("C", None)))
    on = shared(a, b, c, tree=(("xyz", None, 3),), cost=(CostFunction(**cost),), memory=9, **machine)
    batches = Batch(start=0, work={"A": 3}), Batch(start=99, work={"B": 2, "C": 3}, reuse={"B": 1})
    schedule = build.schedule(on, *batches)
    assert may_not_reuse(on) == reason
    before, found = verify_schedule(on, schedule), reused(on, schedule)
    if reason == "hybrid":
        with pytest.raises(InvalidSchedule, match="R5"):
            verify_schedule(on, found)
    else:
        assert objective_value(verify_schedule(on, found), "busy-time") > objective_value(before, "busy-time")
