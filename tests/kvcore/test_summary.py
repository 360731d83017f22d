"""What is reported of many requests: by hand, and as somebody sees it who stops the clock."""

from fractions import Fraction

import pytest

from heuristics import get_policy, trace_policy
from kvcore import verify_schedule
from kvcore.errors import BadInput
from kvcore.instance import Slo
from kvcore.metrics import summary
from tests.support import build
from tests.support.build import batch, request, schedule
from workloads.builtin import builtin_instance


def serial(count, tick="1"):
    """Requests of one token each, one batch after another, all from tick 0."""
    requests = [request(f"R{i}", 1, 1) for i in range(count)]
    return build.instance(*requests, memory=1, batch_requests=1).replace(tick_seconds=Fraction(tick))


def run(instance):
    batches = (batch(i, **{f"R{i}": 1}) for i in range(len(instance.requests)))
    return verify_schedule(instance, schedule(instance, *batches))


def test_percentiles_are_by_nearest_rank_and_in_seconds():
    """Latencies are 1, 2, .., 200 ticks of half a second."""
    measured = summary(run(serial(200, "1/2")))
    assert measured["latency"] == {"mean": 50.25, "p50": 50, "p95": 95, "p99": 99, "max": 100}
    assert measured["ttft"] == measured["latency"] == measured["normalized_latency"]
    assert measured["tpot"] is None
    assert (measured["requests"], measured["unfinished"], measured["batches"]) == (200, 0, 200)
    assert measured["requests_per_second"] == measured["tokens_per_second"] == 2


def test_figure_1_by_hand():
    """MARS's schedule: completions 12, 14, 4; calls of 2, 7, 1 ticks; 6, 2, 3 outputs; R2 refills one token."""
    measured = summary(trace_policy(builtin_instance("mars-figure1"), get_policy("mars-order")))
    assert measured["latency"]["mean"] == 10
    assert measured["latency_without_calls"]["mean"] == pytest.approx((10 + 7 + 3) / 3)
    assert measured["normalized_latency"]["mean"] == pytest.approx((12 / 6 + 14 / 2 + 4 / 3) / 3)
    assert measured["normalized_latency_without_calls"]["mean"] == pytest.approx((10 / 6 + 7 / 2 + 3 / 3) / 3)
    assert measured["handlings"] == {"discard": 1, "preserve": 1, "swap": 1}
    assert (measured["tokens_recomputed"], measured["tokens_swapped_out"], measured["evictions"]) == (1, 2, 0)
    assert measured["waste_share"]["calls"] == pytest.approx(2 * 5 / (6 * 14))  # R1 holds 5 of 6 tokens for 2 ticks


def test_a_window_counts_who_is_not_done_and_leaves_nobody_out():
    """After 3 s of 10 requests, 3 are done; the others have waited 3 s so far."""
    measured = summary(run(serial(10)), window=Fraction(3))
    assert (measured["requests"], measured["unfinished"]) == (10, 7)
    assert measured["latency"] == {"mean": pytest.approx((1 + 2 + 8 * 3) / 10), "p50": 3, "p95": 3, "p99": 3, "max": 3}
    assert measured["ttft"] == measured["latency"]
    assert measured["requests_per_second"] == 1


def test_who_arrives_after_the_window_does_not_count():
    instance, late = serial(2), request("late", 1, 1, arrival=5)
    instance = instance.replace(requests=(*instance.requests, late))
    trace = trace_policy(instance, get_policy("serial"))
    assert summary(trace, window=Fraction(4))["requests"] == 2
    assert summary(trace, window=Fraction(5))["unfinished"] == 1
    only_late = instance.replace(requests=(late,))
    with pytest.raises(BadInput, match="no request arrives within 4 s"):
        summary(trace_policy(only_late, get_policy("serial")), window=Fraction(4))


def test_goodput_counts_those_that_meet_their_slo():
    instance = serial(4)
    assert summary(run(instance))["slo_attainment"] is None  # nobody has one
    slo = Slo(latency=2)
    instance = instance.replace(requests=tuple(request.replace(slo=slo) for request in instance.requests))
    measured = summary(run(instance))
    assert measured["goodput_per_second"] == 0.5  # two of four within 4 s
    assert measured["slo_attainment"] == 0.5


def test_evictions_are_moves_outside_calls():
    two = build.instance(request("A", 1, 3), request("B", 1, 3), memory=4, evict=True)
    steps = batch(0, A=1, B=1), batch(1, A=1, B=1), batch(2, drop={"B": 2}, A=1), batch(3, B=3)
    measured = summary(verify_schedule(two, schedule(two, *steps)))
    assert (measured["evictions"], measured["tokens_recomputed"], measured["tokens_processed"]) == (1, 2, 8)
    assert measured["recomputed_share"] == 0.25
