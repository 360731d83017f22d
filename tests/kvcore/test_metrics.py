"""Objectives and measures by hand, and Figure 1 of MARS; random schedules are judged in `test_properties.py`."""

from fractions import Fraction
from itertools import product

import pytest

from kvcore import (
    OBJECTIVES,
    BadInput,
    CostFunction,
    Slo,
    handlings,
    measures,
    objective_value,
    verify_schedule,
)
from kvcore.account import account, memory_waste
from kvcore.instance import Request, Segment, alike
from kvcore.metrics import SUMS, is_late, scale_of, weight
from kvcore.trace import RequestTrace
from tests.support.build import batch, instance, request, schedule
from tests.support.few import few
from tests.support.mars_schedules import PUBLISHED
from tests.support.random_schedules import random_trace

# Two requests, blocks of 2, D = the larger of 2 (if anybody works) and the tokens swapped. What each tick holds:
#
#   batch  start  end   what                     A                     B
#     0      0     2    A prefills 3             4 works
#     1      2     4    B prefills 2             4 in a call [2, 6)    2 works
#    gap     4     5                             4 in the call         2 queued
#     2      5     8    A swaps out 3            0                     2 queued
#     3      8    11    A swaps in 3             4 in transfer         2 queued
#     4     11    13    A 2 more, B dropped      6 works, done at 13   0
#    gap    13    14                                                   0
#     5     14    16    B refills 2 of its 3                           4 recomputes, done at 16
WASTE = {"calls": 2 * 4 + 1 * 4, "queued": 1 * 2 + 3 * 2 + 3 * 2, "transfer": 3 * 4, "recomputation": 2 * 4}


def by_hand(slo_a=None, slo_b=None):
    a = request("A", 3, (1, 4, 1, "free"), 1, slo=slo_a)
    b = request("B", 2, 2, arrival=1, weight=3, slo=slo_b)
    cost = CostFunction(busy=2), CostFunction(swap_out_tokens=1, swap_in_tokens=1)
    two = instance(a, b, cost=cost, memory=6, block=2, evict=True)
    moves = batch(5, out={"A": 3}), batch(8, back={"A": 3}), batch(11, drop={"B": 2}, A=2)
    return verify_schedule(two, schedule(two, batch(0, A=3), batch(2, B=2), *moves, batch(14, B=3)))


def test_objectives_by_hand():
    assert {name: objective_value(by_hand(), name) for name in OBJECTIVES} == {
        "makespan": 16, "busy-time": 2 + 2 + 3 + 3 + 2 + 2, "total-flow-time": 13 + 15, "max-flow-time": 15,
        "weighted-flow-time": 1 * 13 + 3 * 15, "total-ttft": 2 + (4 - 1), "late-requests": 0,
        "normalized-latency": Fraction(13, 2) + Fraction(15, 2),
    }  # fmt: skip


@pytest.mark.parametrize("objective", SUMS)
def test_a_sum_adds_up_the_times_of_requests_at_their_rates(objective):
    times = (2, 3) if objective == "total-ttft" else (13, 15)
    rates = [weight(request, objective) for request in by_hand().instance.requests]
    value = objective_value(by_hand(), objective)
    assert sum(rate * time for rate, time in zip(rates, times, strict=True)) == value
    assert all((rate * scale_of(by_hand().instance.requests, objective)).denominator == 1 for rate in rates)


def test_measures_of_each_request_by_hand():
    names = ("flow_time", "tpot", "normalized_latency")
    given = {"A": (13, 2, False, (13, 9), ("11", "7"), ("13/2", "9/2")),
             "B": (16, 3, False, (15, 15), ("12", "12"), ("15/2", "15/2"))}  # fmt: skip
    assert measures(by_hand())["requests"] == {
        id: {"completion": completion, "ttft": ttft, "late": late}
        | {f"{name}{end}": value for name, both in zip(names, pairs, strict=True)
           for end, value in zip(("", "_without_calls"), both, strict=True)}
        for id, (completion, ttft, late, *pairs) in given.items()
    }  # fmt: skip


def test_measures_of_the_whole_by_hand():
    report = measures(by_hand(slo_b=Slo(latency=14)))
    assert report["waste"] == WASTE | {"total": 12 + 14 + 12 + 8}
    assert (report["throughput"], report["goodput"]) == ("1/4", "1/16")
    assert (report["batches"], report["peak_memory"]) == (6, 6)
    assert (report["tokens_processed"], report["tokens_recomputed"]) == (3 + 2 + 2 + 3, 2)
    assert (report["tokens_swapped_out"], report["tokens_swapped_in"]) == (3, 3)
    assert handlings(by_hand()) == {"A/1": "swap"}


@pytest.mark.parametrize(("slo", "at", "below"), [
    ("ttft", 2, 1), ("latency", 13, 12), ("tpot", Fraction(11), Fraction(109, 10)),
    ("normalized_latency", Fraction(13, 2), Fraction(6499, 1000)),
])  # fmt: skip
def test_a_request_at_its_slo_is_not_late_and_one_above_it_is(slo, at, below):
    assert objective_value(by_hand(Slo(**{slo: at})), "late-requests") == 0
    assert objective_value(by_hand(Slo(**{slo: below})), "late-requests") == 1
    late = measures(by_hand(Slo(**{slo: below}), Slo(latency=0)))
    assert late["late-requests"] == 2
    assert late["goodput"] == "0"


@pytest.mark.parametrize("seed", few(range(90)))
def test_the_periods_of_a_request_tile_its_life_and_have_its_kv_and_steps(seed):
    trace = random_trace(seed)
    boundaries = {each.start: trace.states(j) for j, each in enumerate(trace.batches)}
    for row, periods in account(trace):
        ends = [period.end for period in periods]
        assert [period.start for period in periods] == [row.request.arrival, *ends[:-1]]
        assert ends[-1] == row.completion
        assert [step for period in periods if period.work for step in period.work.steps()] == row.steps
        for period in periods:
            if period.kind in ("ready", "call") and period.end in boundaries:
                state = boundaries[period.end][row.request.id]
                assert (period.device, period.host) == (state.device, state.host)
                assert period.known == state.known or period.kind == "call"


def test_an_unknown_objective_is_refused():
    with pytest.raises(BadInput, match="no objective is called 'speed'; there are makespan, busy-time"):
        objective_value(by_hand(), "speed")


def test_the_states_at_a_boundary_that_is_none():
    with pytest.raises(IndexError, match=r"boundary 7 is not in 0\.\.6"):
        by_hand().states(7)
    with pytest.raises(IndexError, match="boundary -1"):
        by_hand().states(-1)


# --- MARS, Figure 1 (the schedules: `test_figure_1_slot_by_slot` of tests/heuristics/test_policies.py) ---------------
def test_the_memory_rows_differ_from_the_published_ones_only_where_a_drop_waits():
    def differences(strategy):
        pairs = zip(PUBLISHED[strategy].published_memory, PUBLISHED[strategy].memory, strict=True)
        return [tick for tick, (theirs, ours) in enumerate(pairs) if theirs != ours]

    found = {strategy: differences(strategy) for strategy in PUBLISHED}
    assert found == {"FCFS": [6], "SJF": [], "SJF+API": [9], "MARS": []}
    mars_row = [1, 2, 1, 3, 1, 2, 3, 4, 5, 5, 5, 6, 1, 2]
    assert [int(tokens) for tokens in PUBLISHED["MARS"].published_memory] == mars_row


@pytest.mark.parametrize("output", [1, 2, 5])
def test_a_request_is_late_exactly_if_it_exceeds_its_ticks(output):
    averages = (None, Fraction(1, 3), Fraction(3, 2), Fraction(7))
    late = 0
    for ttft, latency, tpot, normalized in product((None, 0, 4), (None, 6), averages, averages):
        slo = Slo(ttft=ttft, latency=latency, tpot=tpot, normalized_latency=normalized)
        request = Request(id="R", arrival=3, prompt=1, slo=slo, segments=(Segment(decode=output),))
        for first, between in product((1, 4, 5), (0, 1, 2, 6, 28) if output > 1 else (0,)):
            trace = RequestTrace(request, first_token=3 + first, completion=3 + first + between)
            taken = zip((first, first + between, between), request.slo_ticks, strict=True)
            exceeds = any(most is not None and ticks > most for ticks, most in taken)
            assert exceeds == is_late(trace), (slo, first, between)
            late += exceeds
    assert late


def test_requests_of_one_shape_differ_in_their_ids_only():
    one = Request(id="A", prompt=2, segments=(Segment(decode=1),))
    requests = [one, one.replace(id="B", weight=2), one.replace(id="C")]
    assert alike(requests) == [[0, 2], [1]]
    assert one.shape == requests[2].shape != requests[1].shape


def test_waste_beyond_64_bits():
    """Between batches that are 10^14 ticks apart, 10^5 tokens and those generated since wait: sums are exact."""
    a, far = request("A", 10**5, 4), 10**14
    long = instance(a)
    trace = verify_schedule(long, schedule(long, batch(0, A=10**5), *(batch(k * far, A=1) for k in (1, 2, 3))))
    assert memory_waste(trace).queued == (far - 1) * sum(10**5 + k for k in range(3))
