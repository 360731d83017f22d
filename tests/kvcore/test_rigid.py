"""Which instances are rigid: a schedule is one start for each request."""

import pytest

from kvcore import Instance, Machine, Request, Segment
from kvcore.rigid import why_not_rigid
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.rigid import RIGID

FLOW = "total-flow-time"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chunked": True}, "may be split"),
        ({"evict": True}, "may be evicted"),
        ({"pause": True}, "may sit out"),
        ({"hybrid": False}, "cannot share a batch"),
    ],
)
def test_a_machine_that_is_not_rigid_is_refused(change, why):
    instance = make(request("R1", 1, 2), memory=9, **(RIGID | change))
    assert why in why_not_rigid(instance, FLOW)


def test_calls_arrivals_and_objectives_that_are_not_rigid_are_refused():
    calls = make(request("R1", 1, (1, 2, 0, "preserve"), 1), memory=9, **RIGID)
    arrivals = make(request("R1", 1, 2), request("R2", 1, 2, arrival=1), memory=9, **RIGID)
    tokens = arrivals.replace(machine=arrivals.machine.replace(batch_tokens=2))
    assert "make calls" in why_not_rigid(calls, FLOW)
    assert "total-ttft" in why_not_rigid(arrivals, "total-ttft")
    assert "token budgets" in why_not_rigid(tokens, FLOW)
    assert why_not_rigid(arrivals, FLOW) is None
    assert "no sum over start times" in why_not_rigid(make(request("R1", 1, 2), memory=9, **RIGID), "makespan")
    assert why_not_rigid(make(request("R1", 1, 2, arrival=4), memory=9, **RIGID), FLOW) is None


def test_numbers_that_are_too_large_are_refused():
    heavy = Instance(
        machine=Machine(memory=9, host_memory=0, **RIGID),
        requests=(Request(id="R1", prompt=1, weight=10**9, segments=(Segment(decode=1),)),),
    )
    assert "too large" in why_not_rigid(heavy, "weighted-flow-time")
