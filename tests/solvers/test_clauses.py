"""Prices and CP-SAT: the program over all paths has the optimum of the exhaustive search."""

import json
import subprocess
import sys

import pytest

import solvers
from tests.support.few import few
from workloads import builtin

pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")


def check(first, end, *profiles):
    """Ask in a process of its own; return how many answers there were, by profile."""
    command = [sys.executable, "-m", "tests.support.clauses_answers", str(first), str(end), *profiles]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    for profile, rows in found.items():
        assert [row for row in rows if len({*row[1:]}) > 1] == [], profile
    return [len(rows) for rows in found.values()]


PROFILES = ["any", "no-calls", "calls-fixed", "calls-free", "two-calls", "evict", "budgets", "no-pause"]


@pytest.mark.slow
def test_proves_the_optimum():
    assert min(check(0, len(few(range(12), 3)), *PROFILES)) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_proves_the_optimum_of_many(profile):
    assert check(12, 400, profile)[0] > 100


@pytest.mark.parametrize("asked", ["cp-sat", pytest.param("lagrange", marks=pytest.mark.slow)])
def test_through_the_driver(asked):
    result = solvers.solve(
        builtin.builtin_instance("mars-figure1"), formulation="arc-flow", solver=asked, certify_limit=0
    )
    assert (result.value, result.bound, result.status, result.bound_kind) == (29, 29, "claimed", "solver")
    assert result.solver.name == "cp-sat"
