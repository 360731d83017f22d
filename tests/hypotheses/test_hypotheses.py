"""Hypotheses: verdicts, their exit codes and records, and every shipped one with its counterexample."""

import json
import operator
import signal
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from unittest import mock

import pytest

from heuristics import best_schedule
from hypotheses import Case, Fails, Family, Hypothesis, Undecided, check, enumerated, listed, load, shipped
from hypotheses.hypothesis_files import COUNTEREXAMPLES, save
from hypotheses.page import PAGE, kept, page, read_records
from hypotheses.predicates import compared, optimal, run
from hypotheses.small_instances import best_starts_in_order, earliest_starts, flow_time, plain, starting_at
from hypotheses.verdict import CLAIMED
from kvcore.certificates import read_certificate, verify_certificate
from kvcore.errors import BadInput
from kvcore.files import read_instance, read_schedule, write_text
from kvcore.instance import Instance
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.result import Horizon, Result
from solvers.exact import EXACT, exact
from tests.support.clock import Clock
from tests.support.commands import kvbound, one_line, run_kvbound
from workloads.builtin import builtin_instance

QUICK = (
    "mars-figure1-order", "mars-figure1-free", "mars-rank", "restarting-gains-nothing", "fcfs-unbounded",
    "fcfs-exponent", "online-adversary", "prefix-idle", "prefix-exponent",
    "recompute-crossing-elsewhere", "break-even-contention", "shortest-paused-eviction",
)  # fmt: skip
SMALL = enumerated("three instances", lambda: [plain([(1, n)], 9) for n in (3, 1, 2)])


def hypothesis(predicate, family=SMALL, states="proved"):
    return Hypothesis("a claim", "a test", states, family, predicate)


def test_a_whole_family_that_holds_is_a_proof():
    verdict = check("x", hypothesis(lambda case: Fraction(case.instance.requests[0].output)))
    assert (verdict.verdict, verdict.held, verdict.largest, verdict.as_stated) == ("proved", 3, 3, True)


def test_a_part_of_a_family_proves_nothing():
    verdict = check("x", hypothesis(lambda case: None), take=2)
    assert (verdict.verdict, verdict.held, verdict.as_stated) == ("no counterexample", 2, True)


def test_a_drawn_family_proves_nothing():
    family = Family("two", lambda: [plain([(1, 1)], 9), plain([(1, 2)], 9)])
    assert check("x", hypothesis(lambda case: None, family, "no counterexample")).verdict == "no counterexample"


def test_the_smallest_counterexample_is_found_wherever_it_is_listed():
    verdict = check("x", hypothesis(lambda case: Fails("bad") if case.instance.requests[0].output > 1 else None))
    assert (verdict.verdict, verdict.held, verdict.as_stated) == ("refuted", 1, False)
    assert verdict.failing[0].requests[0].output == 2


def test_what_is_not_decided_is_counted():
    def one_is_open(case):
        if case.instance.requests[0].output == 2:
            raise Undecided("open")

    verdict = check("x", hypothesis(one_is_open))
    assert (verdict.verdict, verdict.held, verdict.undecided, verdict.as_stated) == ("undecided", 2, 1, False)


def test_a_limit_leaves_it_undecided():
    assert check("x", hypothesis(lambda case: None), time_limit=-1).verdict == "undecided"
    with pytest.raises(Undecided, match="not solved within the limits"):
        Case((plain([(1, 2)], 9),), deadline=0).optimum()


def test_what_cannot_be_finished_is_undecided(monkeypatch):
    hard = listed("hindsight:n=10,M=30,seed=3")
    monkeypatch.setattr("solvers.exact.EXACT", EXACT[:2])  # the third would prove it
    monkeypatch.setattr("bounds.clock.time", Clock())
    monkeypatch.setattr("hypotheses.case.exact", exact)
    verdict = check("x", hypothesis(lambda case: case.optimum() and None, hard))
    assert (verdict.verdict, verdict.undecided) == ("undecided", 1)


def test_absent_data_is_said(monkeypatch):
    monkeypatch.delenv("KVBOUND_DATA", raising=False)
    family = Family("real", lambda: pytest.fail("it was read"), data=True)
    verdict = check("x", hypothesis(lambda case: None, family, "no counterexample"))
    assert (verdict.verdict, verdict.as_stated) == ("skipped", True)
    assert "KVBOUND_DATA names no folder" in verdict.row()["why"]


@pytest.mark.parametrize(("changes", "message"), [
    ({"states": "true"}, "states is one of proved, no counterexample, refuted, undecided, not 'true'"),
    ({"source": " "}, "a hypothesis needs a source"),
    ({"family": Family("drawn", list)}, "only a family of which all instances are listed can prove"),
])  # fmt: skip
def test_a_bad_hypothesis_is_refused(changes, message):
    good = {"statement": "a", "source": "b", "states": "proved", "family": SMALL, "predicate": lambda case: None}
    with pytest.raises(BadInput, match=message):
        Hypothesis(**(good | changes))


def test_policies_that_cannot_run_have_no_value():
    case = Case((plain([(1, 2)], 9),))
    assert case.policy("infermax") is None
    assert case.policy("fcfs").value == case.optimum().value == 2


def test_list_schedules_are_what_the_referee_says():
    instance = plain([(1, 2), (2, 2), (2, 5), (2, 5)], 6)
    for starts in (earliest_starts(instance, (3, 1, 0, 2)), best_starts_in_order(instance)):
        trace = verify_schedule(instance, starting_at(instance, starts))
        assert objective_value(trace, "total-flow-time") == flow_time(instance, starts)
    assert earliest_starts(instance, (3, 1, 0, 2), in_order=True) == [5, 0, 5, 0]


def test_a_counterexample_is_saved_so_that_verify_accepts_it(tmp_path):
    verdict = check("mars-figure1-free", shipped()["mars-figure1-free"])
    save(verdict, tmp_path)
    shown = json.loads((tmp_path / "mars-figure1-free" / "counterexample.json").read_text())["shown_by"]
    assert [(one["value"], one["certificate"] is None) for one in shown] == [("30", True), ("27", False)]
    for one in shown:
        place = tmp_path / "mars-figure1-free"
        kvbound("verify", place / one["instance"], "--schedule", place / one["schedule"])
    kvbound("verify", place / one["instance"], "--certificate", place / one["certificate"])

    (place / one["schedule"]).write_text("an earlier one")
    earlier = {file.name: file.read_bytes() for file in place.iterdir()}
    for writes in range(6):
        ended = mock.patch("hypotheses.hypothesis_files.write_text", side_effect=ended_after(writes))
        with ended, suppress(KeyboardInterrupt):
            save(verdict, tmp_path)
        assert earlier.items() <= {file.name: file.read_bytes() for file in place.iterdir()}.items()
    assert len(save(verdict, tmp_path)) == len(earlier)
    assert b"an earlier one" not in {file.read_bytes() for file in place.iterdir()}


def ended_after(writes):
    """Return a writer of files that is killed after some."""
    left = [writes]

    def write(path, text):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        write_text(path, text)

    return write


def test_every_shipped_hypothesis_has_a_source_and_a_record():
    rows = {row["hypothesis"]: row for row in read_records()}
    assert list(rows) == list(shipped())
    assert len(rows) >= 24
    for name, loaded in shipped().items():
        assert rows[name]["source"] == loaded.source
        assert rows[name]["statement"] == loaded.statement
        assert rows[name]["stated"] == loaded.states
        assert rows[name]["verdict"] in (loaded.states, CLAIMED.get(loaded.states))


def test_the_page_is_what_the_records_say():
    assert PAGE.read_text(encoding="utf-8") == page(read_records())


def test_refuted_ones_and_only_they_have_a_counterexample():
    fail = ("refuted", CLAIMED["refuted"])
    refuted = [row["hypothesis"] for row in read_records() if row["verdict"] in fail]
    assert sorted(refuted) == sorted(folder.name for folder in COUNTEREXAMPLES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("folder", sorted(f.name for f in COUNTEREXAMPLES.iterdir() if f.is_dir()))
def test_counterexamples_are_accepted_by_referee_and_checker(folder):
    place = COUNTEREXAMPLES / folder
    shown = json.loads((place / "counterexample.json").read_text(encoding="utf-8"))["shown_by"]
    assert shown
    for one in shown:
        instance = read_instance(place / one["instance"])
        trace = verify_schedule(instance, read_schedule(place / one["schedule"]))
        assert str(objective_value(trace, one["objective"])) == one["value"]
        if one["certificate"] is not None:
            certificate = read_certificate(place / one["certificate"])
            assert str(verify_certificate(instance, certificate)) == one["value"]


@pytest.mark.parametrize("name", QUICK)
def test_quick_ones_give_their_records_again(name):
    assert_as_recorded(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped() if name not in QUICK and not name.startswith("real-")])
def test_the_others_give_their_records_again(name):
    assert_as_recorded(name)


def assert_as_recorded(name):
    record = next(row for row in read_records() if row["hypothesis"] == name)
    assert kept(check(name, shipped()[name]).row()) == record


def first_of(family):
    """Return a family of the first case alone."""
    return replace(family, items=lambda: list(islice(family.items(), 1)))


def by_a_policy(instance, objective, time_limit):
    """Stand in for an exact search: what the best policy makes is claimed to be optimal."""
    held = Result(instance, objective, best_schedule(instance, objective)[1])
    return replace(held, bound=held.value, bound_kind="search", proved_by="a test", horizon=Horizon(0, True, "a test"))


@pytest.mark.parametrize("name", shipped())
def test_the_command_judges_the_first_case_of_each(name, monkeypatch):
    """The smallest may come late in a family of thousands. `mc-sf-average` asks for eight optima, and seconds."""
    monkeypatch.delenv("KVBOUND_DATA", raising=False)
    loaded = shipped()[name]
    few = {name: replace(loaded, family=first_of(loaded.family))}
    monkeypatch.setattr("hypotheses.hypothesis_files.shipped", lambda: few)
    if name.startswith("mc-sf-average"):
        monkeypatch.setattr("hypotheses.case.exact", by_a_policy)
        monkeypatch.setattr("hypotheses.case._FOUND", {})
    status, told = run_kvbound(["check", name, "--json", "-"])
    row = json.loads(told)["rows"][0]
    assert (status, row["stated"]) == (0 if row["as_stated"] else 1, loaded.states)
    if loaded.family.data:  # `test_slices` judges stand-ins of these
        assert row["verdict"] == "skipped"
        return
    assert (row["undecided"], row["held"] + (row["counterexample"] is not None)) == (0, 1)
    assert loaded.states not in ("proved", "no counterexample") or row["held"] == 1


def write(path, states, predicate):
    path.write_text(
        "from hypotheses import Fails, Hypothesis, listed\n"
        f"HYPOTHESIS = Hypothesis('a claim', 'a test', {states!r}, listed('mars-figure1'), lambda case: {predicate})\n"
    )
    return path


def test_the_command_says_whether_the_verdict_is_the_stated_one(tmp_path):
    held = write(tmp_path / "held.py", "proved", "None")
    assert "held" in kvbound("check", held).stdout
    wrong = write(tmp_path / "wrong.py", "refuted", "None")
    assert "refuted (differs)" in kvbound("check", wrong, code=1).stdout


def test_the_record_of_the_command(tmp_path):
    failing = write(tmp_path / "it_fails.py", "refuted", "Fails('no', [case.policy('fcfs'), case.optimum()])")
    rows = json.loads(kvbound("check", failing, "--out", tmp_path / "out", "--json", "-").stdout)["rows"]
    assert len(rows) == 1
    row = rows[0]
    assert (row["hypothesis"], row["verdict"], row["stated"], row["why"]) == ("it-fails", "refuted", "refuted", "no")
    assert "it-fails/optimum.certificate.json" in row["files"]
    assert all((tmp_path / "out" / file).is_file() for file in row["files"])
    assert row["versions"]["kvbound"]


@pytest.mark.parametrize(("text", "message"), [
    (None, "there is no hypothesis file"), ("1 / 0", "ZeroDivisionError: division by zero"), ("x = (", "SyntaxError"),
    ("HYPOTHESIS = 3", "it defines no HYPOTHESIS"), ("HYPOTHESES = {}", "it defines no HYPOTHESIS"),
    ("raise SystemExit(0)", "bad.py: SystemExit: 0"),
])  # fmt: skip
def test_a_bad_file_is_one_line(text, message, tmp_path):
    file = tmp_path / "bad.py"
    if text is not None:
        file.write_text(text)
    assert message in one_line("check", file)


def test_a_file_may_hold_several_claims(tmp_path):
    file = write(tmp_path / "both.py", "proved", "None")
    file.write_text(file.read_text() + "HYPOTHESES = {'one': HYPOTHESIS, 'two': HYPOTHESIS}\n")
    rows = json.loads(kvbound("check", file, "--json", "-").stdout)["rows"]
    assert [(row["hypothesis"], row["verdict"]) for row in rows] == [("one", "proved"), ("two", "proved")]
    with pytest.raises(BadInput, match=r"both\.py: it defines 2 hypotheses; load_all gives them by their names"):
        load(file)


def test_ctrl_c_writes_what_was_found(tmp_path):
    stopped = tmp_path / "stopped.py"
    write(stopped, "proved", "stop()")
    stopped.write_text("def stop():\n    raise KeyboardInterrupt\n" + stopped.read_text())
    row = json.loads(kvbound("check", stopped, "--json", "-", code=130).stdout)["rows"][0]
    assert (row["verdict"], row["interrupted"]) == ("undecided", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_search_runs_ends_the_check(tmp_path, monkeypatch, number):
    """It is not an answer to the hypothesis, nor a reason to go on."""
    monkeypatch.setattr("bounds.slot_solver.propose_slots", lambda *_: signal.raise_signal(number))
    monkeypatch.setattr("hypotheses.case._FOUND", {})
    asking = tmp_path / "asking.py"
    write(asking, "proved", "case.optimum() and None")
    row = json.loads(kvbound("check", asking, "--json", "-", code=130).stdout)["rows"][0]
    assert (row["undecided"], row["interrupted"]) == (0, True)


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "not a folder" in kvbound("check", "mars-rank", "--out", tmp_path / "file", code=2).stderr


# --- claims ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def uncertified(monkeypatch):
    """Let no certificate be found."""

    def word(instance, objective, time_limit):
        return replace(exact(instance, objective), certificate=None, bound_kind="search", proved_by="a search")

    monkeypatch.setattr("hypotheses.case._FOUND", {})
    monkeypatch.setattr("hypotheses.case.exact", word)


@pytest.mark.usefixtures("uncertified")
def test_what_rests_on_a_claim_is_not_proved():
    verdict = check("x", hypothesis(lambda case: case.optimum() and None))
    assert (verdict.verdict, verdict.claimed, verdict.as_stated) == ("claimed to hold", 3, True)
    assert "3 by an optimum that is claimed" in page([verdict.row()])
    assert check("x", hypothesis(lambda case: None)).verdict == "proved"


@pytest.mark.usefixtures("uncertified")
def test_what_fails_by_a_claim_is_not_refuted_unless_schedules_show_it():
    def fails(case):
        return Fails("no", [case.optimum()])

    verdict = check("x", hypothesis(fails, states="refuted"))
    assert (verdict.verdict, verdict.claimed, verdict.as_stated) == ("claimed to fail", 1, True)
    assert not check("x", hypothesis(fails)).as_stated
    mars = listed("mars-figure1")
    worse = compared(run("fcfs"), operator.le, optimal(), "{} and {}")  # a lower optimum would be as good a reason
    assert check("x", hypothesis(worse, mars, "refuted")).verdict == "refuted"
    better = compared(optimal(), operator.ge, run("fcfs"), "{} and {}")
    assert check("x", hypothesis(better, mars, "refuted")).verdict == "refuted"
    bound = compared(optimal("free", Instance.with_free_calls), operator.eq, optimal(), "{} and {}")
    assert check("x", hypothesis(bound, mars, "refuted")).verdict == "claimed to fail"


@pytest.mark.usefixtures("uncertified")
def test_a_failure_that_is_certain_is_shown_before_one_by_a_claim():
    def fails(case):
        if case.instance.requests[0].output == 1:
            return Fails("claimed", [case.optimum()])
        return Fails("certain")

    every = Hypothesis("a claim", "a test", "refuted", SMALL, fails, every=True)
    verdict = check("x", every)
    assert (verdict.verdict, verdict.fails.why, verdict.failed, verdict.claimed) == ("refuted", "certain", 3, 1)


def test_files_are_a_family(tmp_path):
    mine = builtin_instance("mars-figure1").replace(name="mine")
    (tmp_path / "a.json").write_text(mine.to_json())
    family = listed(str(tmp_path / "a.json"), "mars-figure1")
    assert [instance.name for instance in family.items()] == ["mine", "mars-figure1"]
    with pytest.raises(BadInput, match=r"no built-in instance is called 'b\.json'"):
        list(listed("b.json").items())
