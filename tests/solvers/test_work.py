"""A limit in counted work: all but the times is the same on every run, with any number of workers."""

from contextlib import suppress
from json import loads
from types import SimpleNamespace

import pytest

import solvers
from bounds import clock
from bounds.clock import limited, now, spend
from hypotheses.search import SearchSpace, search
from kvbound.comparison import compare
from kvcore.errors import BadInput
from kvcore.result import Stop
from solvers.dual_bound import best_bound
from solvers.improve import improve
from solvers.ways import CERTIFYING
from tests.support.commands import run_kvbound
from workloads.builtin import builtin_instance

MARS, SEVEN, BIG = map(builtin_instance, ("mars-figure1", "mars-like:n=7,seed=1", "hindsight-benchmark:seed=2"))
WORK = 300_000


def timeless(found):
    """What JSON has, without the times and the number of threads."""
    if isinstance(found, dict):
        return {key: timeless(value) for key, value in found.items() if "seconds" not in key and key != "threads"}
    return [timeless(each) for each in found] if isinstance(found, list | tuple) else found


def said(result):
    files = [each and each.to_json() for each in (result.schedule, result.certificate)]
    return timeless(result.to_json()), files


@pytest.mark.parametrize("instance", [MARS, SEVEN, BIG], ids=lambda each: each.name)
def test_the_same_work_gives_the_same_results_with_one_and_two_workers(instance):
    one, two = (solvers.solve(instance, work=WORK, threads=threads) for threads in (1, 2))
    assert said(one) == said(two)
    assert one.value >= one.bound > 0
    assert one.stopped in (Stop.PROVED, Stop.WORK_LIMIT)


def test_the_same_work_improves_and_bounds_alike():
    for run in (best_bound, improve):
        one, two = (run(SEVEN, work=WORK) for _ in range(2))
        assert said(one) == said(two)
    assert improve(BIG, work=10 * WORK).value <= improve(BIG, work=WORK).value


def test_the_same_work_compares_alike():
    rows = [timeless(compare(MARS, "fcfs,sjf", work=WORK, threads=threads).rows()) for threads in (1, 2)]
    assert rows[0] == rows[1]
    assert rows[0][-1]["status"] == "optimal"


@pytest.mark.parametrize("command", [
    "solve mars-figure1", "bound mars-figure1", "improve mars-figure1", "compare mars-figure1", "check backfilling",
    "search --policy fcfs --calls 1",
])  # fmt: skip
def test_commands_take_work(command):
    one, two = (run_kvbound([*command.split(), "--work", str(WORK), "--json", "-"])[1] for _ in "ab")
    assert timeless(loads(one)) == timeless(loads(two))


def test_the_same_work_searches_alike():
    """The first of two in a process would pay for compiling, too."""
    one, two = (search(SearchSpace(calls=1), "fcfs", work=WORK) for _ in "ab")
    assert one.to_json() == two.to_json()
    assert one.stopped == "work limit"


def test_a_limit_within_counted_work_is_counted():
    with limited(9.0, WORK), limited(2.0) as limit:
        spend(WORK)
        assert (limit, now() >= WORK / clock.SECOND) == (2.0, True)


@pytest.mark.parametrize("way", [way.formulation for way in CERTIFYING])
def test_no_bound_takes_a_tenth_and_two_million_units_more(way):
    with limited(1.0, 3 * WORK) as limit:
        with suppress(BadInput):  # what declines has looked at the instance alone
            best_bound(BIG, method=way, time_limit=limit)
        assert 0 < now() <= 1.1 * limit + 2


def test_improve_takes_no_tenth_and_two_million_units_more():
    with limited(1.0, 3 * WORK) as limit:
        improve(BIG, seconds=limit)
        assert 0 < now() <= 1.1 * limit + 2


def test_a_way_whose_work_is_not_counted_is_not_tried():
    with pytest.raises(BadInput, match="batch-bigm on highs is not tried: its work cannot be counted"):
        solvers.solve(MARS, formulation="batch-bigm", solver="highs", work=WORK)
    result = solvers.solve(MARS, ways=["batch-bigm on highs", "slots"], work=20 * WORK)
    assert (result.status, result.proved_by) == ("optimal", "slots")
    assert result.failed == ["batch-bigm on highs is not tried: its work cannot be counted"]


def test_a_look_at_the_clock_is_work_where_work_is_counted():
    with limited(1.0, 10**6) as limit:
        assert (limit, now()) == (1.0, clock.Units.look / clock.SECOND)
        spend(10**6)
        assert now() == 1 + 2 * clock.Units.look / clock.SECOND
    assert not clock.is_counted()


def test_all_deadlines_have_passed_once_the_clock_is_over(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: seconds[0], process_time=lambda: 0.0))
    with limited(2.0):
        assert now() == 0
        seconds[0] = clock.CLOCK * 2.0 + 1
        assert now() > 1e8
    monkeypatch.undo()
    monkeypatch.setattr(clock, "CLOCK", -1.0)
    late = solvers.solve(BIG, time_limit=10.0)
    assert late.stopped == "limit of the clock"
    assert late.bound > 0
