"""The library: what its records claim is true, what is wrong is said, and only what is better gets in."""

import gzip
import json
import math
import multiprocessing
import re
import shutil
import subprocess
import sys
import time
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest

from benchmarks.library import CHOSEN, compared
from benchmarks.library import WAYS as MEASURED
from heuristics import get_policy, trace_policy
from kvbound.plots import plot_profile
from kvcore.certificates import Alone, certify
from kvcore.contradiction import Contradiction
from kvcore.errors import BadInput
from kvcore.files import read_schedule, write_text
from kvcore.result import Result
from library import Best, Library, Origin, check
from library.families import FAMILIES, make
from library.fill import fill
from library.library import RECORDS, TRIED
from library.policies import beside_the_best, known_rows, policy_rows, profile
from library.table import page
from solvers.source import code_version
from sweeps.store import Store
from tests.support.commands import kvbound, one_line
from workloads.builtin import builtin_instance, is_builtin

LIBRARY = Library()
CHECK = RECORDS.parent / "check.py"
QUICK = (
    "mars-figure1", "worst-augserve-makespan-n4-v3", "infercept-sample-k3-evict0", "infercept-sample-k4-evict1",
    "azure-conv-7b-0-100", "hindsight-n20-M30-seed0", "image-2",
)  # fmt: skip
"""Certificates of every kind that the library has."""
TODAY = Origin(by="a test", how="", seconds=1.0, date="2026-11-22")
FLOW = "total-flow-time"


@pytest.fixture
def small(tmp_path):
    """A library of one instance, of which a schedule of 29 ticks and a bound of 29 are known."""
    shutil.copytree(RECORDS / "mars", tmp_path / "mars", ignore=lambda _, names: [n for n in names if "like" in n])
    return Library(tmp_path)


def changed(library, **changes):
    """Change keys of the record of mars-figure1."""
    path = library.folder / "mars" / "mars-figure1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def entry(library, **changes):
    """Change keys of its only objective."""
    data = json.loads((library.folder / "mars" / "mars-figure1.json").read_text())["objectives"]
    changed(library, objectives=data | {FLOW: data[FLOW] | changes})


def without(library, kind):
    """Make the library forget the schedule or the certificate; return the path of a file that holds it."""
    path = library.path(library.record("mars-figure1"), kind, FLOW)
    kept = library.folder / f"{kind}.json"
    kept.write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    entry(library, **{kind: None, {"schedule": "value", "certificate": "bound"}[kind]: None}, status="open")
    return str(kept)


def wrong(library):
    return [one.wrong for one in library.check("mars-figure1") if one.wrong]


# --- what is there ---------------------------------------------------------------------------------------------------
def test_the_library_spans_the_field():
    records = LIBRARY.records()
    assert len(records) >= 200
    assert len({record.instance_sha256 for record in records}) == len(records)
    assert {record.family for record in records} >= set(FAMILIES)
    assert len(FAMILIES) >= 10


def test_every_case_of_a_family_has_its_record():
    cases = {
        case.name: (family, case.source, case.objectives) for family in FAMILIES for case in FAMILIES[family].cases
    }
    found = {r.name: (r.family, r.source, tuple(r.objectives)) for r in LIBRARY.records()}
    assert cases.items() <= found.items()


@pytest.mark.parametrize("name", QUICK)
def test_a_record_is_true(name):
    checked = LIBRARY.check(name)
    assert [one for one in checked if one.wrong] == []
    assert [one.what for one in checked][:3] == ["record", "schedule", "certificate"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LIBRARY.names if name not in QUICK])
def test_every_other_record_is_true(name):
    assert [one for one in LIBRARY.check(name) if one.wrong] == []


def searched(record):
    """Return the labels or states that the proofs of a record look at, and the options that they try."""
    proofs = [json.loads(gzip.decompress(path.read_bytes()))["proof"] for path in certificates(record)]
    looked = max((proof.get("labels", proof.get("states", 0)) for proof in proofs), default=0)
    return looked, max((proof.get("tries", 0) for proof in proofs), default=0)


def certificates(record):
    return [LIBRARY.path(record, "certificate", of) for of, best in record.objectives.items() if best.certificate]


LONG = {record.name: searched(record) for record in LIBRARY.records()}
SWAPS = "infercept-ve-k4-chunked0"
"""Of half a million labels, each with four requests that may be on the host."""
BEYOND = [name for name, (looked, tries) in LONG.items() if looked > 10**6 or tries > 10**7 or name == SWAPS]
"""What `library/check.py` gives up, after minutes."""


def test_what_is_too_long_for_the_second_checker_is_named():
    said = (RECORDS.parents[1] / "docs" / "trust.md").read_text(encoding="utf-8")
    assert len(BEYOND) <= 7
    assert [name for name in BEYOND if f"`{name}`" not in said] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LONG if name not in BEYOND])
def test_a_record_is_true_without_kvbound(name):
    """What `library/check.py --all` does, a record at a time: it raises where one is wrong or not checked."""
    record = LIBRARY.record(name)
    assert check.check_record(RECORDS / record.family / f"{name}.json").count(">=") == len(record.objectives)


@pytest.mark.slow
def test_a_built_in_name_makes_the_instance_of_the_record():
    sources = {r.source: r.instance_sha256 for r in LIBRARY.records() if is_builtin(r.source)}
    given = {source: sha256 for source, sha256 in sources.items() if "slice" not in source}
    assert {source: builtin_instance(source).sha256 for source in given} == given


def test_a_command_makes_the_instance_of_the_record():
    record = LIBRARY.record("slo-toolbench-r2")
    assert make(record.source).sha256 == record.instance_sha256
    with pytest.raises(BadInput, match="kvbound generate magic: kvbound: no kind of requests is called 'magic'"):
        make("generate magic")


def test_the_table_is_current():
    assert (RECORDS / "README.md").read_text(encoding="utf-8") == page(LIBRARY), "run: python -m library.table"


# --- what is wrong is said -------------------------------------------------------------------------------------------
def test_a_value_that_the_schedule_does_not_have(small):
    entry(small, value=28, bound=28)
    assert wrong(small) == ["it proves 29, not 28", "it proves 29, not 28"]


@pytest.mark.parametrize(("key", "value", "said"), [
    ("instance_sha256", "0" * 64, "^mars-figure1: its instance has the hash "),
    ("calls", 7, "^the instance has 3 requests with 3 calls$"),
    ("family", "others", "it says that it is others/mars-figure1$"),
])  # fmt: skip
def test_a_record_that_was_changed(small, key, value, said):
    changed(small, **{key: value})
    [told] = wrong(small)
    assert re.search(said, told)


@pytest.mark.parametrize("data", [
    b"\x1f\x8b\x08" + b"\0" * 7 + b"\xff" * 50, gzip.compress(b"\xff" * 9000, mtime=0), b"{}",
])  # fmt: skip
def test_an_instance_that_cannot_be_read(small, data):
    record = small.record("mars-figure1")
    small.path(record, "instance").write_bytes(data)
    with pytest.raises(BadInput, match=r"instance\.json\.gz: (cannot be read|not UTF-8)"):
        small.tick_seconds(record)


@pytest.mark.parametrize("text", ['name,"run', "name,objective,run,version,proved,bound,seconds\n,,,,,,1e999999"])
def test_a_table_that_is_none(small, text):
    (small.folder / TRIED).write_text(text)
    with pytest.raises(BadInput, match=r"tried\.csv: not a table of the library"):
        small.tried("seconds")


def test_a_file_that_nobody_claims_and_one_that_is_not_there(small):
    path = small.path(small.record("mars-figure1"), "schedule", FLOW)
    path.rename(path.with_name(path.name.replace(FLOW, "makespan")))
    assert [text.partition(": ")[2] or text for text in wrong(small)] == [
        "cannot be read: No such file or directory", "no objective of the record has this file",
    ]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), [
    ({"value": 3}, "a value has a schedule, and a bound a certificate, or neither is there"),
    ({"value": 3, "schedule": TODAY, "status": "solved"}, "solved is what has a value that is its bound"),
    ({"value": "a/b", "schedule": TODAY}, "should match pattern"),
])  # fmt: skip
def test_a_record_is_consistent(given, message):
    with pytest.raises(ValueError, match=message):
        Best.model_validate(given)


def test_better_is_smaller_for_values_and_larger_for_bounds():
    best = Best().better("schedule", 30, TODAY)
    assert best is not None
    assert (best.value, best.gap, best.better("schedule", 30, TODAY)) == (30, None, None)
    best = best.better("certificate", 20, TODAY)
    assert best is not None
    assert (best.gap, best.status, best.better("certificate", 19, TODAY)) == (0.5, "open", None)
    solved = best.better("schedule", 20, TODAY)
    assert solved is not None
    assert (solved.status, solved.gap) == ("solved", 0.0)


# --- the commands ----------------------------------------------------------------------------------------------------
def test_list_and_show():
    rows = json.loads(kvbound("library", "list", "--family", "mars", "--json", "-").stdout)["rows"]
    assert rows[0] == {
        "name": "mars-figure1", "family": "mars", "requests": 3, "calls": 3, "objective": FLOW,
        "value": 29, "bound": 29, "gap": 0.0, "status": "solved", "tick_seconds": "1",
    }  # fmt: skip
    assert "mars-figure1" in kvbound("library", "list", "--family", "mars", "--status", "solved").stdout
    assert "bound: events" in kvbound("library", "show", "mars-figure1").stdout
    assert "there are family: agents, azure" in kvbound("library", "list", "--family", "none", code=2).stderr
    assert "the library has no instance 'none'" in kvbound("library", "show", "none", code=2).stderr
    assert "there is no folder of records" in kvbound("library", "list", "--library", "none", code=2).stderr


def test_get(tmp_path):
    targets = {what: str(tmp_path / f"{what}.json") for what in ("out", "schedule", "certificate")}
    kvbound("library", "get", "mars-figure1", *(word for key, path in targets.items() for word in (f"--{key}", path)))
    kvbound("verify", targets["out"], "--schedule", targets["schedule"])
    kvbound("verify", targets["out"], "--certificate", targets["certificate"])
    printed = kvbound("library", "get", "mars-figure1").stdout
    assert json.loads(printed) == json.loads(Path(targets["out"]).read_text())
    said = kvbound("library", "get", "mars-figure1", "--objective", "makespan", code=2).stderr
    assert "mars-figure1 is for total-flow-time, not for makespan" in said


def test_get_of_what_is_not_known(small, tmp_path):
    without(small, "schedule")
    arguments = ("--schedule", tmp_path / "s.json", "--library", small.folder)
    said = kvbound("library", "get", "mars-figure1", *arguments, code=2).stderr
    assert "mars-figure1: no schedule for total-flow-time is known" in said


def test_verify(small):
    said = kvbound("library", "verify", "--all", "--library", small.folder, "--jobs", 1).stdout
    assert said == "1 records, 1 schedules, 1 certificates checked, 0 of them wrong\n"
    assert kvbound("library", "verify", *QUICK[:2], "--jobs", 1).stderr == "instances: 2 of 2 to do ..\n"
    changed(small, calls=7)
    said = kvbound("library", "verify", "mars-figure1", "--library", small.folder, code=1).stdout
    assert said.startswith("mars-figure1  record: the instance has 3 requests")
    assert "the library has no instance 'none'" in kvbound("library", "verify", "mars-figure1", "none", code=2).stderr
    assert "verify takes names, or --all" in kvbound("library", "verify", code=2).stderr


@pytest.mark.parametrize("kind", ["schedule", "certificate"])
def test_what_is_better_gets_in(small, kind):
    file = without(small, kind)
    arguments = ("library", "submit", file, "--by", "a test", "--how", "by hand", "--library", small.folder)
    rows = json.loads(kvbound(*arguments, "--json", "-").stdout)["improved"]
    assert rows == [{"name": "mars-figure1", "objective": FLOW, "what": kind, "before": None, "now": 29}]
    assert wrong(Library(small.folder)) == []
    made = getattr(Library(small.folder).record("mars-figure1").objectives[FLOW], kind)
    assert (made.by, made.how) == ("a test", "by hand")
    page = (small.folder / "README.md").read_text()
    assert "`mars-figure1` | 3 | 3 | total-flow-time | 29 ticks | 29 ticks | solved |" in page
    assert "valid, but no better" in kvbound(*arguments, code=1).stdout


@pytest.mark.parametrize(("option", "message"), [
    (("--by", "me\x1b[31m"), "who, how and in how many seconds: by: "),
    (("--by", "m" * 201), "who, how and in how many seconds: by: "),
    (("--by", "me", "--how", "\x00"), "who, how and in how many seconds: how: "),
    (("--by", "me", "--seconds", "1e400"), "seconds: must be a finite number"),
])  # fmt: skip
def test_an_origin_that_no_record_can_hold_is_refused(small, option, message):
    file = without(small, "schedule")
    assert message in one_line("library", "submit", file, *option, "--library", small.folder)
    assert Library(small.folder).record("mars-figure1").objectives[FLOW].schedule is None


def offers(library):
    """Return schedules of mars-figure1 of 35, 33 and 29 ticks, the worst first."""
    instance = library.instance(library.record("mars-figure1"))
    late = read_schedule(file := without(library, "schedule"))
    Path(file).unlink()
    later = late.replace(batches=(*late.batches[:-1], late.batches[-1].replace(start=late.batches[-1].start + 4)))
    return [trace_policy(instance, get_policy("fcfs")).schedule, later, late]


def test_of_three_that_submit_at_once_none_is_lost(small):
    """The worse an offer is, the slower is its writer: without a lock, the worst is written last."""
    barrier = (made := multiprocessing.get_context("fork")).Barrier(3)

    def submit(offer, pause):
        class SlowLibrary(Library):
            def _write(self, path, text):
                time.sleep(pause)
                super()._write(path, text)

        library = SlowLibrary(small.folder)
        barrier.wait()
        library.submit(offer, "a test", "")

    processes = [made.Process(target=submit, args=one) for one in zip(offers(small), (0.6, 0.3, 0.0), strict=True)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert Library(small.folder).record("mars-figure1").objectives[FLOW].value == 29
    assert wrong(Library(small.folder)) == []


@pytest.mark.parametrize("step", ["_write", "_keep", "_settle"])
@pytest.mark.parametrize("after", [False, True])
def test_a_writer_may_be_ended_at_any_moment(small, monkeypatch, step, after):
    worst, middle, best = offers(small)
    small.submit(worst, "a test", "")
    whole, calls = getattr(Library, step), list[None]()

    def ended(self, *what):
        calls.append(None)
        last = step != "_settle" or len(calls) == 2  # the first settles what an earlier writer left
        if after or not last:
            whole(self, *what)
        if last:
            raise KeyboardInterrupt

    monkeypatch.setattr(Library, step, ended)
    with pytest.raises(KeyboardInterrupt):
        small.submit(best, "a test", "")
    monkeypatch.undo()
    kept = 29 if step == "_settle" or (step == "_keep" and after) else 35
    record = Library(small.folder).record("mars-figure1")
    assert record.objectives[FLOW].value == kept
    assert wrong(Library(small.folder)) == []
    again = subprocess.run([sys.executable, CHECK, "--all", small.folder], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout
    assert bool(small.submit(middle, "a test", "")) is (kept == 35)
    assert small.record("mars-figure1").objectives[FLOW].value == min(kept, 33)
    assert wrong(small) == []
    assert not list(small.folder.glob("mars/.*"))


def test_an_instance_is_added(small, tmp_path):
    about = ("--source", "worst-mars-makespan:n=4", "--origin", "a test", "--licence", "MIT", "--family", "new")
    arguments = ("library", "add", "worst-mars-makespan:n=4", *about, "--library", small.folder)
    said = kvbound(*arguments, "--name", "mine", "--objectives", "makespan,busy-time").stdout
    assert said.startswith("new/mine is there; `kvbound library fill --names mine` looks for first values\nwritten: ")
    record = Library(small.folder).record("mine")
    assert (record.requests, record.calls, record.origin, list(record.objectives)) == (
        4, 4, "a test", ["makespan", "busy-time"],
    )  # fmt: skip
    assert "`mine` | 4 | 4 | busy-time | - | - | - |" in (small.folder / "README.md").read_text()
    assert "already, as 'mine'" in kvbound(*arguments, "--name", "other", code=2).stderr
    assert "the library has an instance 'mine' already" in kvbound(*arguments, "--name", "mine", code=2).stderr
    assert "the record: name: " in kvbound(*arguments, "--name", "a.b", code=2).stderr
    kvbound(*arguments[:-1], folder := tmp_path / "new", "--name", "mine")
    assert Library(folder).names == ["mine"]


def test_a_certificate_is_known_by_its_proof(small):
    data = json.loads(Path(file := without(small, "certificate")).read_text())
    kept = {key: data[key] for key in sorted(data, reverse=True) if key != "format"}
    Path(file).write_text(json.dumps({"why": "x" * 200} | kept | {"made_by": "y" * 200}))
    kvbound("library", "submit", file, "--by", "a test", "--library", small.folder)
    assert wrong(Library(small.folder)) == []


def test_what_breaks_a_rule_does_not_get_in(small, tmp_path):
    schedule = read_schedule(without(small, "schedule"))
    write_text(broken := tmp_path / "s.json", schedule.replace(batches=schedule.batches[:-1]).to_json())
    arguments = ("--by", "a test", "--library", small.folder)
    assert kvbound("library", "submit", broken, *arguments, code=1).stdout.startswith("invalid: ")
    write_text(broken, schedule.replace(instance_sha256="0" * 64).to_json())
    said = kvbound("library", "submit", broken, *arguments, code=2).stderr
    assert "it is for an instance 000000000000.., which the library does not have" in said
    other = certify(small.instance(small.record("mars-figure1")), "makespan", Alone())
    write_text(broken, other.to_json())
    said = kvbound("library", "submit", broken, *arguments, code=2).stderr
    assert "mars-figure1 is for total-flow-time, not for makespan" in said


def test_run(small, tmp_path):
    schedule = small.folder / "s.json"
    kvbound("library", "get", "mars-figure1", "--schedule", schedule, "--library", small.folder)
    csv, plot = tmp_path / "r.csv", tmp_path / "r.svg"
    arguments = ("--policies", "fcfs,vllm", "--schedule", schedule, "--out", csv, "--plot", plot, "--jobs", 1)
    said = kvbound("library", "run", *arguments, "--library", small.folder).stdout
    *told, last, written = said.splitlines()[1:]
    assert written == f"written: {csv}, {plot}"
    assert [line.split()[:3] for line in told] == [["s.json", "1", "1.000"], ["fcfs", "1", "1.207"]]
    assert last.startswith("vllm has no ratio on any instance: policy vllm cannot run on mars-figure1: it needs")
    lines = csv.read_text().splitlines()
    assert lines[1].startswith("mars-figure1,mars,3,3,total-flow-time,s.json,29,29,29,1,1,")
    assert lines[2].startswith("mars-figure1,mars,3,3,total-flow-time,fcfs,35,29,29,35/29,35/29,")
    assert ",vllm,,29,29,,," in lines[3]
    assert "times the best known" in plot.read_text()
    said = kvbound("library", "run", "--library", small.folder, code=2).stderr
    assert "give --policies, --schedule, or both" in said


def test_run_says_what_would_be_better(small):
    file = without(small, "schedule")
    fcfs = small.folder / "fcfs.json"
    kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", fcfs)
    kvbound("library", "submit", fcfs, "--by", "a test", "--library", small.folder)
    said = kvbound("library", "run", "--schedule", file, "--library", small.folder).stdout
    assert said.endswith("1 values are better than the best known: submit their schedules\n")


def test_a_policy_that_is_too_slow_has_no_value(small):
    (row,) = beside_the_best(small, policy_rows(small, "mars-figure1", ["fcfs"], seconds=-1.0))
    assert (row["value"], row["over_best"], row["error"]) == (None, None, "not done after -1 s")
    assert profile([row]) == []


def test_a_profile_says_how_many_are_within_so_many_times_the_best():
    ratios = {"a": ["1", "21/20", "", "2"], "b": ["1"], "c": [None]}
    lines = profile({"policy": policy, "over_best": each} for policy, found in ratios.items() for each in found)
    assert [(line["policy"], line["values"], line["median"], line["worst"]) for line in lines] == [
        ("b", 1, 1.0, 1.0), ("a", 3, 1.05, 2.0),
    ]  # fmt: skip
    assert lines[1]["within"] == {"1.01": 1 / 3, "1.1": 2 / 3, "1.5": 2 / 3}
    with pytest.raises(BadInput, match="there is nothing to draw: no value has a best known one"):
        plot_profile([])


def test_rows_beside_the_records_are_over_what_is_best_now(small):
    path = small.folder / "policies.csv"
    kvbound("library", "run", "--policies", "fcfs,vllm", "--out", path, "--library", small.folder)
    assert path.read_text().startswith(
        "name,objective,policy,value,seconds,error\nmars-figure1,total-flow-time,fcfs,35,"
    )
    assert [(row["best"], row["over_bound"]) for row in known_rows(small)] == [(29, "35/29"), (29, None)]
    without(small, "schedule")
    assert [(row["best"], row["over_best"]) for row in known_rows(small)] == [(None, None), (None, None)]


def test_two_runs_of_the_benchmark_are_compared():
    row = {"case": "a", "objective": FLOW, "way": "auto", "value": 10, "bound": 8, "seconds": 2.0}
    found = compared([row], [row | {"value": 12, "bound": 4, "seconds": 1.0}])
    case = "a total-flow-time auto"
    assert found == {"value": [(case, 1, Fraction(6, 5))], "bound": [(case, 1, 2)], "seconds": [(case, 2, 1)]}
    assert compared([row], [row | {"value": None, "bound": 0}])["value"] == []
    assert set(CHOSEN) <= set(LIBRARY.names)
    baseline = (Path(__file__).parents[2] / "benchmarks" / "records" / "library.jsonl").read_text().splitlines()
    assert {(row["case"], row["way"]) for row in map(json.loads, baseline)} == set(product(CHOSEN, MEASURED))


def test_fill_keeps_what_is_better_and_tries_nothing_twice(small, tmp_path):
    without(small, "schedule")
    without(small, "certificate")
    database = tmp_path / "tried.sqlite"
    tried = fill(small, database, ways=["configurations", "slots"], seconds=500)
    assert (tried.run, [(one.what, one.now) for one in tried.improved]) == (2, [("schedule", 29), ("certificate", 29)])
    best = small.record("mars-figure1").objectives[FLOW]
    assert best.schedule.how in ("slots: random", "slots")
    assert best.certificate.how == "slots"
    without(small, "certificate")
    (proved,) = fill(small, database, ways=["events"], seconds=500).improved
    assert (proved.what, proved.before, proved.now) == ("certificate", None, 29)
    assert wrong(small) == []
    lines = (small.folder / TRIED).read_text().splitlines()
    assert [line.split(",")[:6] for line in lines[1:]] == [
        ["mars-figure1", FLOW, "configurations", "0", "", ""],
        ["mars-figure1", FLOW, "events", "0", "29", "29"],
        ["mars-figure1", FLOW, "slots", "0", "29", "29"],
    ]
    without(small, "certificate")
    assert fill(small, database, ways=["events"], seconds=500).run == 0
    assert (small.folder / TRIED).read_text().splitlines() == lines
    with pytest.raises(BadInput, match="no way is called 'magic'; there are improve, auto, bound, alone"):
        fill(small, database, ways=["magic"])


def test_fill_tries_what_is_spent_again_only_if_it_gained(small, tmp_path, monkeypatch):
    without(small, "certificate")
    monkeypatch.setattr("library.fill._result", lambda _, cell: Result(cell.instance, cell.objective))
    tries = (("improve", 0.95, code_version()), ("auto", 0.8, code_version()), ("alone", 9, "0.0.9"))
    rows = "".join(f"mars-figure1,{FLOW},{way},{seconds},{version}\n" for way, seconds, version in tries)
    (small.folder / TRIED).write_text(f"name,objective,run,seconds,version\n{rows}")
    data = json.loads((small.folder / "mars" / "mars-figure1.json").read_text())["objectives"]
    for how, again in (("another way", 2), ("improve: sjf", 3)):
        data[FLOW]["schedule"] |= {"how": how, "seconds": 1.0}
        changed(small, objectives=data)
        assert fill(small, tmp_path / f"{again}.sqlite", ways=["improve", "auto", "alone"], seconds=1.0).run == again


def test_the_table_says_what_is_optimal_by_the_word_of_a_solver(small):
    without(small, "certificate")
    (small.folder / TRIED).write_text(
        f"name,objective,run,bound,proved\nmars-figure1,{FLOW},auto,29,1\nmars-figure1,{FLOW},improve,,0\n"
    )
    assert "| 29 ticks | - | -, claimed by `auto` |" in page(small)
    assert "| 1 | 1 | 0 | 1 | - | - |" in page(small)


def test_fill_begins_with_the_largest_gap_if_told_so(tmp_path, monkeypatch):
    some = {"slo": "slo-toolbench-r2", "slots": "infercept-ve-k4-chunked1", "agents": "agents-2-m150k-s0"}
    for family, name in some.items():
        (tmp_path / family).mkdir(exist_ok=True)
        for path in (RECORDS / family).glob(f"{name}.*"):
            shutil.copy(path, tmp_path / family)
    tried = []

    def nothing(library, cell):
        tried.append((cell.name, cell.objective))
        return Result(cell.instance, cell.objective)

    monkeypatch.setattr("library.fill._result", nothing)
    library = Library(tmp_path)
    fill(library, tmp_path / "a.sqlite", ways=["alone"], largest_gap=True)
    known = [library.record(name).objectives[of].gap for name, of in tried]
    gaps = [math.inf if gap is None else gap for gap in known]
    assert len(gaps) > 2
    assert gaps == sorted(gaps, reverse=True)
    tried.clear()
    fill(library, tmp_path / "b.sqlite", ways=["alone"], family="slo", objective=FLOW)
    assert tried == [("slo-toolbench-r2", FLOW)]


def test_fill_keeps_what_it_had_when_it_is_interrupted(small, tmp_path, monkeypatch):
    schedule = read_schedule(without(small, "schedule"))

    def interrupted(library, cell):
        return Result(cell.instance, cell.objective, schedule=schedule, stopped="interrupted")

    monkeypatch.setattr("library.fill._result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill(small, tmp_path / "tried.sqlite", ways=["auto"])
    assert small.record("mars-figure1").objectives[FLOW].value == 29
    with Store(tmp_path / "tried.sqlite", resume=True) as store:
        assert store.finished() == set()


def test_a_certificate_above_a_schedule_is_no_better_bound(small, tmp_path, monkeypatch):
    monkeypatch.setattr(Alone, "prove", lambda *_: 30)
    monkeypatch.chdir(tmp_path)
    false = certify(builtin_instance("mars-figure1"), FLOW, Alone())
    with pytest.raises(Contradiction, match="a schedule has 29, and a certificate 30; one of the two is wrong"):
        small.submit(false, "me", "it is planted")
    (folder,) = tmp_path.glob("kvbound-contradiction-*")
    assert {file.name for file in folder.iterdir()} == {"instance.json", "offer.json", "held.json"}
    assert small.record("mars-figure1").objectives[FLOW].bound == 29
