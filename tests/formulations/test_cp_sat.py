"""The constraint program through the driver; `test_differential.py` compares it with the exhaustive search."""

import pytest

import solvers
from kvcore import BadInput
from workloads.builtin import builtin_instance

pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")


def test_proves_the_worked_example_through_the_driver():
    result = solvers.solve(builtin_instance("mars-figure1"), formulation="cp-sat", handling="free")
    assert result.status == "optimal"
    assert result.value == 27
    assert result.solver.name == "cp-sat"


def test_refuses_a_solver_that_cannot_solve_it():
    with pytest.raises(BadInput, match="highs does not solve cp-sat; cp-sat can"):
        solvers.solve(builtin_instance("mars-figure1"), formulation="cp-sat", solver="highs")
