"""Refills beside what runs: by hand."""

from heuristics import get_policy, trace_policy
from tests.support.build import instance, request

LONG, SHORT = 20, 5
"""Ticks of a call: more, and less, than 1.5 times the 7 in which both contexts are processed again."""


def calls(duration):
    """A request with a call, before one that has more left, and does not fit beside it."""
    first = request("R0", 70, (1, duration, 0, "free"), 1)
    return instance(first, request("R1", 18, 60), memory=80, batch_tokens=16, evict=True)


def drops(name, duration):
    return [batch.drop for batch in trace_policy(calls(duration), get_policy(name)).schedule.batches if batch.drop]


def test_kv_makes_room_in_a_long_call_and_stays_in_a_short_one():
    assert drops("refill", LONG)[0] == {"R0": 70}
    assert not any("R0" in drop for drop in drops("refill", SHORT))
    assert drops("refill:patience=0", SHORT)[0] == {"R0": 70}


def test_of_those_who_make_room_the_last_goes_first():
    three = instance(
        request("R0", 1, 9), request("R1", 2, 9), request("R2", 1, 2, arrival=2), memory=12, batch_tokens=8, evict=True
    )
    dropped = [batch.drop for batch in trace_policy(three, get_policy("refill")).schedule.batches if batch.drop]
    assert dropped
    assert all("R0" not in drop for drop in dropped)
