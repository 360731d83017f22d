"""The search for counterexamples: families, claims, shrinking, the search, and its command."""

import json
import signal
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

import hypotheses.search.ratio
from heuristics import get_policy, run_policy
from heuristics.policies.figure_1 import Fcfs
from hypotheses.search import Claim, Optima, SearchSpace, judge, search
from hypotheses.search.ratio import canonical
from hypotheses.search.shrinking import smaller
from kvcore.errors import BadInput
from kvcore.files import read_instance
from kvcore.instance import Call, Instance, Machine, Request, Segment
from solvers.exact import exact
from tests.support.commands import kvbound
from tests.support.exhaustive import exhaustive_optimum

TINY = SearchSpace(requests=2, memory=3, prompt=2, decode=2, calls=0, arrival=1)
WITH_CALLS = SearchSpace(
    requests=1, memory=5, prompt=2, decode=2, calls=1, duration=1, returns=1, arrival=0, handling="any"
)
NARROW = SearchSpace(requests=2, memory=5, prompt=2, decode=3, arrival=1)
LARGE = SearchSpace(requests=3, memory=8, prompt=3, decode=4, calls=1, duration=3)
FEW = ("--n", 2, "--memory", 3, "--prompt", 1, "--decode", 2, "--arrival", 0)


def key(instance):
    return instance.to_json()


# --- families --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("family", [TINY, WITH_CALLS], ids=["no calls", "calls"])
def test_listing_and_coordinates_reach_the_same_members_each_listed_once(family):
    listed = [key(member) for member in family.members()]
    reached = {key(member) for numbers in product(*family.axes()) if (member := family.member(numbers))}
    assert len(set(listed)) == len(listed)
    assert set(listed) == reached
    assert len({canonical(member) for member in family.members()}) <= family.count()


def test_the_members_are_those_within_the_bounds():
    members = list(TINY.members())
    assert {len(member.requests) for member in members} == {2}
    assert {min(r.arrival for r in member.requests) for member in members} == {0}
    assert {r.prompt for member in members for r in member.requests} == {1, 2}
    assert {member.machine.memory for member in members} == {1, 2, 3}
    peaks = {(member.machine.memory, max(r.peak for r in member.requests)) for member in members}
    assert peaks == {(m, p) for m in (1, 2, 3) for p in (1, 2, 3) if p <= m}


def test_members_that_cannot_be_carried_out_are_none():
    assert SearchSpace(requests=1, memory=2, prompt=2, decode=2).member([2, 0, 2, 2, 0]) is None
    swapped = SearchSpace(requests=1, memory=9, calls=1, handling="swap")
    assert swapped.member([9, 0, 1, 1, 1, 1, 0, 0, 1]) is None  # the host has no room
    assert list(replace(TINY, memory=1, prompt=1, decode=1).members()) != []


@pytest.mark.parametrize(("bounds", "complaint"), [
    ({"requests": 0}, "a family has requests of at least 1, not 0"),
    ({"duration": -1}, "a family has duration of at least 0, not -1"),
    ({"handling": "both"}, "handling is one of preserve, .*, any, not 'both'"),
])  # fmt: skip
def test_bounds_that_make_no_sense_are_refused(bounds, complaint):
    with pytest.raises(BadInput, match=complaint):
        SearchSpace(**bounds)


# --- claims ----------------------------------------------------------------------------------------------------------
def two(decodes, memory):
    requests = tuple(Request(id=f"R{i}", prompt=1, segments=(Segment(decode=d),)) for i, d in enumerate(decodes, 1))
    return Instance(machine=Machine(memory=memory, host_memory=0, evict=True), requests=requests)


def test_a_proved_ratio_is_the_policy_over_an_independent_optimum():
    instance = two((1, 2), 2)
    claim = judge(instance, get_policy("fcfs"), Optima("total-flow-time"))
    assert (claim.value, claim.best, claim.bound) == (4, 3, 3)
    assert exhaustive_optimum(instance, "total-flow-time")[0] == 3
    assert (claim.proved, claim.to_json()["claimed_by"]) == (True, None)
    assert claim.ratio == claim.at_least == claim.at_most == Fraction(4, 3)


def lower(by, schedule_of=None):
    """Return a search that claims so much less, and has no better schedule than a policy."""

    def search(instance, objective, time_limit):
        found = exact(instance, objective)
        schedule = found.schedule if schedule_of is None else run_policy(instance, get_policy(schedule_of))
        claimed = {"bound_kind": "search", "certificate": None, "proved_by": "a search"}
        return replace(found, schedule=schedule, bound=found.bound - by, **claimed)

    return search


def test_a_claimed_optimum_gives_no_ratio_until_it_is_certified(monkeypatch):
    monkeypatch.setattr(hypotheses.search.ratio, "exact", lower(0))
    claim = judge(two((1, 2), 2), get_policy("fcfs"), Optima("total-flow-time"))
    assert (claim.proved, claim.ratio, claim.to_json()["claimed_by"]) == (False, None, "a search")
    claim = claim.certified()
    assert (claim.proved, claim.ratio, claim.to_json()["claimed_by"]) == (True, Fraction(4, 3), None)


def test_without_a_known_optimum_there_is_no_ratio_but_two_sides_of_it(monkeypatch):
    monkeypatch.setattr(hypotheses.search.ratio, "exact", lower(1))
    claim = judge(two((1, 2), 2), get_policy("fcfs"), Optima("total-flow-time"))
    assert not claim.decided
    assert (claim.ratio, claim.at_least, claim.at_most) == (None, Fraction(4, 3), Fraction(2))
    assert claim.certified() == claim
    assert claim.to_json()["ratio"] is None
    assert search(TINY, "fcfs").complete == []  # nothing is said of a size with open optima


def test_a_policy_better_than_what_the_search_found_is_the_best_known(monkeypatch):
    monkeypatch.setattr(hypotheses.search.ratio, "exact", lower(1, "serial"))
    claim = judge(two((1, 2), 2), get_policy("vllm"), Optima("total-flow-time"))
    assert (claim.best, claim.at_least, claim.bound) == (3, 1, 2)


def test_a_policy_better_than_that_on_another_order_is_certified_anew(monkeypatch):
    def stopped(instance, objective, **_):
        fcfs = run_policy(instance, get_policy("fcfs"))
        return replace(exact(instance, objective), schedule=fcfs, claimed=None)

    monkeypatch.setattr(hypotheses.search.ratio, "exact", stopped)
    optima = Optima("total-flow-time")
    first, other = two((1, 2), 2), two((2, 1), 2)
    assert optima.of(first).value > optima.of(first).bound
    claim = judge(other, get_policy("srpt"), optima)
    assert claim.decided
    assert not claim.proved  # the certificate is that of the first
    assert claim.certified().proved
    assert judge(two((1, 2), 2), get_policy("srpt"), optima).proved


def test_a_bound_of_0_gives_no_upper_side():
    assert Claim(two((1, 2), 2), "fcfs", "total-flow-time", 4, 3, 0).at_most is None


def test_an_optimum_is_looked_for_once_whatever_the_order(monkeypatch):
    asked = []
    monkeypatch.setattr(hypotheses.search.ratio, "exact", lambda instance, *_, **__: asked.append(instance) or instance)
    optima = Optima("makespan")
    for instance in (two((1, 2), 2), two((2, 1), 2), two((2, 2), 2), two((1, 2), 3)):
        optima.of(instance)
    assert len(asked) == 3


def test_late_requests_have_no_ratio():
    with pytest.raises(BadInput, match="late-requests can be 0 and has no ratio"):
        Optima("late-requests")


# --- shrinking -------------------------------------------------------------------------------------------------------
def weight(instance):
    """Everything that shrinking can take away, added up."""
    calls = [call for request in instance.requests for call in request.calls]
    tokens = sum(r.prompt + r.arrival + r.output for r in instance.requests)
    return tokens + (instance.machine.memory or 0) + len(calls) + sum(c.duration + c.returns for c in calls)


def test_every_step_takes_something_away():
    call = Call(duration=3, returns=2)
    first = Request(id="A", arrival=0, prompt=3, segments=(Segment(decode=2, call=call), Segment(decode=1)))
    second = Request(id="B", arrival=4, prompt=1, segments=(Segment(decode=5),))
    instance = Instance(machine=Machine(memory=9, host_memory=0), requests=(first, second))
    steps = list(smaller(instance))
    assert all(weight(step) < weight(instance) for step in steps)
    assert {len(step.requests) for step in steps} == {1, 2}
    assert any(not step.requests[0].calls and len(step.requests) == 2 for step in steps)
    assert any(step.machine.memory == 8 for step in steps)
    assert {c.returns for step in steps for r in step.requests for c in r.calls} == {1, 2}


@pytest.mark.slow
def test_a_hunt_ends_where_no_step_keeps_the_ratio():
    seen = search(LARGE, "sjf", steps=20, seed=1)
    claim, unshrunk, optima = seen.claim, seen.unshrunk, Optima("total-flow-time")
    assert claim is not None
    assert unshrunk is not None
    assert claim.ratio is not None
    assert claim.ratio >= unshrunk.at_least > 1
    assert weight(claim.instance) < weight(unshrunk.instance)
    assert all(judge(s, get_policy("sjf"), optima).at_least < claim.ratio for s in smaller(claim.instance))


# --- the search ------------------------------------------------------------------------------------------------------
def test_a_small_family_is_listed_whole_and_its_worst_is_the_worst_of_all():
    seen = search(TINY, "fcfs")
    optima, fcfs = Optima("total-flow-time"), get_policy("fcfs")
    sizes = [replace(TINY, requests=n) for n in (1, 2)]
    ratios = [judge(member, fcfs, optima).at_least for family in sizes for member in family.members()]
    assert seen.claim is not None
    assert seen.claim.ratio == max(ratios)
    assert seen.complete == [1, 2]
    assert seen.failed == seen.undecided == 0


def test_the_same_seed_finds_the_same(monkeypatch):
    monkeypatch.setattr("hypotheses.search.run.ENUMERATED", 0)
    first, again, other = (search(NARROW, "vllm", steps=20, seed=seed) for seed in (5, 5, 6))
    assert first.to_json() == again.to_json()
    assert key(first.unshrunk.instance) == key(again.unshrunk.instance)
    assert key(first.unshrunk.instance) != key(other.unshrunk.instance)


def test_annealing_judges_as_many_instances_as_asked(monkeypatch):
    monkeypatch.setattr("hypotheses.search.run.ENUMERATED", 0)
    monkeypatch.setattr("hypotheses.search.run._RunningSearch.shrink", lambda self: None)
    assert search(LARGE, "fcfs", steps=25).looked == 25


def test_an_instance_family_of_one_is_no_error(monkeypatch):
    monkeypatch.setattr("hypotheses.search.run.ENUMERATED", 0)
    seen = search(SearchSpace(requests=1, memory=1, prompt=1, decode=1, arrival=0), "fcfs")
    assert seen.claim is not None
    assert (seen.claim.ratio, seen.looked) == (1, 1)


class Stubborn(Fcfs):
    """Interrupted, or without an answer, after so many runs."""

    name = "stubborn"

    def __init__(self, runs, error):
        self.runs, self.error = runs, error

    def start(self, view):
        super().start(view)
        self.runs -= 1

    def decide(self, view, plan):
        if self.runs < 0:
            raise self.error("enough")
        super().decide(view, plan)


def test_an_interrupted_search_keeps_the_worst_so_far():
    seen = search(TINY, Stubborn(40, KeyboardInterrupt))
    assert seen.stopped == "interrupted"
    assert seen.claim is not None
    assert (seen.looked, seen.complete) == (41, [1])


def test_an_interrupted_optimum_ends_the_search(monkeypatch):
    monkeypatch.setattr("bounds.slot_solver.propose_slots", lambda *_: signal.raise_signal(signal.SIGINT))
    assert search(TINY, "fcfs").stopped == "interrupted"


def test_where_a_policy_fails_is_counted_and_claims_nothing():
    seen = search(TINY, Stubborn(10, RuntimeError))
    assert seen.claim is not None
    assert seen.failed == seen.looked - 10 > 0
    assert "enough" in str(seen.failure)
    assert 2 not in seen.complete


def test_the_time_limit_ends_it():
    seen = search(LARGE, "fcfs", seconds=0.1, steps=10**9)
    assert seen.stopped == "time limit"
    assert seen.claim is not None


def test_however_short_the_time_one_instance_is_judged(monkeypatch):
    monkeypatch.setattr("hypotheses.search.run._RunningSearch.shrink", lambda self: None)
    seen = search(TINY, "fcfs", seconds=1e-9)
    assert (seen.stopped, seen.looked, seen.complete) == ("time limit", 1, [])


# --- the command -----------------------------------------------------------------------------------------------------
def test_the_command_writes_an_instance_with_the_ratio_it_claims(tmp_path):
    out = tmp_path / "worst.json"
    found = json.loads(kvbound("search", "--policy", "fcfs", *FEW, "--out", out, "--json", "-").stdout)
    instance = read_instance(out)
    assert instance.sha256 == found["instance_sha256"]
    assert json.loads(out.read_text()) == found["instance"]
    assert found["complete"] == [1, 2]
    solved = json.loads(kvbound("solve", out, "--formulation", "search", "--json", "-").stdout)
    value = json.loads(kvbound("simulate", out, "--policy", "fcfs", "--json", "-").stdout)["rows"][0]["value"]
    assert solved["status"] == "optimal"
    assert Fraction(value, solved["value"]) == Fraction(found["claim"]["ratio"]) == Fraction(4, 3)


def test_people_read_the_ratio_and_what_is_not_worse():
    text = kvbound("search", "--policy", "fcfs", *FEW).stdout
    assert "ratio 4/3 = 1.333: fcfs 4, optimum 3, proved (total-flow-time)" in text
    assert "none of the family with 1, 2 requests is worse" in text


def test_an_open_ratio_is_exit_3_and_says_both_sides(monkeypatch):
    monkeypatch.setattr(hypotheses.search.ratio, "exact", lower(1))
    text = kvbound("search", "--policy", "fcfs", *FEW, code=3).stdout
    assert "ratio at least " in text
    assert "at most " in text
    assert "optima not proved" in text


def test_an_interruption_is_exit_130_and_the_worst_is_written(tmp_path, monkeypatch):
    calls = iter(range(100))

    def fourth_ends(*arguments, time_limit):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return exact(*arguments)

    monkeypatch.setattr(hypotheses.search.ratio, "exact", fourth_ends)
    out = tmp_path / "worst.json"
    assert "stopped: interrupted" in kvbound("search", "--policy", "fcfs", *FEW, "--out", out, code=130).stdout
    assert read_instance(out).requests
