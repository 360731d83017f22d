"""The command line as scripts use it: exit codes, one-line errors, JSON keys, nothing else on standard output."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest

import hypotheses
import kvcore
import solvers
from kvbound.cli import about
from kvbound.comparison import compare
from kvbound.simulation import policy_names
from kvcore.files import write_text
from kvcore.result import Result
from solvers.ways import SOLVERS, Solver
from tests.solvers.test_driver import INTERFACE
from tests.support.commands import kvbound, one_line
from workloads.builtin import builtin_instance


def rows_of(*arguments, code=0):
    return json.loads(kvbound(*arguments, "--json", "-", code=code).stdout)


def test_free_handling_is_never_worse_and_its_schedule_verifies(tmp_path):
    free = rows_of("solve", "mars-figure1", "--handling", "free", "--schedule", tmp_path / "s.json")
    assert (free["value"], free["status"]) == (27, "optimal")
    verified = rows_of("verify", "mars-figure1", "--schedule", tmp_path / "s.json")
    assert verified["valid"] is True
    assert verified["total-flow-time"] == free["value"]


def test_improve_is_never_worse_and_its_schedule_verifies(tmp_path):
    name = "infermax-figure15:I=32"
    given = rows_of("simulate", name, "--policy", "vllm", "--schedule", tmp_path / "given.json")["rows"][0]
    for start in ("vllm", tmp_path / "given.json"):
        found = rows_of("improve", name, "--from", start, "--seconds", "0.1", "--schedule", tmp_path / "found.json")
        assert found.keys() >= INTERFACE
        assert found["start"]["value"] == given["value"] >= found["value"]
        assert rows_of("verify", name, "--schedule", tmp_path / "found.json")["total-flow-time"] == found["value"]
    assert "ms by vllm" in kvbound("improve", name, "--from", "vllm", "--seconds", "0.1").stdout


def test_names_with_parameters_stand_in_a_list():
    text = "fcfs, index:r0=0.4,group=2,staggered:2,3,sjf"
    assert policy_names(text) == ["fcfs", "index:r0=0.4,group=2", "staggered:2,3", "sjf"]


def test_compare_gives_ratios_and_draws(tmp_path):
    said = kvbound(
        "compare", "mars-figure1", "--policies", "fcfs", "--plot", tmp_path / "c.svg", "--json", tmp_path / "c.json"
    ).stdout
    rows = {row["label"]: row for row in json.loads((tmp_path / "c.json").read_text())["rows"]}
    best = rows["optimum, as given"]
    assert best["ratio_to_bound"]["as-given"] == "1"
    assert rows["fcfs"]["ratio_to_bound"]["as-given"] == f"{35}/{best['value']}"
    assert "proved optimal" in said
    assert "<svg" in (tmp_path / "c.svg").read_text()


def test_an_invalid_schedule_is_exit_1_and_names_the_rule(tmp_path):
    kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", tmp_path / "s.json")
    schedule = json.loads((tmp_path / "s.json").read_text())
    schedule["batches"][3]["start"] -= 1
    (tmp_path / "s.json").write_text(json.dumps(schedule))
    assert rows_of("verify", "mars-figure1", "--schedule", tmp_path / "s.json", code=1) == {
        "valid": False, "instance": "mars-figure1", "rule": "R1", "batch": 3, "request": None,
        "detail": "it starts at 2, but the batch before it ends at 3",
    }  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["solve", "no-such"], "no file 'no-such'"),
    (["solve", "infermax-figure15:J=3"], "'J=3' is no parameter"),
    (["solve", "mars-figure1", "--handling", "fixed"], "handling is as-given or free"),
    (["solve", "mars-figure1", "--better-than", "lots"], "--better-than lots"),
    (["solve", "mars-figure1", "--better-than", "10%:nobody"], "nobody"),
    (["solve", "mars-figure1", "--warm-start", "nobody"], "nobody"),
    (["simulate", "mars-figure1", "--policy", "all", "--schedule", "s.json"], "schedule of one policy"),
    (["simulate", "mars-figure1"], "--policy"),
    (["compare", "mars-figure1", "--html", "nowhere/r.html"], "nowhere/r.html: cannot be written"),
    (["generate", "fixed", "--n", 1, "--out", "nowhere/I.json"], "cannot be written: there is no folder"),
    (["solve", "mars-figure1", "--json", "nowhere/r.json"], "r.json: cannot be written: there is no folder"),
    (["solve", "mars-figure1", "--plot", "nowhere/p.svg"], "nowhere/p.svg: cannot be written"),
    (["frobnicate"], "frobnicate"),
    (["solve", "mars-figure1", "--objective", "median"],
     "`kvbound compare` and `kvbound load` measure it, nothing minimises it"),
    (["solve", "small.json"], "request R1 can never fit"),
    (["show", "broken.json"], "not JSON"),
    (["solve", "mars-figure1", "--time-limit", "x"],
     "kvbound: Invalid value for '--time-limit' / '--seconds': it must be a valid number"),
    (["solve", "mars-figure1", "--time-limit", "0"],
     "kvbound: Invalid value for '--time-limit' / '--seconds': it must be greater than or equal to 0.1"),
    (["verify", "mars-figure1"], "--schedule S.json or --certificate C.json, one of them"),
    (["verify", "mars-figure1", "--certificate", "no.json"], "no.json: cannot be read"),
    (["bound", "mars-figure1", "--method", "magic"], "no bound is called 'magic'; there are auto, alone"),
    (["load", "mars-figure1", "--policies", "nobody"], "no policy is called 'nobody'"),
    (["load", "mars-figure1", "--policies", "fcfs", "--factors", "1,zero"], "--factors zero"),
    (["load", "mars-figure1", "--policies", "fcfs", "--window", "-1"], "--window -1"),
    (["load", "mars-figure1", "--policies", "fcfs", "--window", "1", "--bound", "1"],
     "--window leaves some out; give one of them"),
    (["load", "mars-figure1", "--policies", "fcfs", "--csv", "nowhere/l.csv"], "nowhere/l.csv: cannot be written"),
    (["search", "--policy", "nobody"], "no policy is called 'nobody'"),
    (["search", "--policy", "fcfs", "--objective", "joy"], "no objective is called 'joy'"),
    (["search", "--policy", "fcfs", "--switches", "turbo"], "no switch is called 'turbo'"),
    (["search", "--policy", "fcfs", "--handling", "both"], "handling is one of"),
    (["search", "--policy", "fcfs", "--n", 1, "--calls", 1, "--out", "/no/such/f"], "cannot be written"),
    (["search", "--policy", "vllm", "--switches", "hybrid", "--n", 1, "--arrival", 0],
     "vllm cannot run on an instance"),
])  # fmt: skip
def test_bad_usage_is_exit_2_with_one_line(arguments, complaint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text('{"format": "kvbound-instance"')
    Path("small.json").write_text(re.sub('"memory": [0-9]+', '"memory": 5', builtin_instance("mars-figure1").to_json()))
    out, err = kvbound(*arguments, code=2)
    assert complaint in err
    assert err.count("\n") == 1
    assert "Traceback" not in out + err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["import"], ["solve", "--help"]])
def test_help_is_help(arguments):
    out, err = kvbound(*arguments)
    assert err == ""
    assert out.startswith("Usage: ")
    assert out.count("\n") > 5


def test_without_a_command_there_are_four_groups_and_an_example_of_each():
    out = kvbound().stdout
    assert re.findall(r"^(\w[\w ]*): \w+, ", out, re.MULTILINE) == ["Solve and bound", "Policies", "Data", "Studies"]
    assert out.count("  $ kvbound ") == 4
    assert max(map(len, out.splitlines())) <= 80


def test_completion_knows_the_commands(tmp_path):
    asked = {"COMP_WORDS": "kvbound so", "COMP_CWORD": "1", "_KVBOUND_COMPLETE": "complete_bash"}
    command = "import sys; from kvbound.cli import main; sys.argv = ['kvbound']; main()"
    told = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=os.environ | asked)
    assert (told.returncode, told.stdout.split()) == (0, ["solve", "solvers"])


@pytest.mark.parametrize(
    ("said", "meant"),
    [("mean-latency", "total-flow-time"), ("TTFT", "total-ttft"), ("max_latency", "max-flow-time"),
     ("slo-attainment", "late-requests"), ("makespan", "makespan"), ("P99_latency", "p99-flow-time")],
)  # fmt: skip
def test_an_objective_may_be_called_as_people_call_it(said, meant):
    row = rows_of("simulate", "mars-figure1", "--policy", "fcfs", "--objective", said)["rows"][0]
    assert row["objective"] == meant


@pytest.mark.parametrize("out", ["-o", "--out", "--schedule"])
def test_each_file_is_noted(tmp_path, out):
    said = kvbound("simulate", "mars-figure1", "--policy", "fcfs", out, tmp_path / "s.json").stdout
    assert said.endswith(f"\nwritten: {tmp_path / 's.json'}\n")


def test_a_table_of_many_requests_takes_80_columns():
    """Unless all that is measured is asked for."""
    asked = ("compare", "identical:n=16,I=32,O=8,M=200", "--no-optimum", "--policies", "vllm-v1,trtllm-max-utilization")
    brief = kvbound(*asked).stdout
    assert max(len(line.rstrip()) for line in brief.splitlines()) <= 80
    assert "norm. p50" not in brief
    assert "norm. p50" in kvbound(*asked, "--wide").stdout


def test_a_bound_has_a_mean_as_values_have():
    comparison = compare(builtin_instance("identical:n=201,I=2,O=2,M=900"), "fcfs", work=10**6, against="bound")
    *_, (label, value, mean, *_) = comparison.summary(comparison.rows()).rows
    assert (label, mean) == ("lower bound, as given", f"{float(value.replace(',', '')) / 201:.6g}")


@pytest.mark.parametrize("arguments", [["compare"], ["simulate"]])
def test_the_mean_without_calls_stands_wherever_there_are_calls(arguments):
    for name, calls in (("mars-figure1", True), ("infermax-figure15:I=8", False)):
        assert ("without calls" in kvbound(*arguments, name, "--policies", "fcfs").stdout) is calls


def test_the_tables_for_people_say_what_scripts_get(monkeypatch):
    monkeypatch.setattr(Solver, "try_it", lambda solver: None)  # takes seconds
    listed = kvbound("instances").stdout
    assert "infermax-figure15:I=32" in listed
    assert re.findall(r"worst-\S+ +\d+ instances", listed) == ["worst-POLICY-OBJECTIVE:n=4     72 instances"]
    assert len(rows_of("instances")["rows"]) > 24
    assert "highs" in kvbound("solvers").stdout
    assert "mars-order" in kvbound("policies").stdout
    assert "3 requests with 3 calls" in kvbound("show", "mars-figure1").stdout
    assert {row["name"] for row in rows_of("solvers")["rows"]} >= {"slots", "events", "highs", "gurobi"}
    assert rows_of("show", "mars-figure1")["sizes"]["largest_peak"] == 6


def test_an_error_is_one_line_of_some_length(monkeypatch):
    err = kvbound("show", "9" * 5000, code=2).stderr
    assert (err.count("\n"), err.startswith("kvbound: 999")) == (1, True)
    assert len(err) < 1000
    said_of = {RecursionError: "something is nested too deeply", MemoryError: "there is too little memory"}
    for error, said in said_of.items():
        monkeypatch.setattr("kvbound.cli.instances.show_instance", mock.Mock(side_effect=error))
        assert kvbound("show", "mars-figure1", code=2).stderr == f"kvbound: {said}\n"


def test_an_extra_is_named_whole(monkeypatch):
    """Markup ate `[cp-sat]`."""
    monkeypatch.setattr(Solver, "try_it", lambda solver: None)
    monkeypatch.setattr(metadata, "version", mock.Mock(side_effect=metadata.PackageNotFoundError))
    assert "cp-sat is not installed; install it with: pip install 'kvbound[cp-sat]'" in kvbound("solvers").stdout


def test_the_version_is_there_at_once():
    command = "import sys; from kvbound.cli import main; sys.argv = ['', '--version']\ntry: main()\n"
    command += "finally: print(sorted({'kvcore', 'typer', 'pydantic', 'numpy', 'rich'} & {*sys.modules}))"
    told = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert told.stdout == f"kvbound {kvcore.__version__}\n[]\n"


def test_an_error_in_a_hypothesis_names_file_and_line(tmp_path):
    source = Path(hypotheses.__file__).parent / "shipped" / "backfilling.py"
    text = source.read_text().replace("    instance = ", "    1 // 0\n    instance = ")
    (tmp_path / "mine.py").write_text(text)
    err = one_line("check", tmp_path / "mine.py")
    line = text.splitlines().index("    1 // 0") + 1
    assert re.search(rf"mine fails: ZeroDivisionError: .* \(.*mine.py, line {line}\)$", err)


@pytest.mark.parametrize(("solver", "package"), [("cp-sat", "ortools"), ("highs", "highspy"), ("gurobi", "gurobipy")])
def test_a_solver_that_is_installed_but_broken_is_not_available(monkeypatch, tmp_path, solver, package):
    (tmp_path / f"{package}.py").write_text("raise ImportError('libmissing.so: no such file')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    row = about._solver(SOLVERS[solver])
    assert (row["available"], row["version"]) == (False, None)
    assert re.match(f"{solver} (cannot be loaded although .*libmissing.so|is not installed)", row["install"])


def test_better_than_answers_yes_and_no():
    for given, target, said in (("30", "59/2", "yes"), ("29", "57/2", "no"), ("10%:fcfs", "63/2", "yes")):
        row = rows_of("solve", "mars-figure1", "--better-than", given)
        assert row["better_than"] == {"target": target, "answer": said}


def test_a_limit_that_leaves_the_gap_open_is_exit_3():
    row = rows_of("solve", "hindsight-benchmark:seed=2", "--time-limit", 0.1, "--gap", 0.000001, code=3)
    assert row["status"] == "feasible"
    assert row["bound"] is None or row["bound"] < row["value"]


def test_a_limit_that_leaves_no_policy_to_start_from_is_exit_3():
    options = ("--option", "improve.first=0", "--option", "solve.referee=1e9")
    said = kvbound("improve", "mars-figure1", "--seconds", 0.1, *options, code=3).stdout
    assert "no policy has ended in that time: give more --time-limit, or a schedule with --from" in said


@pytest.mark.parametrize("command", ["improve", "solve", "bound"])
def test_a_terminal_that_is_closed_loses_nothing(command, tmp_path):
    """The kernel sends SIGHUP then, and whatever is still written there fails."""
    out, limit = tmp_path / "o.json", "--seconds" if command == "improve" else "--time-limit"
    files = ["--certificate" if command == "bound" else "--schedule", out]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, termios; fcntl.ioctl(1, termios.TIOCSCTTY, 0)\n"
         "from kvbound.cli import main; main()", command, "hindsight-benchmark:seed=2", limit, "600", *files],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown, found = b"", b"bound [0-9]" if command == "bound" else b"best [0-9]"
    while not re.search(found, shown):
        shown += os.read(ours, 2**16)
    os.close(ours)
    assert process.wait() == 130
    assert out.stat().st_size > 100


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_sigterm_ends_a_solve_as_ctrl_c_does(monkeypatch, tmp_path, number):
    """Exit 130, and what was found so far is written; here of an instance from standard input."""
    given = builtin_instance("hindsight-benchmark:seed=2").to_json().encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    monkeypatch.setattr("solvers.incumbent.Held.report", lambda *_: signal.raise_signal(number))
    kvbound("solve", "-", "--json", tmp_path / "r.json", code=130)
    row = json.loads((tmp_path / "r.json").read_text())
    assert row["stopped"] == "interrupted"
    assert row["verified"] is True
    assert 0 < row["bound"] < row["value"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_files_are_written_loses_none(monkeypatch, tmp_path, number):
    """The first Ctrl-C says that a second one leaves out the rest."""
    signals = [number]

    def write(*arguments):
        while signals:
            signal.raise_signal(signals.pop())
        write_text(*arguments)

    monkeypatch.setattr("kvbound.cli.common.write_text", write)
    files = ["--certificate", tmp_path / "c.json", "--json", tmp_path / "r.json"]
    kvbound("bound", "mars-figure1", "--method", "alone", *files)
    assert {file.name for file in tmp_path.iterdir()} == {"c.json", "r.json"}


def test_a_signal_whose_exception_python_drops_comes_again(monkeypatch):
    """It comes in a finalizer, from which nothing is raised; then the command goes on until it is interrupted."""

    class Last:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)

    def follow(*_, **__):
        Last()
        time.sleep(60)

    monkeypatch.setattr("solvers.improve._Improvement.follow", follow)
    assert rows_of("improve", "mars-figure1", "--seconds", 60, code=130)["stopped"] == "interrupted"


def test_an_interrupt_while_the_command_is_loaded_is_one_line(monkeypatch):
    monkeypatch.setattr("kvbound.cli.hidden", lambda: signal.raise_signal(signal.SIGINT))
    assert kvbound("policies", code=130) == ("", "kvbound: interrupted\n")


def test_nohup_is_obeyed(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr("solvers.incumbent.Held.report", lambda *_: signal.raise_signal(signal.SIGHUP))
    try:
        kvbound("solve", "mars-figure1")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_sigterm_does_not_disturb_what_the_first_has_ended(monkeypatch):
    """timeout sends it to the process, and at once to its group."""
    finish = solvers.driver._Solve.result

    def disturbed(*arguments, **options):
        signal.raise_signal(signal.SIGTERM)
        return finish(*arguments, **options)

    monkeypatch.setattr("solvers.driver.race", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr("solvers.driver._Solve.result", disturbed)
    assert rows_of("solve", "mars-figure1", code=130)["stopped"] == "interrupted"


@pytest.mark.parametrize("command", [["simulate", "--policy"], ["compare", "--no-optimum", "--policies"]])
def test_a_policy_that_cannot_run_has_a_line_and_the_others_go_on(command):
    verb, *options = command
    out = kvbound(verb, "mars-figure1", *options, "vllm,fcfs,sarathi").stdout
    assert out.count("cannot run: it needs a machine with evict") == 2
    rows = rows_of(verb, "mars-figure1", *options, "vllm,fcfs,sarathi")["rows"]
    assert [row["status"] for row in rows] == ["unknown", "feasible", "unknown"]
    assert rows[0]["error"] == "policy vllm cannot run on mars-figure1: it needs a machine with evict"


def test_the_usual_policies_never_fail(tmp_path):
    """Not on a machine that suits few of them, nor where calls fill the host by order (R7)."""
    ordered = builtin_instance("infercept-sample:k=4").replace(coarsening=None)
    ordered = ordered.replace(machine=ordered.machine.replace(evict=True))
    (tmp_path / "ordered.json").write_text(ordered.to_json())
    expected = {"mars-figure1": (5, 0), tmp_path / "ordered.json": (10, 8), "infercept-sample:k=4,evict=1": (10, 0)}
    for name, (many, errors) in expected.items():
        rows = rows_of("compare", name, "--policies", "usual", "--no-optimum")["rows"]
        assert len(rows) == many
        assert sum("error" in row for row in rows) == errors


def test_sigterm_keeps_the_policies_that_have_run(monkeypatch):
    def second_is_interrupted(instance, policy, *arguments, **options):
        if policy.name == "sjf":
            signal.raise_signal(signal.SIGTERM)
        return solvers.simulate_policy(instance, policy, *arguments, **options)

    monkeypatch.setattr("kvbound.simulation.simulate_policy", second_is_interrupted)
    for command in (["simulate", "mars-figure1", "--policy"], ["compare", "mars-figure1", "--policies"]):
        assert [row["policy"] for row in rows_of(*command, "fcfs,sjf,serial", code=130)["rows"]] == ["fcfs"]


def test_sigterm_while_a_certificate_is_looked_for_keeps_the_schedule(monkeypatch, tmp_path):
    certify = solvers.driver._Solve.certify

    def begun(run, seconds):
        monkeypatch.setattr("solvers.incumbent.Held.report", lambda *_: signal.raise_signal(signal.SIGTERM))
        certify(run, seconds)

    monkeypatch.setattr("solvers.driver._Solve.certify", begun)
    files = ["--certificate", tmp_path / "c.json", "--schedule", tmp_path / "s.json"]
    kvbound("solve", "mars-figure1", "--formulation", "batch-bigm", *files, code=130)
    assert (tmp_path / "s.json").exists()


def test_an_interrupted_solve_is_not_replayed(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed (extra engine)")
    from kvbound.cli.replay import named

    mars = builtin_instance("mars-figure1")
    monkeypatch.setattr(solvers, "solve", lambda *_, **__: Result(mars, "makespan", stopped="interrupted"))
    with pytest.raises(KeyboardInterrupt):
        named("optimum", mars, mars, "makespan", "as-given", 1.0)


def test_replay_without_torch_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gpu_validation.measure", raising=False)
    err = kvbound("replay", "mars-figure1", "fcfs", "--device", "cpu", code=4).stderr
    assert err == "kvbound: PyTorch is not installed; install it with: pip install 'kvbound[gpu]'\n"
