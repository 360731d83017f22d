"""Schedules on the clock of measured batches, and instances at another cost."""

from fractions import Fraction

import pytest

from costmodels.retime import NANOSECOND, retimed, with_cost
from heuristics import get_policy, trace_policy
from kvcore import Cost, CostFunction
from kvcore.metrics import completions
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
TRACE = trace_policy(MARS, get_policy("fcfs"))


def test_batches_as_long_as_planned_end_when_planned():
    measured = retimed(TRACE, [batch.duration for batch in TRACE.batches])
    assert completions(measured) == {id: end * 10**9 for id, end in completions(TRACE).items()}
    assert measured.instance.tick_seconds == NANOSECOND
    with pytest.raises(ValueError, match=f"{len(TRACE.batches)} batches, and 1 times"):
        retimed(TRACE, [1.0])


def test_at_a_shorter_tick_arrivals_and_calls_keep_their_seconds():
    cost = Cost((CostFunction(busy=3),))
    made = with_cost(MARS, cost, Fraction(1, 2))
    assert (made.cost, made.tick_seconds) == (cost, Fraction(1, 2))
    for planned, scaled in zip(MARS.requests, made.requests, strict=True):
        assert scaled.arrival == 2 * planned.arrival
        assert scaled.call_time == 2 * planned.call_time
