"""The driver: limits, crashes, lies of a solver, and what may be called optimal."""

import json
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest import mock

import pytest

import kvbound
import kvcore
import solvers
from heuristics import BY_COST, POLICIES, PolicyError, Unsuited, get_policy, trace_policy
from kvcore import OBJECTIVES, MissingTool, objective_value
from kvcore.certificates import Alone, certify, verify_certificate
from kvcore.result import Horizon, LogEntry, Result, Rung, Size, Start, Stop, answer
from solvers import driver, milp, pool, source
from solvers.exact import exact
from solvers.incumbent import Bounds
from solvers.matrix import MatrixModel
from solvers.messages import Bound, Done, Failed, Found, Limits, SolveJob, SolveOptions
from solvers.process import Process
from solvers.ways import BOUND, SOLVERS, WAYS, Solver
from tests.support.clock import Clock
from tests.support.contents import IDLE
from tests.support.solving import solving
from workloads.builtin import builtin_instance

ROOT = Path(__file__).parents[2]
MARS = builtin_instance("mars-figure1")
BIG = builtin_instance("hindsight-benchmark:seed=2")


@cache
def solved():
    return solvers.solve(MARS)


def job(instance, formulation="slots", **changes):
    facts = {
        "instance": instance, "objective": "total-flow-time", "formulation": formulation, "solver": formulation,
        "batches": None, "upper_bound": None, "start": None, "time_limit": 60.0, "memory_limit": 4000, "threads": 1,
        "seed": 0,
    }  # fmt: skip
    return SolveJob(**(facts | changes))


@pytest.mark.parametrize("formulation", ["slots", "events", "search"])
def test_each_exact_search_certifies_the_worked_example(formulation):
    result = solvers.solve(MARS, formulation=formulation, certify_limit=0)
    assert (result.status, result.value, result.bound, result.certified_bound) == ("optimal", 29, 29, 29)
    assert (result.bound_kind, result.proved_by) == ("certificate", formulation.replace("search", "slots"))
    assert verify_certificate(MARS, result.certificate) == 29


CLAIMS = {"batch-bigm": (MARS, "total-flow-time", 29, "solver", "events")}


@pytest.mark.parametrize("formulation", CLAIMS)
def test_what_no_checker_has_recomputed_is_a_claim(formulation):
    instance, objective, value, kind, _ = CLAIMS[formulation]
    result = solvers.solve(instance, objective, formulation=formulation, certify_limit=0)
    assert (result.status, result.value, result.bound) == ("claimed", value, value)
    assert result.certified_bound < value
    assert (result.bound_kind, result.proved_by) == (kind, f"{formulation} on highs")
    assert result.standing == f"claimed by {result.proved_by}"


@pytest.mark.parametrize("formulation", CLAIMS)
def test_a_claim_is_certified_in_the_time_that_is_left(formulation):
    instance, objective, _, _, proved_by = CLAIMS[formulation]
    for method in ("potentials", "in-order", proved_by):  # what is compiled is kept: certifying has ten seconds
        kvbound.bound(instance, objective, method=method)
    result = solvers.solve(instance, objective, formulation=formulation)
    assert (result.status, result.bound_kind, result.proved_by) == ("optimal", "certificate", proved_by)
    assert result.certified_bound == verify_certificate(instance, result.certificate) == result.value
    assert 0 < result.certifying_seconds < result.seconds
    assert result.ladder[-1].method == proved_by
    assert result.formulation == formulation


LATE = builtin_instance("hindsight:n=3,M=12,seed=0")
LATE = LATE.replace(requests=tuple(one.replace(slo=kvcore.Slo(latency=7)) for one in LATE.requests))
LONG = LATE.replace(cost=kvcore.Cost((kvcore.CostFunction(busy=1, tokens=1),)))
QUESTIONS = (
    (MARS, "total-flow-time", 29), (MARS, "p99-flow-time", 14), (LATE, "total-flow-time", 23),
    (LATE, "late-requests", 1), (IDLE, "total-flow-time", 11), (LONG, "total-flow-time", 77),
)  # fmt: skip
"""Instances and objectives of which each way takes some, with their optima."""
FEW_ROWS = (builtin_instance("hindsight:n=1,M=9,P=9,seed=0"), "total-flow-time", 4)
"""One request of four tokens: what a licence of few rows takes."""
ASKED = {"batch-bigm on highs", "cp-sat"}
"""Ways that are asked about MARS and every trait elsewhere in `make test`: here, what takes them a tenth of that."""


@pytest.mark.parametrize("way", WAYS.values(), ids=lambda way: way.label)
def test_each_way_runs_and_says_nothing_false(way):
    try:
        way.solver.version()
    except MissingTool as missing:
        pytest.skip(str(missing))
    questions = QUESTIONS[2:] if way.label in ASKED else (FEW_ROWS,) * (way.solver.name == "gurobi") + QUESTIONS
    asked = next(each for each in questions if way.declines(*each[:2]) is None)
    given = {"time_limit": 0.3 if way.endless else None, "certify_limit": 0, "warm_start": "serial"}
    result = solvers.solve(*asked[:2], formulation=way.formulation, solver=way.solver.name, **given)
    assert way.endless or not (result.failed or result.rejected)
    assert result.bound <= asked[2] <= result.value
    assert result.value == asked[2] or way.proves not in ("search", "solver")


def test_what_a_claim_is_certified_with_ends_by_ctrl_c_and_the_claim_is_kept(monkeypatch):
    monkeypatch.setattr(driver, "BOUND", WAYS["improve", "improve"])  # which never ends by itself

    seen = []

    def interrupt(value, bound, seconds):
        seen.append(value == bound)
        if sum(seen) > 3:
            raise KeyboardInterrupt

    result = solvers.solve(MARS, formulation="batch-bigm", warm_start="serial", progress=interrupt)
    assert (result.stopped, result.status, result.value) == ("interrupted", "claimed", 29)
    assert result.certifying_seconds > 0


def test_the_log_says_when_what_was_found_and_proved():
    log = solved().to_json()["log"]
    assert log[0] == {"seconds": log[0]["seconds"], "bound": 22, "by": "alone"}
    values, proved = ([entry[key] for entry in log if key in entry] for key in ("value", "bound"))
    assert values == sorted(set(values), reverse=True)
    assert proved == sorted(set(proved))
    assert values[-1] == proved[-1] == 29
    assert [entry["seconds"] for entry in log] == sorted(entry["seconds"] for entry in log)
    assert {tuple(entry) for entry in log} == {("seconds", "value", "by"), ("seconds", "bound", "by")}


def test_a_false_certificate_of_a_worker_is_refused():
    run, asked = solving(job(MARS)), job(MARS, "batch-bigm", solver="highs")
    false = certify(MARS, "total-flow-time", Alone()).replace(bound="29")
    run.receive(asked, Bound(29, "certificate", false))
    assert run.held.bounds == Bounds()
    assert "it claims 29, but proves 22 only" in run.rejected[0]


@pytest.mark.parametrize("solver", ["highs", pytest.param("gurobi", marks=pytest.mark.gurobi)])
def test_a_solver_has_proved_what_its_own_bound_meets(solver, monkeypatch):
    """HiGHS has called a solution optimal that costs 12, with a bound of 8."""
    one = kvcore.Instance(
        machine=kvcore.Machine(memory=4),
        requests=(MARS.requests[0].replace(prompt=1, segments=(kvcore.Segment(decode=2),)),),
    )
    asked = job(one, "batch-bigm", solver=solver, batches=2)
    assert milp.run(asked, lambda message: None) == Done("proved")
    cost = MatrixModel.value
    monkeypatch.setattr(MatrixModel, "value", lambda matrix, x: cost(matrix, x) + 4)
    assert milp.run(asked, lambda message: None) == Done("solver failure")


CP_SAT = """
from ortools.sat.python import cp_model
from solvers import cp_sat
from tests.solvers.test_driver import MARS, job

job, sent = job(MARS, "cp-sat", batches=14), []
print(cp_sat.run(job, sent.append).stop, sent[-1].value)
cp_model.CpSolver.best_objective_bound = property(lambda solver: 8.0)
print(cp_sat.run(job, sent.append).stop, sent[-1].value)
"""


def test_cp_sat_has_proved_what_its_own_bound_meets():
    pytest.importorskip("ortools")
    found = subprocess.run([sys.executable, "-c", CP_SAT], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.splitlines() == ["proved 29", "solver failure 8"]


@pytest.mark.gurobi
@pytest.mark.slow
def test_gurobi_solves_what_its_licence_allows_and_says_what_it_does_not():
    pytest.importorskip("gurobipy")
    small = MARS.replace(requests=MARS.requests[1:])
    result = solvers.solve(small, formulation="batch-bigm", solver="gurobi")
    assert result.value == exact(small).value
    assert result.solver.name == "gurobi"
    if SOLVERS["gurobi"].licence() == "full":
        pytest.skip("a full Gurobi licence is here, so there is no limit to report")
    with pytest.raises(MissingTool, match=r"limited to 2000 variables .* use --solver highs"):
        solvers.solve(MARS, formulation="batch-bigm", handling="free", solver="gurobi")


def test_a_named_policy_that_does_not_end_in_time_is_replaced_by_serial(monkeypatch):
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Done("time limit")])
    result = solvers.solve(BIG, warm_start="mars-order", time_limit=1e6, options={"solve.policies": 0})
    assert result.value == objective_value(trace_policy(BIG, get_policy("serial")), "total-flow-time")
    assert result.failed[:1] == ["mars-order did not end in its part of the time limit: serial stands in for it"]
    named = solvers.solve(BIG, warm_start="mars-order", time_limit=1e6, options={"solve.policies": 1})
    assert named.value == objective_value(trace_policy(BIG, get_policy("mars-order")), "total-flow-time")
    assert not [why for why in named.failed if "not tried" not in why]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_whatever_solves_is_never_worse_than_any_policy_that_the_machine_suits(monkeypatch, objective):
    """The shipped AugServe was better than the best found: only five policies were tried."""
    instance = builtin_instance("worst-vllm-total-flow-time")
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Done("time limit")])
    values = []
    for policy in POLICIES.values():
        with suppress(PolicyError, Unsuited):
            values.append(objective_value(trace_policy(instance, policy), objective))
    assert len(values) > 45
    result = solvers.solve(instance, objective)
    assert result.value == min(values)
    assert not [why for why in result.failed if not why.startswith("not tried: ")]


@pytest.mark.parametrize("ends", [[Done("memory limit")], [Failed("too large", "bad input")]])
def test_policies_that_have_not_run_go_on_beside_the_workers_and_after_them(monkeypatch, ends):
    monkeypatch.setattr(driver, "race", lambda *_, **__: ends)
    result = solvers.solve(BIG, time_limit=1e6, options={"solve.policies": 0})
    suited = [policy for policy in BY_COST if not policy.why_not(BIG.machine)]
    assert result.value == min(objective_value(trace_policy(BIG, policy), "total-flow-time") for policy in suited)


def test_policies_end_with_the_time_limit_and_the_result_says_how_many_are_left(monkeypatch):
    """Each look at the clock is a second later, and no policy ends within ten: the bound is there all the same."""
    raced = mock.Mock()
    monkeypatch.setattr(driver, "race", raced)
    monkeypatch.setattr("bounds.clock.time", Clock())
    result = solvers.solve(BIG, time_limit=10)
    assert (result.status, result.stopped, result.formulation) == ("bound-only", "time limit", "alone")
    suited = sum(policy.why_not(BIG.machine) is None for policy in BY_COST)
    assert result.failed[:1] == [f"{suited} policies that the machine suits did not end in time"]
    raced.assert_not_called()


def test_shares_of_time_are_there_before_any_worker(monkeypatch):
    """Twenty requests share a batch a tick: the first proof alone is above twice what each needs by itself."""
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Done("time limit")])
    monkeypatch.setattr(SolveOptions, "at_once", 10**6)
    result = solvers.solve(builtin_instance("mars-like:n=20,seed=0"), time_limit=10**8)
    by_alone, by_shares = ([each.value for each in result.log if each.by == by] for by in ("alone", "shares"))
    assert (result.proved_by, [result.bound]) == ("shares", by_shares)
    assert result.bound > 2 * by_alone[0]


@pytest.mark.parametrize(("named", "starts"), [({}, 0), ({"formulation": "batch-bigm"}, 1)])
def test_a_bound_that_is_there_before_the_workers_decides_unless_a_way_is_named(monkeypatch, named, starts):
    done = Done("proved")
    start = mock.Mock(side_effect=lambda job, inbox, ends, told: pool.SolveWorker(job, mock.Mock(), ends, done))
    monkeypatch.setattr(pool, "_start", start)
    result = solvers.solve(BIG.replace(requests=BIG.requests[:1]), **named)
    assert (result.status, result.stopped, result.proved_by) == ("optimal", "proved", "alone")
    assert start.call_count == starts


def test_a_bound_below_alone_is_not_taken():
    run = solving(job(MARS))
    run.opening.bound_at_once()
    alone = run.held.bounds.value
    run.receive(job(MARS, "cp-sat", solver="cp-sat"), Bound(-6))
    run.receive(job(MARS), Bound(-6))
    assert (run.held.bounds.value, run.held.bounds.by, run.held.bounded_by.formulation) == (alone, "alone", "alone")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_while_a_worker_starts_comes_when_it_can_be_ended(monkeypatch, number):
    started = []

    class Slow(Process):
        def __init__(self, *arguments):
            signal.raise_signal(number)
            super().__init__(*arguments)
            started.append(self)

    monkeypatch.setattr(pool, "Process", Slow)
    before = {each: signal.signal(each, signal.default_int_handler) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        assert pool.race([[job(MARS)]], lambda *_: None, lambda: None) == [Done("interrupted")]
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert started[0].has_ended()


def test_ctrl_c_before_any_worker_started_leaves_the_bound_and_the_policies_schedule(monkeypatch):
    monkeypatch.setattr(pool, "_start", mock.Mock(side_effect=KeyboardInterrupt))
    result = solvers.solve(MARS)
    assert result.stopped == "interrupted"
    assert 0 < result.bound <= result.value


def test_time_limit_keeps_schedule_and_bound(monkeypatch):
    """The time of the workers stands still until there is both; then each look at the progress takes as long as it."""
    now = [0.0]

    def skip(value, bound, seconds):
        if value is not None and bound is not None:
            now[0] += 1e6

    monkeypatch.setattr(pool.Process, "seconds", lambda self: now[0])
    result = solvers.solve(BIG, time_limit=1e6, progress=skip)
    assert result.stopped == "time limit"
    assert result.status == "feasible"
    assert 0 < result.bound < result.value


def test_value_and_bound_are_there_before_any_worker(monkeypatch):
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Done("time limit")])
    result = solvers.solve(BIG, formulation="batch-bigm")
    assert result.stopped == "time limit"
    assert (result.bound, result.bound_kind, result.formulation) == (result.certificate.value, "certificate", "alone")
    assert 0 < result.bound < result.value
    assert result.horizon.sufficient
    one = solvers.solve(BIG.replace(requests=BIG.requests[:1]), warm_start="serial")
    assert (one.status, one.stopped) == ("optimal", "proved")


def test_ctrl_c_while_policies_run_keeps_the_best_of_them(monkeypatch):
    def interrupt(value, *_):
        if value is not None:
            raise KeyboardInterrupt

    result = solvers.solve(BIG, progress=interrupt)
    assert result.stopped == "interrupted"
    assert 0 < result.bound < result.value


def test_a_long_schedule_to_start_from_is_not_written_out(monkeypatch):
    monkeypatch.setattr(SolveOptions, "written_out", 1)
    result = solvers.solve(MARS, warm_start="serial", time_limit=600)
    assert result.status == "optimal"
    monkeypatch.setattr(driver, "race", lambda lanes, *_, **__: [Failed(str(lanes[0][0].start))])
    held = solvers.solve(BIG, warm_start="serial")
    assert any(batch.repeat > 1 for batch in held.schedule.batches)
    assert held.failed[0] == "None"


def test_a_worker_that_starts_late_has_the_time_that_is_left(monkeypatch):
    """Not what was left when it started, counted from the start of the race: it ended seconds after it began."""
    began = []

    def start(job, inbox, ends, told):
        began.append((job.time_limit, ends))
        return pool.SolveWorker(job, mock.Mock(), ends, used=50.0, done=Done("time limit"))

    monkeypatch.setattr(pool, "_start", start)
    pool.race([[job(MARS), job(MARS)]], lambda *_: None, lambda: None)
    assert began == [(60.0, 60.0), (10.0, 60.0)]


def test_workers_do_not_take_modules_from_the_current_folder(monkeypatch, tmp_path):
    for name in ("solvers", "library", "kvcore"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')")
    monkeypatch.chdir(tmp_path)
    path = [str(ROOT), *sys.path]
    for first in ("", str(tmp_path)):
        monkeypatch.setattr(sys, "path", [first, *path])
        assert pool.race([[job(MARS)]], lambda *_: None, lambda: None)[0].stop == "proved"


def test_a_worker_that_the_kernel_ends_for_its_time_is_out_of_time(monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nkill -XCPU $$\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    assert pool.race([[job(MARS)]], lambda *_: None, lambda: None) == [Done("time limit")]


def test_a_solver_that_cannot_be_loaded_says_why(monkeypatch, tmp_path):
    (tmp_path / "broken_solver.py").write_text("raise ImportError('undefined symbol: Highs_run')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingTool, match=r"although highspy [\d.]+ is installed: undefined symbol: Highs_run"):
        SOLVERS["highs"].load("broken_solver")
    with pytest.raises(MissingTool, match="highs is not installed; install it with: pip install highspy"):
        Solver("highs", "", "no-such-package", "pip install highspy").load("broken_solver")


def test_a_checkout_that_is_not_installed_solves_with_its_own_version(monkeypatch):
    def nowhere(package):
        raise PackageNotFoundError(package)

    monkeypatch.setattr("solvers.ways.metadata.version", nowhere)
    result = solvers.solve(MARS, formulation="events")
    assert (result.status, result.solver.version) == ("optimal", kvcore.__version__)
    with pytest.raises(MissingTool, match="highs is not installed"):
        SOLVERS["highs"].version()


def test_memory_limit_ends_the_worker_and_keeps_what_it_found():
    result = solvers.solve(BIG, memory_limit=100)
    assert result.stopped == "memory limit"
    assert result.verified


def test_a_schedule_that_the_referee_refuses_is_never_held():
    run, asked = solving(job(MARS)), job(MARS, "events")
    good = solved().schedule
    bad = good.model_copy(update={"batches": good.batches[:-1]})
    run.receive(asked, Found(bad, 1))
    assert run.held.incumbent.schedule is None
    assert "R11" in run.rejected[0]
    run.receive(asked, Found(good, 1))
    run.receive(asked, Bound(run.held.incumbent.value))
    run.ends = [Done("proved")]
    result = run.result()
    assert result.claimed == 1 != result.value
    assert not result.verified
    assert result.status == "feasible"


def test_a_solve_says_that_the_time_is_over_where_one_worker_had_nothing_left_to_try_before():
    run = solving(job(MARS))
    run.receive(job(MARS, "events"), Found(solved().schedule, None))
    for ends, stopped in ((["memory limit", "time limit"], "time limit"), (["memory limit"], "memory limit")):
        run.ends = [Done(Stop(end)) for end in ends]
        assert run.result().stopped == stopped


def test_a_bound_without_a_horizon_argument_is_not_an_optimum():
    result = Result(
        MARS, "total-flow-time", schedule=solved().schedule, horizon=Horizon(5, False, "5 batches were tried")
    )
    result.bound = result.value
    assert result.gap == 0.0
    assert result.status == "feasible"


def test_workers_stop_where_a_bound_on_all_schedules_is_met_or_close_enough():
    run, asked = solving(job(MARS), gap=0.1), job(MARS, "cp-sat", solver="cp-sat")
    run.held.incumbent.value = 100
    run.receive(asked, Bound(100))
    assert run.held.decided() is None  # it is one on the schedules of some number of batches
    run.receive(asked, Horizon(5, True, "no better schedule has more"))
    for bound, why in ((90, None), (91, "stopped early"), (100, "proved")):
        run.receive(asked, Bound(bound))
        assert run.held.decided() == why


def test_a_bound_on_schedules_of_some_number_of_batches_proves_nothing_of_the_instance():
    run, asked = solving(job(MARS)), job(MARS, "cp-sat", solver="cp-sat")
    run.receive(asked, Found(trace_policy(MARS, get_policy("fcfs")).schedule, None))
    for sufficient in (False, True):
        run.receive(asked, Horizon(99, sufficient, "of a worker"))
        run.receive(asked, Bound(run.held.incumbent.value))
        result = run.result()
        assert (result.stopped == "proved") is sufficient
        assert result.horizon.batches == 99


def test_a_target_is_reached_at_its_value_and_out_of_reach_of_a_bound_above_it():
    for value, bound, expected in ((None, 29, "unknown"), (None, 30, "no"), (30, 29, "unknown"), (29, 20, "yes")):
        assert answer(29, value, bound) == expected
    assert answer(None, 29, 29) == "unknown"
    assert [Limits(target=29).met(value, 28) for value in (29, 30)] == ["stopped early", None]
    assert Limits(target=27).met(30, 28) == "stopped early"


INTERFACE = {
    "instance", "instance_sha256", "objective", "tick_seconds", "status", "value", "mean", "bound", "gap", "bound_kind",
    "certified_bound", "found_by", "proved_by", "horizon", "verified", "formulation", "solver", "policy", "seconds",
    "clock_seconds", "stopped", "handling", "completion",
}  # fmt: skip


def test_a_row_has_the_keys_and_words_that_scripts_rely_on():
    assert set(Result(MARS, "makespan").to_json()) == INTERFACE
    full = Result(
        MARS, "makespan", stopped=Stop.TIME_LIMIT, chosen="so", log=[LogEntry(0.12345, "value", 3, "fcfs")],
        ladder=[Rung("alone", 0.5, 2, "all", "it is"), Rung("slots", why_not="no"), Rung("events")],
        certifying_seconds=0.0, target=0, models={"cp-sat": Size(1, 2, 3)}, constraints=["waits"],
        options={"solve.grace": 1.0}, start=Start("fcfs"), rounds=0, rejected=["R1"], failed=["late"],
    )  # fmt: skip
    row = json.loads(json.dumps(full.to_json()))
    assert row["stopped"] == "time limit"
    assert {key: row[key] for key in row.keys() - INTERFACE} == {
        "chosen": "so", "log": [{"seconds": 0.123, "value": 3, "by": "fcfs"}], "certifying_seconds": 0.0,
        "ladder": [
            {"method": "alone", "bound": 2, "seconds": 0.5, "drops": "all", "why": "it is"},
            {"method": "slots", "bound": None, "seconds": 0.0, "drops": "", "why": "no"},
            {"method": "events", "bound": None, "seconds": 0.0, "drops": "", "why": "it ended before its first proof"},
        ],
        "better_than": {"target": "0", "answer": "unknown"},
        "model": {"cp-sat": {"rows": 1, "columns": 2, "nonzeros": 3}},
        "constraints": ["waits"], "options": {"solve.grace": 1.0},
        "start": {"policy": "fcfs", "value": None}, "rounds": 0, "rejected": ["R1"], "failed": ["late"],
    }  # fmt: skip


def test_a_bound_on_all_schedules_is_better_than_any_other_and_a_certificate_than_the_same_word():
    held, alone = Bounds(), certify(MARS, "total-flow-time", Alone())
    assert held.take(40, "solver", "few batches", Horizon(3, False, "so many were tried"))
    assert (held.value, held.of_all) == (40, None)
    assert held.certify(alone, "alone")
    assert (held.value, held.of_all, held.kind, held.by) == (22, 22, "certificate", "alone")
    assert held.take(23, "search", "counts")
    assert not held.certify(alone, "again")
    assert (held.value, held.kind, held.by, held.certificate) == (23, "search", "counts", alone)
    met = Bounds(22, "search", "counts", held.horizon)
    assert not met.certify(alone, "alone")
    assert not met.take(22, "solver", "highs")
    assert (met.kind, met.by, met.certificate) == ("certificate", "alone", alone)


def test_statuses_keep_unknown_bound_only_and_infeasible_apart():
    assert Result(MARS, "makespan").status == "unknown"
    assert Result(MARS, "makespan", bound=3).status == "bound-only"
    assert Result(MARS, "makespan", infeasible=True).status == "infeasible"


def test_the_trace_of_another_schedule_is_refused():
    trace = trace_policy(MARS, get_policy("fcfs"))
    assert Result(MARS, "makespan", trace.schedule, executed=trace).trace is trace
    with pytest.raises(ValueError, match="the trace is of another schedule"):
        Result(MARS, "makespan", trace.schedule.replace(), executed=trace)
    assert Result(MARS, "makespan").to_json()["value"] is None


def test_a_crashing_worker_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    ends = pool.race([[job(MARS)]], lambda *_: None, lambda: None)
    assert isinstance(ends[0], Failed)
    assert "its process ended with code 1" in ends[0].message


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
    forever = SolveJob(builtin_instance("hindsight:n=60,M=60,seed=1"), "total-flow-time", "bound", "bound",
                   None, None, None, 1e9, 1000, 1, 0)  # fmt: skip
    worker = subprocess.Popen([sys.executable, "-m", "solvers.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        pickle.dump(forever, worker.stdin)
        worker.stdin.flush()
        assert isinstance(pickle.load(worker.stdout), Bound | Found)
        worker.terminate()  # as Slurm does with all processes of a job: the parent decides
        worker.stdin.close()  # as the kernel does when the parent is killed
        worker.stdout.read()
        assert worker.wait() == 1
    finally:
        worker.kill()


def test_the_version_of_the_code_is_that_of_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "__file__", str(tmp_path / "solvers" / "source.py"))
    version, seen = source.code_version.__wrapped__, set()
    for file, text in (("kvcore/a.py", "1"), ("kvcore/a.py", "2"), ("bounds/deep/a.py", "2"), ("tests/a.py", "2")):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
        seen.add(version())
    assert len(seen) == 3  # the tests prove nothing
    assert all(each.startswith(f"{kvcore.__version__}+") for each in seen)


def test_a_method_of_the_ladder_that_had_no_time_is_named():
    run = solving(job(BIG), lanes=((BOUND,),))
    run.ends = [Done("time limit")]
    assert [*run._not_tried()] == ["not tried: the ladder of bounds (its turn did not come)"]
    run.receive(job(BIG, "bound"), Rung("alone", 0.1, 2))
    run.receive(job(BIG, "bound"), Rung("shares", why_not="one evaluation takes about 12 s", more=11.2))
    named = [*run._not_tried()]
    assert "not tried: shares (12 s more)" in named
    assert "not tried: potentials (its turn did not come)" in named
    assert not any("alone" in each for each in named)


def test_every_event_is_told_as_it_comes():
    events = []
    result = solvers.solve(MARS, event=events.append)
    kinds = [each["event"] for each in events]
    assert set(kinds[: kinds.index("start")]) == {"bound", "value"}
    ways = [[each["way"] for each in events if each["event"] == kind] for kind in ("start", "end")]
    assert set(ways[0]) == set(ways[1]) != set()
    assert [each["value"] for each in events if each["event"] == "value"][-1] == result.value
    assert all(each["clock_seconds"] >= 0 for each in events)


@pytest.mark.parametrize(("warm_start", "status"), [("best", "feasible"), ("none", "bound-only")])
def test_ctrl_c_before_any_schedule_leaves_the_fastest_policys(warm_start, status):
    def interrupt(event):
        raise KeyboardInterrupt

    result = solvers.solve(BIG, event=interrupt, warm_start=warm_start)
    assert (result.stopped, result.status) == ("interrupted", status)
