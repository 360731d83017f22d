"""Sweeps: what a study says, what its cells give, and that nothing that is finished is lost or done again."""

import csv
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import psutil
import pytest

import sweeps.cluster
from kvcore.contradiction import Contradiction
from kvcore.errors import BadInput, MissingTool
from solvers.source import code_version
from sweeps import Cell, Store, cells_of, read_study, run_cell
from sweeps.cluster import run_on_cluster
from sweeps.export import as_csv, export
from sweeps.run import run_locally
from sweeps.study import points, values
from sweeps.summary import summarise
from tests.support.commands import kvbound
from tests.support.sweep_policies import allow, held, runs, write_policies, write_study
from workloads.builtin import builtin_instance

MARS = '[[instances]]\nbuiltin = "mars-figure1"\n'
FCFS = '[[policies]]\nnames = ["fcfs"]\n'


def study_cells(text, folder):
    (folder / "s.toml").write_text(text, encoding="utf-8")
    return cells_of(read_study(folder / "s.toml"), folder)


def mars_cell(run="fcfs", **given):
    instance = builtin_instance("mars-figure1")
    options = {"predictions": "exact", "seed": 0}
    return Cell("m", instance.name, instance, "total-flow-time", "as-given", "policy", run, options, **given)


# --- what a study says
@pytest.mark.parametrize(("text", "message"), [
    ("name = ", "s.toml: not TOML: Invalid value"),
    (FCFS, "s.toml: instances: this key is missing"),
    (MARS, "give [[policies]], [[solvers]] or [[bounds]]: there is nothing to run"),
    (MARS + "size = 3\n" + FCFS, "s.toml: instances[0].size: unknown key (it is 3)"),
    ("[[instances]]\n" + FCFS, "give one of builtin, generate and files"),
    (MARS + 'generate = "fixed"\n' + FCFS, "give one of builtin, generate and files"),
    (MARS + 'cost = "unit"\n' + FCFS, "cost is of drawn instances (generate)"),
    ('[[instances]]\nfiles = ["a.json"]\nparameters = { n = 1 }\n' + FCFS, "parameters are of builtin or generate"),
    ('[[instances]]\nfiles = ["a.json"]\n' + FCFS, "a.json: cannot be read"),
    ('[[instances]]\nbuiltin = "mars"\n' + FCFS, "builtin = 'mars': there are mars-figure1"),
    (MARS.replace("1", "1:n=2") + FCFS, "builtin = 'mars-figure1:n=2'; what follows a colon stands under `parameters`"),
    ('[[instances]]\ngenerate = "x"\n' + FCFS, "generate = 'x': there are infercept"),
    ('[[instances]]\ngenerate = "fixed"\nparameters = { m = 1 }\n' + FCFS, "'m' is no parameter of drawn instances"),
    ('[[instances]]\ngenerate = "fixed"\nparameters = { n = 1.5 }\n' + FCFS, "n = 1.5: give whole numbers"),
    (MARS + "parameters = { n = 1 }\n" + FCFS, "'n=1' is no parameter with a whole number"),
    (MARS + "parameters = { n = [] }\n" + FCFS, "n: the list is empty"),
    (MARS + 'parameters = { n = "5..4" }\n' + FCFS, "n = '5..4': a range goes up"),
    (MARS + 'parameters = { n = "0..999", m = "0..999" }\n' + FCFS, "1000000 combinations, which is more than"),
    (MARS + "machine = { memory = 0 }\n" + FCFS, "mars-figure1 with another machine: memory"),
    (MARS + "machine = { memory = 2 }\n" + FCFS, "request R1 can never fit"),
    (MARS + "load = 0\n" + FCFS, "load 0: write a number above 0"),
    (MARS + 'label = "{x}"\n' + FCFS, "label = '{x}': in braces may stand load"),
    (MARS + '[[policies]]\nnames = ["nobody"]\n', "no policy is called 'nobody'"),
    (MARS + '[[policies]]\nnames = ["fcfs"]\nseed = -1\n', "seed = -1: give whole numbers of at least 0"),
    (MARS + FCFS + f"seed = {2**63}\n", f"seed = {2**63}: give whole numbers of at least 0, and below 2^63"),
    (MARS + 'label = "{load:999999999999}"\n' + FCFS, "label = '{load:999999999999}': in braces may stand load"),
    (MARS + 'label = "{load!r}"\n' + FCFS, "label = '{load!r}': in braces may stand load"),
    (MARS + 'label = "\\u001b[31m"\n' + FCFS, "instances[0].label: only printable characters"),
    ('name = "\\u001b[31m"\n' + MARS + FCFS, "name: only printable characters"),
    (f"limit = {'1' * 5000}\n" + MARS + FCFS, "s.toml: not TOML: Exceeds the limit (4300 digits)"),
    ("a = " + "[" * 100_000, "s.toml: nested too deeply"),
    (".".join("a" * 100_000) + " = 1", "s.toml: nested too deeply"),
    ("[" * 100_000, "s.toml: not TOML"),
    ("#" * 2**22 + "\n" + MARS + FCFS, "s.toml: larger than 4 MiB"),
    ('objectives = ["joy"]\n' + MARS + FCFS, "joy"),
    ('handlings = ["maybe"]\n' + MARS + FCFS, "handlings[0]: must be 'as-given' or 'free'"),
    (MARS + '[[bounds]]\nmethod = "joy"\n', "no bound is called 'joy'; there are auto, alone"),
    (MARS + "[[solvers]]\ntime_limit = 0\n", "solvers[0].time_limit"),
])  # fmt: skip
def test_a_wrong_study_is_one_clear_line(text, message, tmp_path):
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        study_cells(text, tmp_path)
    assert str(caught.value).isprintable()


def test_axes_multiply():
    assert values("n", "3..5") == [3, 4, 5]
    assert values("n", "siso+lilo") == ["siso+lilo"]
    assert points({"a": [1, 2], "b": "0..1", "c": 7}) == [
        {"a": a, "b": b, "c": 7} for a, b in ((1, 0), (1, 1), (2, 0), (2, 1))
    ]


GRID = """
objectives = ["total-flow-time", "makespan"]
[[instances]]
builtin = "hindsight"
parameters = { n = [2, 3], M = 12, seed = "0..4" }
load = ["1/2", 2]
machine = { memory = [12, 14] }
label = "n={n} memory={memory} load={load}"
[[instances]]
generate = "fixed"
parameters = { n = 2, rate = ["0.5", 1], prompt = 8, output = 2, seed = 1 }
[[policies]]
names = ["fcfs", "sjf"]
predictions = ["exact", "noise:0.5"]
seed = [0, 1]
[[solvers]]
time_limit = 5
[[solvers]]
time_limit = 9
label = "long"
"""


def test_the_grid_has_every_combination_once(tmp_path):
    cells = study_cells(GRID, tmp_path)
    assert len(cells) == 2 * (2 * 5 * 2 * 2 + 2) * (2 * 2 * 2 + 2)
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.label for cell in cells} == {
        "fixed", *(f"n={n} memory={m} load={load}" for n in (2, 3) for m in (12, 14) for load in ("1/2", 2))
    }  # fmt: skip
    assert {cell.limit for cell in cells} == {600, 620, 636}
    again = study_cells(GRID + MARS.replace("mars-figure1", "hindsight") + "parameters = { n = 2, M = 12, seed = 0 }",
                        tmp_path)  # fmt: skip
    assert [cell.key for cell in again[: len(cells)]] == [cell.key for cell in cells]


def test_the_key_is_of_all_that_the_result_depends_on(tmp_path):
    cell, mine = mars_cell(), write_policies(tmp_path)
    others = [mars_cell("sjf"), replace(cell, options={"seed": 1}), replace(cell, objective="makespan"),
              replace(cell, handling="free"), replace(cell, instance=builtin_instance("mars-like")),
              replace(cell, kind="solver")]  # fmt: skip
    keys = [cell.key, mars_cell(str(mine)).key, *(other.key for other in others)]
    mine.write_text(mine.read_text() + "# changed\n")
    keys.append(mars_cell(str(mine)).key)
    assert len(set(keys)) == len(keys) == 9
    assert replace(cell, limit=1.0, memory_limit=100, label="other").key == cell.key


# --- what a cell gives
def test_a_cell_gives_the_row_of_the_interface():
    cell = mars_cell()
    policy = run_cell(cell)
    solved = run_cell(replace(cell, kind="solver", run="s", options={"time_limit": 1e6}))
    assert (policy["status"], policy["verified"], policy["label"], policy["run"]) == ("feasible", True, "m", "fcfs")
    assert (solved["status"], solved["verified"], solved["horizon"]["sufficient"]) == ("optimal", True, True)
    assert solved["value"] == solved["bound"] <= policy["value"]
    assert policy["instance_sha256"] == solved["instance_sha256"] == builtin_instance("mars-figure1").sha256


def test_a_drawn_instance_that_does_not_fit_is_a_failed_cell(tmp_path):
    cells = study_cells(MARS + "machine = { memory = [2, 6] }\n" + FCFS, tmp_path)
    rows = [run_cell(cell) for cell in cells]
    assert [row["stopped"] for row in rows] == ["declined", "ended"]
    assert "request R1 can never fit" in rows[0]["error"]
    assert rows[0]["instance_sha256"] is None


def fake_row(value, bound=None, **more):
    horizon = {"sufficient": more.pop("sufficient", True)}
    return {"label": "a", "run": "p", "objective": "o", "handling_mode": "as-given", "options": {}, "value": value,
            "instance_sha256": "x", "bound": bound, "certified_bound": None, "horizon": horizon,
            "status": "feasible", **more}  # fmt: skip


def test_ratios_are_to_the_best_proved_bound_of_the_same_instance():
    rows = [
        fake_row(12), fake_row(9), fake_row(12, instance_sha256="y"), fake_row(None, error="why"),
        fake_row(9, 8, run="s"), fake_row(10, 9, run="s"), fake_row(90, 80, run="s", sufficient=False),
    ]  # fmt: skip
    policy, solver = summarise(rows)
    assert (policy.cells, policy.failed, policy.optimal, policy.claimed) == (4, 1, 0, 1)
    policy, solver = summarise([*rows, fake_row(10, 9, run="s", certified_bound=9)])
    assert (policy.optimal, policy.claimed, solver.optimal, solver.claimed) == (1, 0, 1, 0)
    solver = summarise(rows)[1]
    assert policy.ratios == [Fraction(4, 3), 1]
    assert (policy.mean, policy.worst) == (Fraction(7, 6), Fraction(4, 3))
    assert solver.ratios == [1, Fraction(10, 9), 10]


def test_bounds_alone_give_ratios(tmp_path):
    text = (
        MARS + FCFS + '[[bounds]]\nmethod = "alone"\n[[bounds]]\nmethod = "pairs"\nlabel = "by two"\nwork = 9000000\n'
    )
    rows = [run_cell(cell) for cell in study_cells(text, tmp_path)]
    policy, alone, pairs = summarise(rows)
    assert rows[1]["status"] == "bound-only"
    assert rows[1]["bound"] < rows[2]["bound"]
    assert policy.ratios == [Fraction(rows[0]["value"], rows[2]["bound"])]
    assert (rows[1]["options"]["work"], rows[2]["options"]["work"]) == (None, 9_000_000)
    assert (alone.run, pairs.run, pairs.failed) == ("bound by alone", "by two", 0)


def test_a_value_below_a_bound_stops_the_sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Contradiction, match="p has 8, and s proves 9; one of the two is wrong"):
        summarise([fake_row(8), fake_row(9, 9, run="s")])
    (folder,) = tmp_path.iterdir()
    assert {file.name for file in folder.iterdir()} == {"value.json", "bound.json"}


def test_a_contradiction_in_a_cell_stops_the_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "sweeps.run.run_locally", lambda cells, _: ((c, c.failure("a < b", "contradiction")) for c in cells)
    )
    (tmp_path / "s.toml").write_text(MARS + FCFS)
    assert kvbound("sweep", tmp_path / "s.toml", code=1).stderr == "kvbound: a < b\n"
    with Store(tmp_path / "s.sqlite", resume=True) as store:
        assert store.finished() == set()
    monkeypatch.setattr("kvcore.certificates.Alone.prove", lambda *_: 10**6)
    monkeypatch.chdir(tmp_path)
    assert run_cell(replace(mars_cell("auto"), kind="solver", options={"time_limit": 3}))["stopped"] == "contradiction"


def test_other_code_is_another_cell(monkeypatch):
    before = mars_cell().key
    monkeypatch.setattr("sweeps.cell.code_version", lambda: "mended")
    assert mars_cell().key != before


# --- the database
def test_a_row_is_there_once_it_is_added(tmp_path):
    cell, path = mars_cell(), tmp_path / "r.sqlite"
    row = run_cell(cell) | {"bound": 2**70}
    with Store(path, resume=False) as store:
        store.add(cell, row)
        with sqlite3.connect(path) as reader:  # others can read it meanwhile
            assert reader.execute("SELECT run, value, bound FROM cells").fetchall() == [
                ("fcfs", row["value"], str(2**70))
            ]
        with pytest.raises(BadInput, match="another sweep is writing to it"):
            Store(path, resume=True)
        with pytest.raises(BadInput, match=r"r.sqlite: cannot be written, but keeps what is finished.*UNIQUE"):
            store.add(cell, row)
    with Store(path, resume=True) as store:
        assert (store.finished(), store.rows([cell.key, "other"])) == ({cell.key}, [row])


def test_a_database_is_only_gone_on_with_if_one_says_so(tmp_path):
    (tmp_path / "r.sqlite").write_text("something else entirely, and long enough to be read as a header")
    with pytest.raises(
        BadInput, match=r"r.sqlite is there already: go on with it with --resume, or give another --out"
    ):
        Store(tmp_path / "r.sqlite", resume=False)
    with pytest.raises(BadInput, match=r"r.sqlite: cannot be opened as a database of results: file is not a database"):
        Store(tmp_path / "r.sqlite", resume=True)


def test_what_a_label_stands_for_is_printable(tmp_path):
    family = '[[instances]]\nfiles = ["a\\u001b[31m.json"]\nlabel = "{file}, {load}"\n'
    (tmp_path / "a\x1b[31m.json").write_text(builtin_instance("mars-figure1").to_json())
    assert [cell.label for cell in study_cells(family + FCFS, tmp_path)] == ["a?[31m.json, 1"]


def with_row(path, *cells):
    with Store(path, resume=path.exists()) as store:
        for cell in cells:
            store.add(cell, run_cell(cell))


def test_a_database_is_no_folder_no_pipe_and_has_its_lock(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.sqlite.lock").mkdir()
    os.mkfifo(tmp_path / "b.sqlite.lock")
    for name, what in (("pipe", "pipe"), ("a.sqlite", "a.sqlite.lock"), ("b.sqlite", "b.sqlite.lock")):
        with pytest.raises(BadInput, match=f"{what}: a database is a regular file, and this is none"):
            Store(tmp_path / name, resume=True)
    assert not (tmp_path / "a.sqlite").exists()


def test_a_link_to_a_database_has_the_same_lock(tmp_path):
    with_row(tmp_path / "r.sqlite", mars_cell())
    (tmp_path / "link.sqlite").symlink_to("r.sqlite")
    with Store(tmp_path / "r.sqlite", resume=True), pytest.raises(BadInput, match="another sweep is writing to it"):
        Store(tmp_path / "link.sqlite", resume=True)


def test_a_full_disk_keeps_what_is_finished(tmp_path, monkeypatch):
    """The most pages that SQLite may use stand for those of the disk."""
    path, first, second = tmp_path / "r.sqlite", mars_cell(), mars_cell("sjf")
    opened = Store._open

    def on_a_small_disk(store):
        database = opened(store)
        database.execute("PRAGMA max_page_count = 10")
        return database

    row = run_cell(second) | {"note": "x" * 100_000}
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_open", on_a_small_disk)
        with Store(path, resume=False) as store:
            store.add(first, run_cell(first))
            with pytest.raises(BadInput, match=r"keeps what is finished; --resume goes on with it: .*disk is full"):
                store.add(second, row)
    with Store(path, resume=True) as store:
        assert store.finished() == {first.key}


def test_a_damaged_database_is_one_line(tmp_path):
    path, cell = tmp_path / "r.sqlite", mars_cell()
    with_row(path, cell)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * len(data[4096:])
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"r.sqlite: .*(malformed|corrupt)"), Store(path, resume=True) as store:
        store.rows([cell.key])


@pytest.mark.parametrize(("row", "why"), [
    ("[1]", "must be an object"), ("{", "EOF while parsing"), ("[" * 10_000, "recursion limit exceeded"),
    ({"bound": "5/0"}, r'bound: neither a whole number nor a fraction in text \(it is "5/0"\)'),
    ({"value": 1.5}, "value"), ({"options": []}, "options: must be an object"),
    ({"label": None}, r"label: must be a valid string \(it is null\)"),
], ids=str)  # fmt: skip
def test_a_row_that_is_no_result_is_one_line(row, why, tmp_path):
    path, cell = tmp_path / "r.sqlite", mars_cell()
    with_row(path, cell)
    text = row if isinstance(row, str) else json.dumps(run_cell(cell) | row)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE cells SET row = ?", (text[:20_000],))
    said = f"the row of cell {cell.key} is no result: .*{why}"
    with Store(path, resume=True) as store, pytest.raises(BadInput, match=said) as caught:
        store.rows([cell.key])
    assert str(caught.value).isprintable()


# --- processes that die
def test_failing_cells_are_recorded_and_the_rest_goes_on(tmp_path):
    write_policies(tmp_path)
    more = "limit = 1e6\nmemory_limit = 500\n"
    study = write_study(tmp_path, "Raises", "Dies", "Greedy", "mars", "Slow", count=1, more=more)
    told = json.loads(kvbound("sweep", study, "--jobs", 2, "--json", "-", code=3).stdout)
    assert (told["cells"], told["run"], told["failed"]) == (5, 5, 4)
    stops = {row["run"].rpartition(":")[2]: (row["stopped"], row.get("error")) for row in told["rows"]}
    assert stops["Slow"] == ("ended", None)
    assert stops["Raises"][0] == stops["mars"][0] == "declined"
    assert "no idea" in stops["Raises"][1]
    assert stops["Dies"] == ("crashed", "its process ended with code 7: terrible")
    assert stops["Greedy"] == ("memory limit", "ended above 500 MiB, the memory limit of a cell")


def test_a_cell_that_hangs_ends_at_its_limit(tmp_path):
    write_policies(tmp_path)
    study = write_study(tmp_path, "Hangs", count=1, more="limit = 1.0\n")
    row = json.loads(kvbound("sweep", study, "--json", "-", code=3).stdout)["rows"][0]
    assert (row["stopped"], row["error"]) == ("time limit", "ended after 1 s, the limit of a cell")


LOADERS = int(sys.platform == "linux")
"""Processes of which workers are copies."""


def started(study, *arguments):
    return subprocess.Popen([sys.executable, "-m", "kvbound", "sweep", str(study), *arguments])


def stored(study):
    """Return the rows of the database as they are at this moment: key and time."""
    database = study.with_suffix(".sqlite")
    if not database.exists():
        return []
    with sqlite3.connect(database) as reader:
        tables = reader.execute("SELECT name FROM sqlite_master").fetchall()
        return reader.execute("SELECT key, row FROM cells").fetchall() if ("cells",) in tables else []


def wait_for(what):
    while not what():
        time.sleep(0.02)


def kill_in_the_middle(study, least, *arguments, jobs, sign=signal.SIGKILL):
    """Start a sweep, kill it while cells are held, `least` rows or more after the last one, and see its workers end.

    All rows but those of the held cells are written by then, however slow the machine.
    """
    before, earlier, workers = len(stored(study)), runs(study.parent), list[psutil.Process]()
    allow(study.parent, least)
    process = started(study, f"--jobs={jobs}", *arguments)

    def busy():
        workers[:] = psutil.Process(process.pid).children(recursive=True)
        ended = runs(study.parent) - earlier - jobs
        all_run = len(workers) == jobs + LOADERS
        return held(study.parent) and all_run and len(stored(study)) >= before + max(least, ended)

    wait_for(busy)
    process.send_signal(sign)
    assert process.wait() == (-signal.SIGKILL if sign is signal.SIGKILL else 130)
    allow(study.parent)
    wait_for(lambda: not any(worker.is_running() and worker.status() != "zombie" for worker in workers))


@pytest.mark.parametrize(("count", "jobs", "kills"), [(12, 1, 1), pytest.param(80, 2, 6, marks=pytest.mark.slow)])
def test_a_killed_sweep_goes_on_where_it_was(tmp_path, count, jobs, kills):
    write_policies(tmp_path)
    study = write_study(tmp_path, "Slow", count=count)
    for kill in range(kills):
        kill_in_the_middle(study, 3, *(["--resume"] if kill else []), jobs=jobs)
    kept = stored(study)
    assert 3 * kills <= len(kept) < count, "the kill came in the middle"
    told = json.loads(kvbound("sweep", study, "--resume", "--jobs", jobs, "--json", "-").stdout)
    assert (told["cells"], told["failed"], told["run"]) == (count, 0, count - len(kept))
    assert set(kept) < set(stored(study)), "what was finished is as it was"
    assert len(stored(study)) == count
    assert count <= runs(tmp_path) <= count + kills * jobs, "only what was under way at a kill was run twice"
    assert json.loads(kvbound("sweep", study, "--resume", "--json", "-").stdout)["run"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_sweep_and_keeps_what_is_finished(tmp_path, sign):
    write_policies(tmp_path)
    study = write_study(tmp_path, "Slow", count=40)
    kill_in_the_middle(study, 3, jobs=2, sign=sign)
    kept = stored(study)
    assert json.loads(kvbound("sweep", study, "--resume", "--json", "-").stdout)["run"] == 40 - len(kept)
    assert set(kept) < set(stored(study))


@pytest.mark.slow
def test_solves_end_with_a_killed_sweep(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        '[[instances]]\nbuiltin = "hindsight-benchmark"\n[[solvers]]\ntime_limit = 100\nmemory_limit = 1000\n'
    )
    process = started(study)
    family = psutil.Process(process.pid)
    wait_for(lambda: len(family.children(recursive=True)) >= 2 + 2 * LOADERS)  # the worker, and a process of its solver
    workers = family.children(recursive=True)
    process.kill()
    process.wait()
    wait_for(lambda: not any(worker.is_running() and worker.status() != "zombie" for worker in workers))


@pytest.mark.slow
def test_closing_ends_the_workers():
    running = run_locally([mars_cell(), mars_cell("sjf")], jobs=1)
    next(running)
    loaders = psutil.Process().children()
    children = [worker for loader in loaders for worker in loader.children()] if LOADERS else loaders
    running.close()
    assert children
    assert not any(child.is_running() and child.status() != "zombie" for child in children)


# --- the command
def test_the_command_resumes_retries_and_exports(tmp_path):
    study, out = tmp_path / "s.toml", tmp_path / "all.csv"
    study.write_text(MARS + '[[policies]]\nnames = ["fcfs", "vllm"]\n')
    assert "2 cells, 2 of them run now, 1 failed" in kvbound("sweep", study).stdout
    refused = kvbound("sweep", study, code=2).stderr
    assert re.fullmatch(r"kvbound: \S+s.sqlite is there already: go on with it with --resume, or .*\n", refused)
    study.write_text(MARS + '[[policies]]\nnames = ["fcfs", "vllm", "sjf"]\n')
    assert json.loads(kvbound("sweep", study, "--resume", "--retry", "--json", "-").stdout)["run"] == 2
    kvbound("sweep", study, "--resume", "--export", out)
    rows = list(csv.DictReader(out.open()))
    assert [(row["run"], row["status"], row["stopped"]) for row in rows] == [
        ("fcfs", "feasible", "ended"), ("vllm", "unknown", "declined"), ("sjf", "feasible", "ended"),
    ]  # fmt: skip


def test_exports_that_cannot_be_made_are_refused_at_once(tmp_path, monkeypatch):
    study = tmp_path / "s.toml"
    study.write_text(MARS + FCFS)
    assert "give a name that ends in .csv or .parquet" in kvbound("sweep", study, "--export", "a.xls", code=2).stderr
    without(monkeypatch, "pyarrow")
    target = tmp_path / "a.parquet"
    assert "pip install 'kvbound[sweep]'" in kvbound("sweep", study, "--export", target, code=4).stderr
    assert not study.with_suffix(".sqlite").exists()


def without(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)


def test_parquet_holds_the_same(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    text = 'objectives = ["makespan", "normalized-latency"]\n' + MARS + '[[policies]]\nnames = ["fcfs", "vllm"]\n'
    cells = study_cells(text, tmp_path)
    with Store(tmp_path / "a.sqlite", resume=False) as store:
        for cell in cells:
            store.add(cell, run_cell(cell))
        rows = store.flat_rows([cell.key for cell in cells])
    export(rows, str(tmp_path / "all.parquet"))
    export(rows[:2], str(tmp_path / "makespan.parquet"))
    assert [row["value"] for row in parquet.read_table(tmp_path / "makespan.parquet").to_pylist()] == [15, None]
    read = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    written = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert len(read) == 4
    assert [{name: "" if cell is None else str(cell) for name, cell in row.items()} for row in read] == written


# --- a cluster
class FakeDask:
    """Stands in for `distributed`: carries out cells at once, in this process, except as its future's status says."""

    def __init__(self, statuses, version=""):
        self.statuses, self.version, self.loop = statuses, version or code_version(), "the client's"

    def Client(self, address, **_):  # noqa: N802 - its name there
        if not address.startswith("tcp://"):
            raise OSError("timed out")
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_): ...

    def run(self, function):
        return {"w": self.version}

    def submit(self, function, cell, **_):
        future = SimpleNamespace(status=self.statuses.pop(0), result=lambda: run_cell(cell))
        future.exception = lambda: RuntimeError("killed 3 of them")
        return Hashable(future)

    def as_completed(self, futures, loop):
        return futures


class Hashable:
    def __init__(self, future):
        self.__dict__.update(vars(future))


def test_a_cell_that_kills_dask_workers_is_a_failed_cell(monkeypatch):
    monkeypatch.setattr(sweeps.cluster, "dask", lambda: FakeDask(["finished", "error"]))
    rows = [row for _, row in run_on_cluster([mars_cell(), mars_cell("sjf")], "tcp://a:1")]
    assert [row["stopped"] for row in rows] == ["ended", "crashed"]
    assert rows[1]["error"] == "its Dask worker: killed 3 of them"


@pytest.mark.parametrize(("fake", "address", "message"), [
    (FakeDask(["cancelled"]), "tcp://a:1", "the cluster at tcp://a:1 is gone; --resume goes on with what is left"),
    (FakeDask([]), "a:1", r"--cluster a:1: no Dask scheduler answers there \(timed out\)"),
    (FakeDask([], "9"), "tcp://a:1", "its workers have kvbound {'9'}, this is "),
])  # fmt: skip
def test_what_is_wrong_with_a_cluster(fake, address, message, monkeypatch):
    monkeypatch.setattr(sweeps.cluster, "dask", lambda: fake)
    with pytest.raises(BadInput, match=message):
        list(run_on_cluster([mars_cell()], address))


def test_without_dask_a_cluster_is_a_missing_tool(tmp_path, monkeypatch):
    without(monkeypatch, "distributed")
    (tmp_path / "s.toml").write_text(MARS + FCFS)
    said = kvbound("sweep", tmp_path / "s.toml", "--cluster", "tcp://127.0.0.1:1", code=4).stderr
    assert "pip install 'kvbound[cluster]'" in said
    with pytest.raises(MissingTool):
        sweeps.cluster.dask()


def dask_process(module, *arguments):
    command = [sys.executable, "-m", "distributed.cli." + module, *arguments, "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_finishes_the_sweep(tmp_path):
    pytest.importorskip("distributed")
    write_policies(tmp_path)
    allow(tmp_path, 5)
    study, count = write_study(tmp_path, "Slow", count=40), 40
    file = tmp_path / "scheduler.json"
    nodes = [dask_process("dask_scheduler", "--port=0", "--host=127.0.0.1", f"--scheduler-file={file}")]
    try:
        wait_for(file.exists)
        address = json.loads(file.read_text())["address"]
        nodes += [dask_process("dask_worker", address, "--no-nanny", "--nthreads=1") for _ in range(2)]
        sweep = started(study, f"--cluster={address}")
        wait_for(lambda: len(stored(study)) >= 5)
        victim = psutil.Process(nodes[1].pid)
        while not (beside := victim.children(recursive=True)):
            time.sleep(0.02)
        os.kill(victim.pid, signal.SIGKILL)
        assert len(stored(study)) < count
        allow(tmp_path)
        assert sweep.wait() == 0
        wait_for(lambda: not any(child.is_running() and child.status() != "zombie" for child in beside))
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    assert len(stored(study)) == count
    assert count <= runs(tmp_path) <= count + 3, "what the killed worker had not handed over was run again"
    assert json.loads(kvbound("sweep", study, "--resume", "--json", "-").stdout)["run"] == 0
