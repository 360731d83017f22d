"""What a replay reports: the measured clock, the errors, the ranking and the gains, with planted times."""

import random
from fractions import Fraction

import numpy as np
import pytest

from costmodels.retime import retimed
from gpu_validation.replay import Replayed, beyond, gains, ranking, report
from kvbound.plots import plot_replay
from kvcore import Cost, CostFunction, Schedule, verify_schedule
from kvcore.metrics import OBJECTIVES, objective_value
from tests.support.build import batch, instance, request, schedule
from tests.support.random_schedules import random_trace

TIMES = [name for name in OBJECTIVES if name not in ("late-requests", "normalized-latency")]


def planned_seconds(trace):
    return [batch.duration * trace.instance.tick_seconds for batch in trace.batches]


def test_planned_times_give_the_plan():
    for trace in map(random_trace, range(60)):
        again = retimed(trace, planned_seconds(trace))
        scale = trace.instance.tick_seconds * 10**9
        for objective in TIMES:
            assert objective_value(again, objective) == scale * objective_value(trace, objective)


def test_another_speed_gives_a_schedule_that_the_referee_passes():
    """With batches k times as long, the retimed starts are valid on the instance whose cost is k times as large."""
    seen = 0
    for trace in map(random_trace, range(60, 140)):
        k = random.Random(len(trace.batches)).choice([2, 3, 7])
        tick = trace.instance.tick_seconds
        slow = retimed(trace, [k * tick] * len(trace.batches))
        scale = tick * 10**9
        starts = [Fraction(b.start) / scale for b in slow.batches]
        dear = trace.instance.replace(
            cost=Cost((CostFunction(busy=k), CostFunction(swap_outs=k), CostFunction(swap_ins=k)))
        )
        if any(b.features.swap_outs > 1 or b.features.swap_ins > 1 for b in slow.batches):
            continue
        batches = tuple(
            made.model_copy(update={"start": int(start)})
            for made, start in zip(trace.expanded().batches, starts, strict=True)
        )
        passed = verify_schedule(dear, Schedule(instance_sha256=dear.sha256, batches=batches))
        for objective in TIMES:
            assert objective_value(slow, objective) == scale * objective_value(passed, objective)
        seen += 1
    assert seen >= 10


TWO = instance(request("A", 2, (1, 10, 1, "preserve"), 1), request("B", 1, 2, arrival=1), memory=20)
"""A: two prompt tokens, a call of 10 ticks, one more token. B comes at tick 1."""
PLAN = schedule(TWO, batch(0, A=2), batch(1, B=1), batch(2, B=1), batch(11, A=2))


def test_calls_and_arrivals_are_waited_for_and_batches_follow_each_other():
    trace = verify_schedule(TWO, PLAN)
    tick = float(TWO.tick_seconds)
    slow = retimed(trace, [3 * tick, tick, tick, 2 * tick])
    nanoseconds = round(tick * 1e9)
    assert [b.start // nanoseconds for b in slow.batches] == [0, 3, 4, 13]  # the call of A begins at 3
    assert {r.request.id: r.completion // nanoseconds for r in slow.requests} == {"A": 15, "B": 5}
    fast = retimed(trace, [tick / 2, tick, tick, tick])
    assert [b.start * 2 // nanoseconds for b in fast.batches] == [0, 2, 4, 21]  # B comes at 1, A returns at 10.5
    long = retimed(trace, [tick, 20 * tick, tick, tick])
    assert [b.start // nanoseconds for b in long.batches] == [0, 1, 21, 22]


def test_a_wait_that_nothing_asks_for_stays():
    waits = schedule(TWO, batch(0, A=2), batch(4, B=1), batch(5, B=1), batch(11, A=2))
    trace = verify_schedule(TWO, waits)
    nanoseconds = round(float(TWO.tick_seconds) * 1e9)
    later = retimed(trace, [2 * float(TWO.tick_seconds)] * 4)
    assert [b.start // nanoseconds for b in later.batches] == [0, 5, 7, 12]


def test_a_wrong_number_of_times_is_an_error():
    with pytest.raises(ValueError, match="4 batches, and 2 times"):
        retimed(verify_schedule(TWO, PLAN), [1.0, 1.0])


def replayed(name, factors, repeats=3, plan=PLAN):
    """Measured times are the predicted ones times these factors."""
    trace = verify_schedule(TWO, plan)
    predicted = planned_seconds(trace)
    measured = [float(p) * f for p, f in zip(predicted, factors, strict=True)]
    return Replayed(name, trace, predicted, np.array([measured] * repeats))


def test_errors_of_batches():
    row = replayed("plan", [1, 2, 1, 0.5]).row("busy-time")
    tick = float(TWO.tick_seconds)
    assert row["measured"] == pytest.approx(4.5 * tick)
    assert row["predicted"] == pytest.approx(4 * tick)
    assert row["error"] == pytest.approx(4 / 4.5 - 1)
    assert row["mape"] == pytest.approx((0 + 0.5 + 0 + 1) / 4)
    assert row["worst"] == pytest.approx({"batch": 3, "predicted": tick, "measured": tick / 2, "error": 1.0})
    assert row["batch_error"] == pytest.approx({"median": 0.25, "p95": 0.925})
    assert row["predicted_makespan_seconds"] == pytest.approx(12 * tick)
    assert row["measured_makespan_seconds"] == pytest.approx(11.5 * tick)
    assert row["bias"] == pytest.approx((0 - 0.5 + 0 + 1) / 4)


def test_batches_that_read_what_they_swap_in_are_counted():
    """A is swapped out in its call; it comes back beside other work, or in the batch in which it works."""
    swaps = instance(request("A", 2, (1, 2, 1, "swap"), 1), request("B", 1, 4), memory=20)
    begun = (batch(0, A=2), batch(1, out={"A": 2}, B=1))
    early = schedule(swaps, *begun, batch(3, back={"A": 2}, B=1), batch(4, A=2, B=1), batch(5, B=1))
    late = schedule(swaps, *begun, batch(3, B=1), batch(4, back={"A": 2}, A=2, B=1), batch(5, B=1))
    for plan, count in ((early, 0), (late, 1)):
        trace = verify_schedule(swaps, plan)
        made = Replayed("s", trace, planned_seconds(trace), np.ones((1, 5)))
        assert made.row("makespan")["batches_that_read_what_they_swap_in"] == count


SERIAL = schedule(TWO, batch(0, A=2), batch(1, B=1), batch(12, A=2), batch(13, B=1))


def test_the_order_of_distinct_schedules_by_hand():
    """By the model 14 and 26 ticks; what is the same schedule under another name counts once."""
    slow = Replayed("slow", verify_schedule(TWO, SERIAL), *times(SERIAL, [1, 1, 1, 1]))
    good = ranking([replayed("plan", [1, 1, 1, 1]), slow, replayed("again", [5, 1, 1, 1])], "total-flow-time")
    assert (good["distinct"], good["right"], good["kendall_tau"], good["regret"]) == (2, 1, 1, 0)
    assert good["pairs"] == [{"pair": ["plan", "slow"], "gap": pytest.approx(12 / 26), "right": True}]
    plan = replayed("plan", [9, 9, 9, 9])  # A 9 + 10 + 9, B 27 - 1
    bad = ranking([plan, slow], "total-flow-time")
    assert (bad["right"], bad["kendall_tau"]) == (0, -1)
    assert bad["regret"] == pytest.approx(plan.values("total-flow-time")[1] / slow.values("total-flow-time")[1] - 1)
    alone = ranking([slow, slow], "total-flow-time")
    assert (alone["pairs"], alone["kendall_tau"], alone["regret"]) == ([], None, 0)


def test_batches_that_the_host_starts_no_faster_than_they_run_are_bound_by_it():
    trace = verify_schedule(TWO, PLAN)
    made = Replayed("s", trace, planned_seconds(trace), np.ones((1, 4)), np.array([0.5, 1.0, 2.0, 0.1]))
    assert made.row("makespan")["launch_bound"] == 0.5
    assert replayed("s", [1, 1, 1, 1]).row("makespan")["launch_bound"] is None


def test_batches_beyond_what_was_fitted_are_counted():
    trace = verify_schedule(TWO, PLAN)
    seen = [b.features for b in trace.batches]
    assert beyond(trace, seen) == 0
    assert beyond(trace, seen[1:3]) == 2  # both of A, with two tokens


def times(plan, factors):
    predicted = planned_seconds(verify_schedule(TWO, plan))
    return predicted, np.array([[float(p) * f for p, f in zip(predicted, factors, strict=True)]])


def test_gains_are_over_the_schedule_that_was_predicted_best():
    slow = Replayed("slow", verify_schedule(TWO, SERIAL), *times(SERIAL, [2, 1, 1, 1]))
    rows = gains([slow, replayed("plan", [1, 1, 1, 1])], "total-flow-time")
    # planned: A 12 and B 2 against A 13 and B 13; measured: A 14 and B 14
    assert rows[0]["predicted"] == pytest.approx(26 / 14)
    assert rows[0]["measured"] == pytest.approx(28 / 14)
    assert rows[0]["over"] == "plan"
    assert rows[1]["predicted"] == rows[1]["measured"] == 1


def test_a_report_is_drawn(tmp_path):
    replays = [replayed("plan", [1, 2, 1, 0.5]), replayed("again", [1, 1, 1, 1])]
    made = report(replays, "total-flow-time")
    assert [row["schedule"] for row in made["rows"]] == ["plan", "again"]
    batches = {r.name: ([float(p) for p in r.predicted], r.measured.tolist()) for r in replays}
    figure = plot_replay(made, batches, path=tmp_path / "r.svg")
    assert [len(ax.containers) for ax in figure.axes] == [0, 2]
    assert "predicted, ms a batch" in (tmp_path / "r.svg").read_text()
