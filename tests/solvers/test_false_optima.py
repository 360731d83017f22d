"""Instances of which a way once said "optimal" falsely (`docs/trust.md`): every way that takes them finds the truth."""

from pathlib import Path

import pytest

from formulations.horizon import sufficient_batches
from kvbound import solve
from kvcore import objective_value, verify_schedule
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from solvers.exact import exact

DATA = Path(__file__).parents[1] / "data"
TRUTH = [
    ("drops", "busy-time", 13, "batch-bigm batch-bigm:plain cp-sat"),
    ("drops", "makespan", 13, "batch-bigm"),
    ("drops", "total-flow-time", 23, "batch-bigm cp-sat"),
    ("drops2", "busy-time", 52, "batch-bigm batch-bigm:plain cp-sat"),
    ("finish", "weighted-flow-time", 1882, "batch-bigm batch-bigm:plain cp-sat"),
]


def read(kind, name):
    return kind.model_validate_json((DATA / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("name", "objective", "value"), [case[:3] for case in TRUTH])
def test_the_exact_searches_find_the_truth(name, objective, value):
    found = exact(read(Instance, name), objective)
    assert (found.value, found.certified_bound, found.status) == (value, value, "optimal")


@pytest.mark.parametrize(
    ("name", "objective", "value", "way"),
    [
        pytest.param(*case[:3], way, marks=[pytest.mark.slow] * ((case, way) != (TRUTH[2], "batch-bigm")))
        for case in TRUTH
        for way in case[3].split()
    ],
)
def test_every_model_finds_the_truth(name, objective, value, way):
    found = solve(read(Instance, name), objective, formulation=way, time_limit=1e6)
    assert (found.value, found.bound) == (value, value)


@pytest.mark.parametrize(("name", "objective", "value"), [TRUTH[0][:3], TRUTH[4][:3]])
def test_the_schedules_that_showed_it_fit_into_the_horizon(name, objective, value):
    instance, schedule = read(Instance, name), read(Schedule, f"{name}-schedule")
    assert objective_value(verify_schedule(instance, schedule), objective) == value
    horizon = sufficient_batches(instance, objective, value)
    assert horizon.sufficient
    assert len(schedule.batches) <= horizon.batches
