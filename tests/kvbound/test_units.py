"""The units in which people see an instance, and the numbers in them."""

from fractions import Fraction

import pytest

from kvbound.units import number, time_units, units_of
from tests.support.build import instance, request
from workloads.builtin import builtin_instance


@pytest.mark.parametrize(("name", "time", "kv", "ticks", "written"), [
    ("mars-figure1", "ticks", "tokens", 1234, "1,234 ticks"),
    ("infercept-sample:k=4", "s", "blocks of 64 tokens", 198, "316.8 s"),
    ("infermax-figure15:I=4", "ms", "tokens", 123_456_789, "123.457 ms"),
])  # fmt: skip
def test_the_units_of_an_instance(name, time, kv, ticks, written):
    units = units_of(builtin_instance(name))
    assert (units.time, units.kv) == (time, kv)
    assert units.spelled(ticks) == written


def test_minutes_are_for_requests_of_hours_and_not_for_late_ones():
    late = instance(request("R1", 1, 5, arrival=10**8)).replace(tick_seconds=Fraction(1, 40))
    assert units_of(late).time == "s"
    long = instance(request("R1", 1, (1, 10**8, 0, "preserve"), 5)).replace(tick_seconds=Fraction(1, 40))
    assert units_of(long).time == "min"


def test_values_have_the_unit_of_their_objective():
    units = time_units(5000, Fraction(1, 1000))
    assert units.named(5250, "makespan") == "5.25 s"
    assert units.named("7/2", "normalized-latency") == "0.0035 s per token"
    assert units.named(3, "late-requests") == "3 requests"
    assert units.value(None, "makespan") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1234567, "1,234,567"), (Fraction(1, 3), "0.333333"), (Fraction(29, 3), "9.66667"),
     (Fraction(12345678, 7), "1,763,668.3"), (Fraction(-1, 10**9), "-1e-09"), (Fraction(3, 2), "1.5")],
)  # fmt: skip
def test_numbers(value, text):
    assert number(value) == text
