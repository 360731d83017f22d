"""The driver: limits, crashes, lies of a solver, and what may be called optimal."""

import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

import solvers
from kvcore import BadInput, MissingTool
from kvcore.result import Horizon, Result
from solvers import driver, pool
from solvers.registry import solver_licence
from solvers.task import Bound, Done, Failed, Found, Task
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
BIG = builtin_instance("hindsight-benchmark:seed=2")


def task(instance, formulation="search", **changes):
    facts = {
        "instance": instance, "objective": "total-flow-time", "formulation": formulation, "solver": "search",
        "batches": None, "upper_bound": None, "start": None, "time_limit": 60.0, "memory_limit": 4000, "threads": 1,
        "seed": 0,
    }  # fmt: skip
    return Task(**(facts | changes))


@pytest.mark.parametrize("formulation", ["search", "batch-bigm"])
def test_each_way_proves_the_worked_example(formulation):
    result = solvers.solve(MARS, formulation=formulation)
    assert result.status == "optimal"
    assert result.value == result.bound
    assert result.bound_kind == ("exhaustive" if formulation == "search" else "solver")


@pytest.mark.gurobi
def test_gurobi_solves_what_its_licence_allows_and_says_what_it_does_not():
    pytest.importorskip("gurobipy")
    small = MARS.replace(requests=MARS.requests[1:])
    result = solvers.solve(small, formulation="batch-bigm", solver="gurobi")
    assert result.value == solvers.solve(small).value
    assert result.solver.name == "gurobi"
    if solver_licence("gurobi") == "full":
        pytest.skip("a full Gurobi licence is here, so there is no limit to report")
    with pytest.raises(MissingTool, match=r"limited to 2000 variables .* use --solver highs"):
        solvers.solve(MARS, formulation="batch-bigm", handling="free", solver="gurobi")


def test_time_limit_keeps_schedule_and_bound(monkeypatch):
    """The clock of the driver stands still until there is both, and then the time is over."""
    now = [0.0]

    def skip(value, bound, seconds):
        if value is not None and bound is not None:
            now[0] = 2e6

    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    result = solvers.solve(BIG, time_limit=1e6, progress=skip)
    assert result.stopped == "time limit"
    assert result.status == "feasible"
    assert 0 < result.bound < result.value


def test_memory_limit_ends_the_worker_and_keeps_what_it_found():
    result = solvers.solve(BIG, memory_limit=100)
    assert result.stopped == "memory limit"
    assert result.verified


def test_a_schedule_that_the_referee_refuses_is_never_held():
    run = driver._Run(MARS, "total-flow-time", 0.0, None, None, None)
    asked = task(MARS)
    run.horizons["search"] = Horizon(0, True, "")
    good = solvers.solve(MARS).schedule
    bad = good.model_copy(update={"batches": good.batches[:-1]})
    run.receive(asked, Found(bad, 1))
    assert run.schedule is None
    assert "R11" in run.rejected[0]
    run.receive(asked, Found(good, 1))
    run.receive(asked, Bound(run.value))
    run.tasks = [asked]
    result = run.result([Done("proved", "0")], "")
    assert result.claimed == 1 != result.value
    assert not result.verified
    assert result.status == "feasible"


def test_a_bound_without_a_horizon_argument_is_not_an_optimum():
    schedule = solvers.solve(MARS).schedule
    result = Result(MARS, "total-flow-time", schedule=schedule, horizon=Horizon(5, False, "5 batches were tried"))
    result.bound = result.value
    assert result.gap == 0.0
    assert result.status == "feasible"


def test_statuses_keep_unknown_bound_only_and_infeasible_apart():
    assert Result(MARS, "makespan").status == "unknown"
    assert Result(MARS, "makespan", bound=3).status == "bound-only"
    assert Result(MARS, "makespan", infeasible=True).status == "infeasible"
    assert Result(MARS, "makespan").to_json()["value"] is None


def test_a_crashing_worker_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    ends = pool.race([task(MARS)], lambda *_: None, lambda: None)
    assert isinstance(ends[0], Failed)
    assert "its process ended with code 1" in ends[0].message


def test_options_that_make_no_sense_are_refused():
    with pytest.raises(BadInput, match="the search is its own solver"):
        solvers.solve(MARS, formulation="search", solver="highs")
    with pytest.raises(BadInput, match="no objective is called 'x'"):
        solvers.solve(MARS, "x")


def test_progress_is_reported_with_value_and_bound():
    seen = []

    def note(value, bound, seconds):
        seen.append(seconds)
        if len(seen) > 3 and value is not None and bound is not None:
            raise KeyboardInterrupt

    assert solvers.solve(BIG, progress=note).stopped == "interrupted"
    assert seen == sorted(seen)


def test_a_worker_ends_when_its_parent_is_gone():
    """Otherwise it would go on without anybody who watches its time and memory; what it prints still has a reader."""
    forever = Task(builtin_instance("hindsight:n=60,M=60,seed=1"), "total-flow-time", "search", "search",
                   None, None, None, 1e9, 1000, 1, 0)  # fmt: skip
    worker = subprocess.Popen([sys.executable, "-m", "solvers.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdin is not None
        pickle.dump(forever, worker.stdin)
        worker.stdin.flush()
        assert worker.stdout is not None
        assert isinstance(pickle.load(worker.stdout), Bound | Found)  # it is at work
        worker.stdin.close()  # as the kernel does when the parent is killed
        worker.stdout.read()
        assert worker.wait() == 1
    finally:
        worker.kill()
