"""A bound above the value of a schedule that the referee passed: planted, it stops whatever meets it."""

import json
from pathlib import Path

import pytest

import kvbound as kv
from heuristics import get_policy
from hypotheses.search.ratio import Claim, Optima, judge
from kvcore.certificates import Alone, InvalidCertificate, certify, recompute, verify_certificate
from kvcore.contradiction import Contradiction
from kvcore.files import read_instance, read_schedule
from kvcore.referee import verify_schedule
from kvcore.result import Horizon, Result
from solvers.exact import exact
from solvers.messages import Bound, SolveJob
from tests.support.commands import kvbound
from tests.support.solving import solving
from workloads.builtin import builtin_instance

FLOW, MARS = "total-flow-time", builtin_instance("mars-figure1")
ALL, SOME = Horizon(0, True, "planted"), Horizon(5, False, "5 batches were tried")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def schedule():
    return kv.simulate(MARS, "mars-order").schedule  # 30; the optimum is 29


def written():
    (folder,) = Path.cwd().glob("kvbound-contradiction-*")
    return {file.stem: file for file in folder.iterdir()}


def test_a_claim_above_a_value_is_written_beside_the_schedule(schedule):
    with pytest.raises(
        Contradiction, match=r"a schedule \(mars-order\) has 30, and clauses claims that none is below 31; one "
    ):
        Result(
            MARS, FLOW, schedule, bound=31, bound_kind="solver", horizon=ALL, found_by="mars-order", proved_by="clauses"
        )
    files = written()
    verify_schedule(read_instance(files["instance"]), read_schedule(files["schedule"]))
    assert json.loads(files["bound"].read_text()) == {"bound": "31", "kind": "solver", "proved_by": "clauses"}


def test_a_bound_within_too_few_batches_contradicts_nothing(schedule):
    result = Result(MARS, FLOW, schedule, bound=31, bound_kind="solver", horizon=SOME)
    assert (result.status, result.bound_of_all) == ("feasible", None)


def test_a_certificate_above_a_value_is_written_whatever_the_horizon(schedule, monkeypatch):
    with monkeypatch.context() as planted:
        planted.setattr(Alone, "prove", lambda *_: 31)
        false = certify(MARS, FLOW, Alone())
    with pytest.raises(Contradiction, match=f"alone certifies that none is below 31.*{Path.cwd().name}"):
        Result(MARS, FLOW, schedule, bound=31, certificate=false, horizon=SOME, proved_by="alone")
    with pytest.raises(InvalidCertificate, match="it claims 31, but proves 22 only"):
        verify_certificate(MARS, kv.read_certificate(written()["bound"]))


def test_the_driver_does_not_pass_it_on(schedule, monkeypatch):
    job = SolveJob(MARS, FLOW, "bound", "bound", None, None, None, 60.0, 1000, 1, 0)
    run = solving(job)
    run.held.hold(verify_schedule(MARS, schedule), "fcfs")
    monkeypatch.setattr(Alone, "prove", lambda *_: 31)
    run.receive(job, Bound(31, "certificate", certify(MARS, FLOW, Alone()), "alone"))
    with pytest.raises(Contradiction, match="alone certifies that none is below 31"):
        run.result()


def test_the_ladder_does_not_pass_it_on(schedule, monkeypatch):
    value = Result(MARS, FLOW, schedule).value
    claimed = Result(MARS, FLOW, schedule, bound=value, bound_kind="search", horizon=ALL, proved_by="search")
    monkeypatch.setattr(Alone, "prove", lambda *_: 31)
    with pytest.raises(Contradiction, match="certifies that none is below 31"):
        Claim(MARS, "fcfs", FLOW, value, value, value, claimed).certified(1)


@pytest.mark.parametrize(
    "command",
    [("solve", "mars-figure1"), ("compare", "mars-figure1", "--policies", "fcfs"), ("check", "mars-figure1-order")],
)
def test_commands_end_with_code_1_and_one_line(command, monkeypatch):
    monkeypatch.setattr("hypotheses.case._FOUND", {})
    monkeypatch.setattr(Alone, "prove", lambda *_: 32)
    said = kvbound(*command, code=1).stderr
    assert said.count("\n") == 1
    assert "that none is below 32; one of the two is wrong, please report what is in" in said
    assert set(written()) == {"instance", "schedule", "bound"}


def test_an_outside_schedule_below_a_claim_stops_compare(tmp_path, monkeypatch):
    best = exact(MARS)
    kv_file = tmp_path / "best.json"
    kv_file.write_text(best.schedule.to_json())
    false = Result(MARS, FLOW, bound=30, bound_kind="search", horizon=ALL, proved_by="search")
    monkeypatch.setattr("kvbound.comparison.solve", lambda *_, **__: false)
    said = kvbound("compare", "mars-figure1", "--policies", "fcfs", "--schedule", kv_file, code=1).stderr
    assert "a schedule (best.json) has 29, and search claims that none is below 30" in said


def test_the_best_row_of_compare_is_where_solve_begins(monkeypatch):
    given = []
    false = Result(MARS, FLOW, bound=20, bound_kind="search", horizon=ALL, proved_by="search")
    monkeypatch.setattr("kvbound.comparison.solve", lambda *_, known, **__: given.append(known) or false)
    best = exact(MARS).schedule
    kv.compare(MARS, ["fcfs", "sjf"], schedules={"fcfs": best})
    assert given[0] == {"fcfs": best}  # not the policy of that name


def test_a_policy_below_the_bound_of_a_search_stops_the_hunt(schedule):
    optima = Optima(FLOW)
    optima.of = lambda _: Result(MARS, FLOW, schedule, bound=30, bound_kind="search", horizon=ALL, proved_by="search")
    with pytest.raises(Contradiction, match="has 29, and search claims that none is below 30"):
        judge(MARS, get_policy("random"), optima)


def test_a_certificate_from_elsewhere_is_recomputed_in_this_process(monkeypatch):
    mine = certify(MARS, FLOW, Alone())
    other = kv.read_certificate(_saved(mine))
    monkeypatch.setattr(Alone, "prove", lambda *_: 5)
    recompute(MARS, FLOW, mine)
    for each in (other, mine.replace(bound="21")):
        with pytest.raises(InvalidCertificate, match="but proves 5 only"):
            Result(MARS, FLOW, certificate=each)
    with pytest.raises(InvalidCertificate, match="it is of total-flow-time, not of makespan"):
        Result(MARS, "makespan", certificate=mine)


def _saved(certificate):
    file = Path("c.json")
    file.write_text(certificate.to_json())
    return file
