"""What `auto` runs and why, and how those that run share what they know."""

import pytest

import solvers
from kvcore import BadInput, objective_value, verify_schedule
from solvers import choice
from solvers.choice import choose
from solvers.pool import race
from solvers.search import search
from solvers.task import Done, Found, Task
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"


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
        ("mars-figure1", "total-flow-time", ["slots", "search"]),
        ("mars-figure1", "makespan", ["slots", "search"]),
        ("mars-figure1", "late-requests", ["search", "events"]),
        ("infermax-figure15", "busy-time", ["search", "events"]),
        ("hindsight", "total-flow-time", ["start-time on highs", "arc-flow on repair"]),
        ("mars-like:n=10", "total-flow-time", ["slots", "search"]),
        ("mars-like:n=20", "weighted-flow-time", ["slots", "arc-flow on repair"]),
        ("mars-like:n=40", "weighted-flow-time", ["arc-flow on lagrange", "arc-flow on repair"]),
    ],
)
def test_auto_chooses_by_the_instance(name, objective, expected):
    assert ways(name, objective)[0] == expected


def test_one_core_runs_one_way(monkeypatch):
    monkeypatch.setattr(choice, "cores", lambda: 1)
    assert ways("mars-like:n=20")[0] == ["slots"]


@pytest.mark.usefixtures("two_cores")
def test_says_why():
    assert "one way for each request" in ways("mars-like:n=40")[1]
    assert "destroy and repair runs beside it" in ways("mars-like:n=40")[1]
    result = solvers.solve(builtin_instance("mars-figure1"))
    assert "what it proves is certified" in result.extra["chosen"]


def test_a_named_solver_is_taken_at_its_word():
    assert choose(builtin_instance("mars-figure1"), "makespan", "auto", "highs").ways[0].label == "batch-bigm on highs"
    assert choose(builtin_instance("mars-figure1"), FLOW, "arc-flow", "auto").ways[0].label == "arc-flow on lagrange"
    with pytest.raises(BadInput, match="lagrange does not solve batch-bigm; highs and gurobi can"):
        choose(builtin_instance("mars-figure1"), "makespan", "batch-bigm", "lagrange")


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
def test_what_asks_for_the_model_of_paths_gets_branch_and_bound_over_prices(solver):
    chosen = choose(builtin_instance("mars-figure1"), FLOW, "arc-flow", solver)
    assert [way.label for way in chosen.ways] == ["arc-flow on lagrange"]
    assert f"no model for {solver} any more, but lagrange (or --solver cp-sat) solves the same network" in chosen.why
    with pytest.raises(BadInput, match="not makespan; use the search, or --formulation batch-bigm"):
        choose(builtin_instance("mars-figure1"), "makespan", "arc-flow", solver)


LATE = 1e9
"""Seconds after which nothing happens in a test."""


def task(delay=0.0, solver="search"):
    formulation = "search" if solver == "search" else "arc-flow"
    instance = builtin_instance("mars-figure1")
    return Task(instance, "total-flow-time", formulation, solver, None, None, None, LATE, 4000, 1, 0, delay)


def test_a_second_way_is_not_started_once_the_first_has_proved_it():
    ended = []

    def receive(task, message):
        if isinstance(message, Found):
            ended.append(task.solver)

    def finished():
        return "proved" if ended else None

    ends = race([task(), task(delay=LATE / 2, solver="repair")], receive, finished)
    assert len(ends) == 1
    assert set(ended) == {"search"}


def test_a_second_way_starts_early_if_the_first_has_nothing_left_to_do():
    ends = race([task(), task(delay=LATE / 2)], lambda task, message: None, lambda: None)
    assert [type(end) for end in ends] == [Done, Done]


def test_the_search_looks_only_for_what_is_better_than_the_news():
    instance = builtin_instance("mars-figure1")
    told = search(instance, "total-flow-time", news=lambda: 29)
    assert (told.value, told.bound, told.proved) == (29, 29, True)
    wrong = search(instance, "total-flow-time", news=lambda: 28)  # nobody has such a schedule: the search believes it
    assert wrong.bound == 28


def test_a_claim_belongs_to_the_schedule_sent_with_it():
    found = []

    def receive(task, message):
        if isinstance(message, Found):
            found.append(message)

    race([task()], receive, lambda: None, best_known=lambda: 29)  # news, which the search has no schedule for
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
