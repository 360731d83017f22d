"""The Big-M model: known optima, known schedules satisfy every row, bounds never exceed an optimum."""

import pyomo.environ as pyo
import pytest

import solvers
from formulations import PYOMO, make
from formulations.big_m import BigM
from formulations.horizon import sufficient_batches
from formulations.timing import time_scale
from heuristics import best_schedule
from kvcore import BadInput, objective_value, verify_schedule
from solvers.exact import exact
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.few_batches import look_at
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
TINY = [(seed, profile) for seed, profile in enumerate([*PROFILES, *PROFILES], 1)]
FIGURE_15 = {1: 40918414, 2: 46521305, 4: 49803714}
"""Least busy-time by I, found by the exhaustive search of the tests."""


def missed(model, tolerance=1e-6):
    """Return the names of the rows, and of the bounds and integers, that the values of the variables miss."""
    rows = [
        row.name
        for row in model.component_data_objects(pyo.Constraint, active=True)
        if min(row.lslack(), row.uslack()) < -tolerance * max(1.0, abs(pyo.value(row.body)))
    ]
    return rows + [
        variable.name
        for variable in model.component_data_objects(pyo.Var)
        if not (variable.lb is None or variable.value >= variable.lb - tolerance)
        or not (variable.ub is None or variable.value <= variable.ub + tolerance)
        or not (variable.is_continuous() or variable.value == round(variable.value))
    ]


@pytest.mark.parametrize(("handling", "optimum"), [("as-given", 29), pytest.param("free", 27, marks=pytest.mark.slow)])
def test_the_worked_example_is_proved(handling, optimum):
    result = solvers.solve(MARS, formulation="batch-bigm", handling=handling)
    assert (result.status, result.value, result.bound) == ("optimal", optimum, optimum)


@pytest.mark.parametrize("formulation", PYOMO)
@pytest.mark.parametrize(("seed", "profile"), TINY)
def test_a_policy_satisfies_every_row(seed, profile, formulation):
    instance = tiny_instance(seed, **PROFILES[profile])
    objective = BigM.OBJECTIVES[(seed + len(profile)) % len(BigM.OBJECTIVES)]
    _, schedule, _ = best_schedule(instance, objective)
    trace = verify_schedule(instance, schedule)
    value = objective_value(trace, objective)
    horizon = min(sufficient_batches(instance, objective, value).batches, len(schedule.batches) + 2)
    program = make(formulation, instance, objective, horizon, upper_bound=value)
    program.warm_start(trace)
    assert missed(program.model) == []
    units = 1 if objective == "late-requests" else program.scale
    assert pyo.value(program.model.objective) <= value * program.denominator / units + 1e-6
    read = verify_schedule(instance, program.schedule())
    assert objective_value(read, objective) <= value


def test_a_broken_row_is_noticed():
    _, schedule, _ = best_schedule(MARS, "busy-time")
    program = make("batch-bigm", MARS, "busy-time", len(schedule.batches))
    assert program.warm_start(verify_schedule(MARS, schedule))
    program.model.c[0, 1].set_value(program.model.c[0, 1].value + 1)
    assert any(name.startswith("memory_management") for name in missed(program.model))


@pytest.mark.parametrize("I", FIGURE_15)
def test_the_optimum_of_figure_15_is_a_point_of_the_model(I):  # noqa: E741
    instance = builtin_instance(f"infermax-figure15:I={I}")
    found = exact(instance, "busy-time")
    assert found.value == FIGURE_15[I]
    trace = verify_schedule(instance, found.schedule)
    program = make("batch-bigm", instance, "busy-time", len(trace.batches), upper_bound=FIGURE_15[I])
    program.warm_start(trace)
    assert missed(program.model) == []
    ticks = pyo.value(program.model.objective) * time_scale(instance)
    assert FIGURE_15[I] - len(trace.batches) < ticks <= FIGURE_15[I] + 1  # f/q is rounded up batch by batch


@pytest.mark.slow
def test_a_bound_of_figure_15_does_not_exceed_the_optimum(monkeypatch):
    """With as few batches as an optimal schedule has, so that the root is solved in seconds."""
    instance = builtin_instance("infermax-figure15:I=4")
    batches = len(exact(instance, "busy-time").schedule.batches)
    bounds = look_at(batches, monkeypatch, until=lambda bounds: max(bounds) > 0)
    result = solvers.solve(instance, "busy-time", formulation="batch-bigm")
    assert 0 < max(bounds) <= FIGURE_15[4] <= result.value


def test_a_horizon_without_an_argument_proves_nothing(monkeypatch):
    small = MARS.replace(requests=MARS.requests[1:])
    best = exact(small)
    look_at(len(best.schedule.batches), monkeypatch)
    result = solvers.solve(small, formulation="batch-bigm")
    assert (result.status, result.value) == ("feasible", best.value)


@pytest.mark.slow
def test_too_few_batches_hold_no_schedule(monkeypatch):
    """The policy's schedule is all there is, and it is not called optimal."""
    small = MARS.replace(requests=MARS.requests[1:])
    look_at(1, monkeypatch)
    result = solvers.solve(small, formulation="batch-bigm")
    assert result.status == "feasible"
    _, schedule, _ = best_schedule(small, "total-flow-time")
    assert result.value == objective_value(verify_schedule(small, schedule), "total-flow-time")
    assert not make("batch-bigm", small, "busy-time", 1).warm_start(verify_schedule(small, result.schedule))


def test_what_the_model_does_not_have_is_refused():
    with pytest.raises(BadInput, match=r"batch-bigm has no objective 'speed'; it has makespan"):
        BigM(MARS, "speed", 9)
    with pytest.raises(BadInput, match="needs at least 1 batch, not 0"):
        BigM(MARS, "busy-time", 0)
