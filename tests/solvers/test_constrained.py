"""Rows of one's own in batch-bigm: what is found obeys them, and what is proved is of them."""

from dataclasses import replace

import pytest

import kvbound as kv
from formulations.big_m import BigM
from solvers.constrained import add
from solvers.driver import _Solve
from solvers.exact import exact
from solvers.messages import Found, SolveJob
from solvers.packing import pack, unpack
from solvers.ways import BOUND, MODELS
from tests.support.solving import solving

ONE = kv.Segment(decode=2)
A = kv.Request(id="A", prompt=1, segments=(ONE,))
B = kv.Request(id="B", prompt=1, segments=(kv.Segment(decode=1, call=kv.Call(duration=1)), kv.Segment(decode=1)))
PAIR = kv.Instance(name="pair", machine=kv.Machine(memory=3, batch_requests=1), requests=(A, B))
TWINS = PAIR.replace(name="twins", requests=(A, A.replace(id="B")))


def optimum(instance, objective="total-flow-time"):
    return exact(instance, objective).value


def waits(model):
    """Let the first request start in the fourth slot."""
    return (model.c[0, j] == 0 for j in range(1, 4))


def test_a_constraint_is_an_arrival():
    held = kv.solve(PAIR, constraints=[waits], certify_limit=0)
    later = optimum(PAIR.replace(requests=(A.replace(arrival=3), B)))
    assert held.status == "claimed"  # no certificate knows of rows
    assert held.certified_bound <= optimum(PAIR)
    assert held.value == held.bound == later + 3 > optimum(PAIR)
    assert held.constraints == ["waits"]
    assert held.horizon.why.startswith("of schedules that obey waits: a schedule of total-flow-time at most")
    assert "total-flow-time, under waits: claimed by batch-bigm on highs" in repr(held)
    assert "only of schedules that obey" in held._repr_html_()


@pytest.mark.parametrize("formulation", ["batch-bigm", pytest.param("batch-bigm:plain", marks=pytest.mark.slow)])
def test_lambdas_know_the_letters_of_the_paper(formulation):
    """The second request generates in the first slot; A_1 = 1 token is known then, and 2 after it."""
    rows = [
        lambda model: model.g[1, 1] == 1,
        lambda model: [model.S[1, 2] >= 2, model.m[1, 1] >= 1, model.c[1, 1] <= 1],
    ]
    held = kv.solve(PAIR, formulation=formulation, constraints=rows)
    assert held.status == "optimal"
    assert held.schedule.batches[0].work == {"B": 1}
    assert held.formulation == formulation


def test_like_requests_are_not_exchanged():
    """Without rows the first of two like requests ends first; a row may want it otherwise."""
    held = kv.solve(TWINS, constraints=[lambda model: model.g[1, 1] == 1])
    assert held.value == optimum(TWINS)
    assert held.trace.requests[1].first_token == 1


def test_rows_hold_on_the_clock():
    """Slots that a row wants idle stay idle, although nothing is waited for."""
    rows = [lambda model: [model.used[j] == 0 for j in model.used if j < 10]]
    held = kv.solve(TWINS, constraints=rows, certify_limit=0)
    assert held.status == "claimed"
    assert held.value == optimum(TWINS) + 2 * 9
    assert held.schedule.batches[0].start == 9


def test_busy_time_and_a_cost():
    costly = PAIR.replace(cost=kv.Cost((kv.CostFunction(busy=2, tokens=1),)))
    held = kv.solve(costly, "busy-time", constraints=[lambda model: model.g[1, 1] == 1])
    assert held.status == "optimal"
    assert held.value == optimum(costly, "busy-time")


def test_what_says_no_more_than_a_guess_is_not_optimal():
    held = kv.solve(PAIR, "total-ttft", constraints=[waits])
    assert held.status == "feasible"
    assert held.bound <= optimum(PAIR, "total-ttft")


def nonlinear(model):
    return model.c[0, 1] * model.c[1, 1] <= 1


@pytest.mark.parametrize(("row", "message"), [
    (nonlinear, "constraint nonlinear is not linear"),
    (lambda model: model.c[7, 1] <= 1, r"constraint <lambda>: KeyError: .*test_constrained.py, line \d+"),
    (lambda model: True, "constraint <lambda>: InvalidConstraintError: .* trivial Boolean"),
    (lambda model: model.objective.set_value(0), "constraints add rows: the objective stays as it is"),
])  # fmt: skip
def test_a_wrong_constraint_is_one_clear_line(row, message):
    program = BigM(PAIR, "total-flow-time", 6, as_is=True)
    program.write()
    with pytest.raises(kv.BadInput, match=message):
        add(program, [row])


@pytest.mark.slow
def test_nothing_obeys():
    def never(model):
        import pyomo.environ as pyo

        model.never = pyo.Constraint(model.used.index_set(), rule=lambda model, j: model.c[0, j] == 0)

    with pytest.raises(kv.BadInput, match=r"no schedule of total-flow-time \d+ or less obeys the constraints: never"):
        kv.solve(PAIR, constraints=[never])
    with pytest.raises(kv.BadInput, match="a constraint is a function of the model, not 3"):
        kv.solve(PAIR, constraints=[3])


def test_what_the_ladder_finds_without_the_constraints_is_not_taken(monkeypatch):
    """It bounds all schedules, and the best of these is none that the constraint allows."""
    free, receive, sent = kv.solve(PAIR), _Solve.receive, []

    def with_more(run, job, message):
        if job.formulation == BOUND.formulation:
            sent.append(free.schedule)
            receive(run, job, Found(free.schedule, None))
        receive(run, job, message)

    monkeypatch.setattr(_Solve, "receive", with_more)
    held = kv.solve(PAIR, constraints=[waits])
    assert sent
    assert held.value == held.bound > free.value


def test_constraints_are_of_batch_bigm():
    with pytest.raises(kv.BadInput, match="constraints are added to batch-bigm, not to search"):
        kv.solve(PAIR, formulation="search", constraints=[waits])


def test_a_policy_is_not_believed():
    """Its schedule, better than the constrained optimum, is not taken; the bound `alone` holds with any rows."""
    job = SolveJob(PAIR, "total-flow-time", "batch-bigm", "highs", None, None, None, 1, 1000, 1, 0)
    run = solving(replace(job, constraints=pack([waits])), time=1.0)
    run.opening.run({}, "best")
    assert (run.held.incumbent.value, run.held.incumbent.schedule, run.job_of(MODELS[0]).start) == (None, None, None)
    assert run.job_of(MODELS[0]).upper_bound >= run.held.bounds.value > 0


def test_a_module_that_is_not_there():
    with pytest.raises(kv.BadInput, match="cannot be loaded in a worker process: No module named 'no_such_module'"):
        unpack(b"cno_such_module\nf\n.")
