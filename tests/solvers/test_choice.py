"""What `auto` runs and why, and how those that run share what they know."""

import math
from dataclasses import replace
from unittest import mock

import pytest

import solvers
from kvcore import BadInput, objective_value, verify_schedule
from kvcore.certificates import verify_certificate
from solvers import choice, pool
from solvers.choice import choose
from solvers.pool import SolveWorker, race
from solvers.task import Bound, Done, Found, Task
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
MARS = builtin_instance("mars-figure1")


def ways(name, objective=FLOW):
    chosen = choose(builtin_instance(name), objective, "auto", "auto")
    return [way.label for way in chosen.ways], chosen.why


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(choice, "cores", lambda: 2)


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("name", "objective", "expected"),
    [
        ("mars-figure1", "total-flow-time", ["slots", "events"]),
        ("mars-figure1", "makespan", ["slots", "events"]),
        ("mars-figure1", "late-requests", ["events", "improve"]),
        ("infermax-figure15", "busy-time", ["events", "improve"]),
        ("hindsight", "total-flow-time", ["start-time on highs", "arc-flow on repair"]),
        ("mars-like:n=10", "total-flow-time", ["slots", "events"]),
        ("mars-like:n=20", "weighted-flow-time", ["slots", "arc-flow on repair"]),
        ("mars-like:n=40", "weighted-flow-time", ["bound", "arc-flow on repair"]),
        ("identical:n=40,I=4,O=3,M=100", "busy-time", ["counts", "improve"]),
        ("identical:n=40,I=4,O=3,M=100", "total-flow-time", ["bound", "improve"]),
    ],
)
def test_auto_chooses_by_the_instance(name, objective, expected):
    assert ways(name, objective)[0] == expected


def test_one_core_runs_one_way(monkeypatch):
    monkeypatch.setattr(choice, "cores", lambda: 1)
    assert ways("mars-like:n=20")[0] == ["slots"]


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    ("name", "reserve"),
    [
        ("mars-figure1", ["bound", "improve"]),
        ("hindsight", ["slots", "events", "bound", "improve"]),
    ],
)
def test_what_else_may_help_runs_when_a_core_is_free(name, reserve):
    assert [way.label for way in choose(builtin_instance(name), FLOW, "auto", "auto").reserve] == reserve


@pytest.mark.usefixtures("two_cores")
def test_says_why():
    assert "lower bounds scale" in ways("mars-like:n=40")[1]
    assert "destroy and repair runs beside it" in ways("mars-like:n=40")[1]
    result = solvers.solve(MARS)
    assert "what it proves is certified" in result.extra["chosen"]


def test_a_named_solver_is_taken_at_its_word():
    assert choose(MARS, "makespan", "auto", "highs").ways[0].label == "batch-bigm on highs"
    assert choose(MARS, FLOW, "arc-flow", "auto").ways[0].label == "arc-flow on cp-sat"
    with pytest.raises(BadInput, match="lagrange does not solve batch-bigm; highs and gurobi can"):
        choose(MARS, "makespan", "batch-bigm", "lagrange")


@pytest.mark.parametrize("asked", [("search", "auto"), ("auto", "search"), ("search", "search")])
def test_search_means_the_exact_searches(asked):
    chosen = choose(MARS, FLOW, *asked)
    assert [way.label for way in (*chosen.ways, *chosen.reserve)] == ["slots", "events"]
    chosen = choose(MARS, "late-requests", *asked)
    assert [way.label for way in (*chosen.ways, *chosen.reserve)] == ["events"]
    with pytest.raises(BadInput, match=r"search: slots need batches that all last one tick; .* 32 requests"):
        choose(builtin_instance("identical:n=40,I=4,O=3,M=100"), FLOW, *asked)
    with pytest.raises(BadInput, match="highs does not solve search; slots and events can"):
        choose(MARS, FLOW, "search", "highs")


@pytest.mark.parametrize(
    "asked", [("arc-flow", "highs"), ("arc-flow", "gurobi"), ("arc-flow", "lagrange"), ("auto", "lagrange")]
)
def test_ways_over_paths_that_are_gone_mean_prices_and_cp_sat(asked):
    chosen = choose(MARS, FLOW, *asked)
    assert [way.label for way in chosen.ways] == ["arc-flow on cp-sat"]
    assert f"{asked[1]} does not solve it any more, cp-sat does" in chosen.why
    with pytest.raises(BadInput, match=r"arc-flow does .* not makespan; use slots, events or batch-bigm"):
        choose(MARS, "makespan", *asked)


LATE = 1e9
"""Seconds after which nothing happens in a test."""


def task(delay=0.0, solver="slots"):
    formulation = "arc-flow" if solver == "repair" else solver
    return Task(MARS, FLOW, formulation, solver, None, None, None, LATE, 4000, 1, 0, delay)


def test_a_second_way_is_not_started_once_the_first_has_proved_it():
    ended = []

    def receive(task, message):
        if isinstance(message, Found):
            ended.append(task.solver)

    def finished():
        return "proved" if ended else None

    ends = race([task(), task(delay=LATE / 2, solver="repair")], receive, finished)
    assert len(ends) == 1
    assert set(ended) == {"slots"}


def test_a_second_way_starts_early_if_the_first_has_nothing_left_to_do():
    ends = race([task(), task(delay=LATE / 2)], lambda task, message: None, lambda: None)
    assert [type(end) for end in ends] == [Done, Done]


def test_what_waits_for_a_core_starts_when_one_is_free(monkeypatch):
    """Two run side by side: the others follow one by one, beside the one that does not end."""
    began = []

    def start(task, inbox, ends):
        began.append(task.solver)
        worker = SolveWorker(task, mock.Mock(memory_mib=lambda: 0), ends)
        if task.solver != "slots":
            inbox.put((worker, Done("time limit", "")))
        return worker

    monkeypatch.setattr(pool, "_start", start)
    tasks = [task(), task(solver="repair"), *(task(math.inf, solver) for solver in ("events", "bound", "improve"))]
    ends = race(tasks, lambda task, message: None, lambda: "stopped early" if len(began) == 5 else None)
    assert began == [each.solver for each in tasks]
    assert ends[0] == Done("stopped early", "")


def test_a_claim_belongs_to_the_schedule_sent_with_it():
    found = []

    def receive(task, message):
        if isinstance(message, Found):
            found.append(message)

    race([task(solver="events")], receive, lambda: None, best_known=lambda: 29)  # news without a schedule
    values = [objective_value(verify_schedule(task().instance, f.schedule), "total-flow-time") for f in found]
    assert values == [f.claimed for f in found] != []


def test_repair_finds_but_does_not_prove():
    def stop_at_a_bound(value, bound, seconds):
        if value is not None and bound is not None:
            raise KeyboardInterrupt

    result = solvers.solve(builtin_instance("mars-like:n=8"), solver="repair", progress=stop_at_a_bound)
    assert result.schedule is not None
    assert result.verified
    assert result.bound < result.value


@pytest.mark.parametrize(("solver", "finds"), [("improve", True), ("bound", False)])
def test_policies_improve_and_the_ladder_bounds_in_a_worker(solver, finds):
    sent = []

    def enough():
        return "stopped early" if any(finds or (isinstance(x, Bound) and x.value == 29) for x in sent) else None

    race([replace(task(solver=solver), time_limit=60.0)], lambda task, message: sent.append(message), enough)
    found = [objective_value(verify_schedule(MARS, each.schedule), FLOW) for each in sent if isinstance(each, Found)]
    proved = [verify_certificate(MARS, each.certificate) for each in sent if isinstance(each, Bound)]
    assert (len(found) > 0, len(proved) > 0) == (finds, not finds)
    assert found == sorted(found, reverse=True)
    assert max(proved, default=29) == 29 <= min(found, default=29)
