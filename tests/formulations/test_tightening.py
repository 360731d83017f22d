"""The tightening loses nothing: random schedules obey its rows, and what it proves is what others prove.

A schedule is put into the program as it is executed; requests that are alike change places, as `ends_in_order` of
`tests/reductions/exchange.py` does, and batches start early, as `early` does, or gaps are closed, as `closed` does. All
other rows are implied by the rules.
"""

import re
from importlib import import_module
from random import Random

import pytest

from formulations import PYOMO, make
from formulations.big_m_values import broken
from formulations.chains import may_swap
from formulations.horizon import sufficient_batches
from formulations.refills import is_paced
from formulations.tightening import NARROW, ROWS
from kvcore import objective_value, verify_schedule
from solvers import milp
from solvers.exact import exact
from solvers.messages import Bound, Found, SolveJob
from tests.reductions.early import closed
from tests.support.differential import drawn, question
from tests.support.few import ALL, few
from tests.support.random_schedules import random_schedule

FORMS = [(name, "highs") for name in PYOMO] + [pytest.param(name, "gurobi", marks=pytest.mark.gurobi) for name in PYOMO]


def transfers_nothing(instance, schedule):
    """Whether KV is moved that the program leaves out: it goes out only to come back at once, to no effect."""
    moved = {id for batch in schedule.batches for id in batch.swap_out}
    return any(request.id in moved and not may_swap(instance, request) for request in instance.requests)


def random_cases(seeds):
    """Yield instances with an objective and a random schedule that the program has; in some, two requests are alike."""
    for seed in seeds:
        instance, objective = drawn(seed)
        if seed % 5 == 0:
            instance = instance.replace(requests=(*instance.requests, instance.requests[0].replace(id="twin")))
        schedule = random_schedule(Random(seed), instance)
        if not transfers_nothing(instance, schedule):
            paced = is_paced(instance, objective)
            yield instance, objective, verify_schedule(instance, closed(instance, schedule) if paced else schedule)


@pytest.mark.parametrize("formulation", PYOMO)
def test_random_schedules_obey_every_row(formulation):
    written = set()
    for instance, objective, trace in random_cases(few(range(720), 12)):
        value = objective_value(trace, objective)
        program = make(formulation, instance, objective, len(trace.batches), upper_bound=value)
        assert program.warm_start(trace), (instance, objective, [*broken(program.model)])
        assert objective_value(verify_schedule(instance, program.schedule()), objective) <= value
        written |= {name for name, rows in program.rows.items() if len(program.model.component(name))}
    of_contents = {rows.__name__ for rows in program.contents.constraints()}
    assert set(program.rows) - written == of_contents


def test_optima_with_contents_obey_every_row():
    reused = 0
    for asked in map(question, (f"shared {seed}" for seed in few([25, 8, 39, *range(240)], 60))):
        if asked is not None:
            program = make("batch-bigm", asked.instance, asked.objective, asked.batches)
            assert program.warm_start(verify_schedule(asked.instance, asked.schedule)), (
                asked,
                [*broken(program.model)],
            )
            found = verify_schedule(asked.instance, program.schedule())
            assert objective_value(found, asked.objective) == asked.optimum
            reused += any(batch.reuse for batch in found.schedule.batches)
    assert reused > 0


@pytest.mark.parametrize("tightening", [*NARROW, *ROWS], ids=lambda tightening: tightening.__name__)
def test_every_tightening_says_why(tightening):
    """Implied by the rules, or by a program that makes a schedule that obeys of any other."""
    programs = re.findall(r"`(\w+)` of `tests/reductions/(\w+)\.py`", tightening.__doc__)
    assert "mplied" in tightening.__doc__ or programs
    for name, module in programs:
        assert hasattr(import_module(f"tests.reductions.{module}"), name)


def proved(formulation, solver, instance, objective, batches, upper_bound):
    """Return what the referee makes of the schedule found, and the bound."""
    job = SolveJob(instance, objective, formulation, solver, batches, upper_bound, None, 1e6, 4000, 1, 0)
    sent = []
    milp.run(job, sent.append)
    schedule = [message.schedule for message in sent if isinstance(message, Found)][-1]
    value = objective_value(verify_schedule(instance, schedule), objective)
    return value, max(message.value for message in sent if isinstance(message, Bound))


@pytest.mark.parametrize(("formulation", "solver"), FORMS)
def test_every_form_proves_what_a_certificate_proves(formulation, solver):
    """The certificate is of `slots` or of `events`, which the checker runs again: no row and no float is in it."""
    pytest.importorskip("gurobipy" if solver == "gurobi" else "highspy")
    compared = 0
    for seed in few(range(2000, 2120)):
        instance, objective = drawn(seed)
        certified = exact(instance, objective)
        if certified.certified_bound != certified.value:
            continue
        horizon = sufficient_batches(instance, objective, certified.value)
        if horizon.sufficient and horizon.batches <= 6:
            known = certified.value if seed % 2 else None
            found = proved(formulation, solver, instance, objective, horizon.batches, known)
            assert found == (certified.value, certified.value), seed
            compared += 1
    assert compared >= (30 if ALL else 5)
