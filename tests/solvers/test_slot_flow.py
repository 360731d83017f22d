"""Prices and CP-SAT: the flow over states and ticks has the optimum of the exhaustive search, whatever the prices."""

import json
import subprocess
import sys
from fractions import Fraction

import pytest

import solvers
from solvers.slot_flow.late import late_segments
from solvers.slot_flow.scope import too_large
from solvers.ways import SLOT_FLOW
from tests.support.few import few
from workloads.builtin import builtin_instance

pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
MARS = builtin_instance("mars-figure1")
OPEN = {("two-calls", 46), ("two-calls", 149)}
"""Known faults, without `pause`: the cheapest flow is no schedule, and the way ends with its bound alone."""


def check(first, end, *profiles):
    """Ask in a process of its own; return how many answers there were, by profile."""
    command = [sys.executable, "-m", "tests.support.slot_flow_answers", str(first), str(end), *profiles]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    for profile, rows in found.items():
        for seed, *values in rows:
            optimum, value, bound = map(Fraction, values)
            assert bound <= optimum <= value, (profile, seed)
        assert {(profile, row[0]) for row in rows if len({*row[1:]}) > 1} <= OPEN
    return [len(rows) for rows in found.values()]


PROFILES = ["any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict", "partial", "budgets", "no-pause"]


def test_proves_the_optimum():
    assert min(check(0, len(few(range(300), 38)), *PROFILES)) >= 3


def test_through_the_driver():
    result = solvers.solve(MARS, formulation="arc-flow", solver="cp-sat", certify_limit=0)
    assert (result.value, result.bound, result.status, result.bound_kind) == (29, 29, "claimed", "solver")
    assert result.solver.name == "cp-sat"


def test_declines_what_it_cannot_hold():
    long = MARS.replace(requests=tuple(r.replace(arrival=10**9) for r in MARS.requests))
    assert "requests may have 3000000" in too_large(long)
    assert SLOT_FLOW.declines(MARS, "makespan") == "arc-flow is not proved with makespan"
    slow = SLOT_FLOW.declines(builtin_instance("infermax-figure15:I=1"), "total-flow-time")
    assert "arc-flow is not proved with batches of several ticks" in slow


def test_late_segments_are_used_where_no_budget_can_bind_alone():
    instance = builtin_instance("hindsight:n=5,M=30,P=10")
    assert late_segments(instance) is not None
    machine = instance.machine
    for change in ({"hybrid": False}, {"partial": True}, {"batch_requests": 2}, {"batch_tokens": 9}):
        assert late_segments(instance.replace(machine=machine.replace(chunked=True, **change))) is None
