"""Which instances are rigid: a schedule is one start for each request."""

import pytest

from kvcore import Instance, Machine, Request, Segment
from kvcore.rigid import RIGID as TAKEN
from kvcore.rigid import too_large
from tests.support.build import instance as make
from tests.support.build import request
from tests.support.rigid import RIGID

FLOW = "total-flow-time"


def declined(instance, objective):
    return TAKEN.why_not("rigid", instance, objective)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chunked": True}, "chunked"),
        ({"evict": True}, "evict"),
        ({"pause": True}, "pause"),
        ({"hybrid": False}, "no hybrid"),
    ],
)
def test_a_machine_that_is_not_rigid_is_refused(change, why):
    instance = make(request("R1", 1, 2), memory=9, **(RIGID | change))
    assert declined(instance, FLOW) == f"rigid is not proved with {why}"


def test_calls_arrivals_and_objectives_that_are_not_rigid_are_refused():
    calls = make(request("R1", 1, (1, 2, 0, "preserve"), 1), memory=9, **RIGID)
    arrivals = make(request("R1", 1, 2), request("R2", 1, 2, arrival=1), memory=9, **RIGID)
    tokens = arrivals.replace(machine=arrivals.machine.replace(batch_tokens=2))
    assert "calls and preserve calls" in declined(calls, FLOW)
    assert "arrivals and total-ttft" in declined(arrivals, "total-ttft")
    assert "arrivals and batch_tokens" in declined(tokens, FLOW)
    assert declined(arrivals, FLOW) is None
    assert "makespan" in declined(make(request("R1", 1, 2), memory=9, **RIGID), "makespan")
    assert declined(make(request("R1", 1, 2, arrival=4), memory=9, **RIGID), FLOW) is None


def test_numbers_that_are_too_large_are_refused():
    heavy = Instance(
        machine=Machine(memory=9, host_memory=0, **RIGID),
        requests=(Request(id="R1", prompt=1, weight=10**9, segments=(Segment(decode=1),)),),
    )
    assert "too large" in too_large(heavy)
