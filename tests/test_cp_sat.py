"""The constraint program agrees with the exhaustive search, and with the other formulations on the worked examples."""

import json
import subprocess
import sys

import pytest

import solvers
from kvbound import OBJECTIVES, BadInput
from kvbound.builtin import builtin_instance
from tests.exhaustive import TooManyStates, exhaustive_optimum
from tests.tiny_instances import PROFILES, tiny_instance

pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")


def compare_with_exhaustive(seeds, max_batches):
    """Ask both about every seed that the exhaustive search answers at once; return how many there were."""
    names = list(PROFILES)
    questions, truth = [], []
    for seed in seeds:
        profile, objective = names[seed % len(names)], list(OBJECTIVES)[seed // 3 % len(OBJECTIVES)]
        try:
            value, schedule = exhaustive_optimum(tiny_instance(seed, **PROFILES[profile]), objective, max_states=3000)
        except TooManyStates:
            continue
        if len(schedule.batches) <= max_batches:
            questions.append((seed, profile, objective, len(schedule.batches) + 1))
            truth.append((str(value), str(value)))
    process = subprocess.run(
        [sys.executable, "-m", "tests.cp_sat_answers"], input=json.dumps(questions), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    answers = [tuple(answer) for answer in json.loads(process.stdout)]
    assert dict(zip(map(str, questions), answers, strict=True)) == dict(zip(map(str, questions), truth, strict=True))
    return len(questions), {objective for _, _, objective, _ in questions}


def test_agrees_with_the_exhaustive_search():
    count, objectives = compare_with_exhaustive(range(48), max_batches=5)
    assert count >= 8
    assert len(objectives) >= 5


@pytest.mark.slow
def test_agrees_with_the_exhaustive_search_on_many():
    count, objectives = compare_with_exhaustive(range(60, 600), max_batches=8)
    assert count >= 150
    assert objectives == set(OBJECTIVES)


def test_proves_the_worked_example_through_the_driver():
    result = solvers.solve(builtin_instance("mars-figure1"), formulation="cp-sat", handling="free", time_limit=120)
    assert result.status == "optimal"
    assert result.value == 27
    assert result.solver.name == "cp-sat"


def test_refuses_a_solver_that_cannot_solve_it():
    with pytest.raises(BadInput, match="highs does not solve cp-sat; cp-sat can"):
        solvers.solve(builtin_instance("mars-figure1"), formulation="cp-sat", solver="highs")
