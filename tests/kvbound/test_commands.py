"""Each command that `kvbound --help` leads to, once, on a small case; a new one needs a line here."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from kvbound.cli import demo
from kvbound.cli.app import app
from library.library import RECORDS
from solvers.ways import Solver
from tests.costmodels.test_vidur import COLUMNS
from tests.costmodels.test_vidur import row as profile_row
from tests.support.commands import kvbound

COMMANDS = {
    "solve": "hindsight:n=1", "bound": "mars-figure1 --method alone", "improve": "mars-figure1 --seconds 0.2",
    "verify": "mars-figure1 --schedule fcfs.json", "solvers": "", "options": "",
    "compare": "hindsight:n=1 --policies fcfs", "simulate": "mars-figure1 --policy fcfs", "policies": "",
    "search": "--policy sjf --objective makespan --n 1 --memory 2 --prompt 1 --decode 1",
    "load": "mars-figure1 --policies fcfs --factors 1", "replay": "mars-figure1 fcfs --device cpu",
    "import csv": "trace.csv --map arrival=t,prompt=in,decode=out --memory 99 --out made.json",
    "import jsonl": "trace.jsonl --map arrival=t,prompt=in,decode=out --memory 99 --out made.json",
    "import azure": "azure.csv --memory 99 --out made.json",
    "import agent-traces": "agents.csv --memory 99 --out made.json",
    "import infercept": "mixture.csv --memory 99 --out made.json", "import vidur": "profile.csv --out made.json",
    "import run": "log.csv --instance mars-figure1 --out made.json",
    "generate": "fixed --n 2 --rate 1 --prompt 2 --output 2 --out made.json", "instances": "", "show": "mars-figure1",
    "library list": "--library records", "library show": "mars-figure1 --library records",
    "library get": "mars-figure1 --library records", "library verify": "mars-figure1 --library records --jobs 1",
    "library run": "--policies fcfs --library records --jobs 1",
    "library submit": "fcfs.json --by test --library records",
    "library add": "hindsight:n=2 --name two --family theory --source x --origin x --licence MIT --library records",
    "library fill": "--out tried.sqlite --library records --seconds 0.1", "costs": "",
    "calibrate": "--device cpu --out made.json", "demo": "--out made", "check": "mars-rank",
    "sweep": "study.toml --out made.sqlite", "kernels": "--device cpu",
}  # fmt: skip
FILES = {
    "trace.csv": "t,in,out\n0,3,2\n1,2,2\n",
    "trace.jsonl": '{"t": 0, "in": 3, "out": 2}\n',
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,4,3\n",
    "agents.csv": "trace_id,agent,seq,t_s,input_tokens,output_tokens,api_time_s,think_time_s\nt1,main,0,5,9,2,2.5,0\n",
    "mixture.csv": "request_key,augmentation,segment,initial_prompt_tokens,decode_tokens,api_time_s,api_return_tokens\n"
    "first,math,0,9,4,0.05,6\nfirst,math,1,,7,,\n",
    "log.csv": "batch,start_s,work\n0,0,R1:1\n",
    "profile.csv": "\n".join(",".join(map(str, row)) for row in (COLUMNS, *map(profile_row, range(1, 9)))),
    "study.toml": 'name = "one"\n[[instances]]\nbuiltin = "mars-figure1"\n[[policies]]\nnames = ["fcfs"]\n',
}
NEED_TORCH = ("replay", "calibrate", "kernels")
CODES = {**dict.fromkeys(NEED_TORCH, 4), "library submit": 1, "import run": 1}
"""Exit codes besides 0: PyTorch is not there, what is handed in is no better, the log leaves requests undone."""


def leaves(command, *path):
    """Yield the commands of a group, and of the groups in it."""
    if not hasattr(command, "list_commands"):
        yield " ".join(path)
        return
    for name in command.list_commands(None):
        yield from leaves(command.get_command(None, name), *path, name)


@pytest.mark.parametrize("command", list(leaves(get_command(app))))
def test_each_command_once(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "PARTS", [part._replace(instance="hindsight:n=1") for part in demo.PARTS[1:]])
    monkeypatch.setattr(Solver, "try_it", lambda solver: None)  # a process each
    if command in NEED_TORCH:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # whether it is there or not
        monkeypatch.setitem(sys.modules, "torch", None)
        monkeypatch.delitem(sys.modules, "gpu_validation.measure", raising=False)
    for name, text in FILES.items():
        Path(name).write_text(text)
    shutil.copytree(RECORDS / "mars", "records/mars", ignore=lambda _, names: [n for n in names if "like" in n])
    kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", "fcfs.json")
    done = kvbound(*command.split(), *COMMANDS[command].split(), code=CODES.get(command, 0))
    assert "PyTorch" in done.stderr if command in NEED_TORCH else done.stdout


def test_solve_starts_from_a_file_or_a_policy_and_logs_each_event(tmp_path):
    schedule, log = tmp_path / "s.json", tmp_path / "log.jsonl"
    kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--schedule", schedule)
    for start in (schedule, "fcfs"):
        kvbound("solve", "mars-figure1", "--from", start, "--log", log, "--json", "-")
        events = [json.loads(line) for line in log.read_text().splitlines()]
        assert {"bound", "value", "start", "end"} == {each["event"] for each in events}
        assert getattr(start, "name", start) in [each.get("by") for each in events]
    kvbound("solve", "mars-figure1", "--handling", "free", "--from", schedule, code=2)


def test_compare_and_simulate_write_tables(tmp_path, monkeypatch):
    for command in (("simulate", "mars-figure1", "--policy", "fcfs,sjf"), ("compare", "mars-figure1")):
        kvbound(*command, "--csv", tmp_path / "rows.csv")
        rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
        assert rows[0]["policy"] == "fcfs"
        assert float(rows[0]["value_seconds"]) == 35
    assert rows[-1]["label"] == "optimum, free"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    done = kvbound("simulate", "mars-figure1", "--policy", "fcfs", "--csv", tmp_path / "rows.parquet", code=4)
    assert "parquet needs pyarrow, which is not installed: pip install pyarrow" in done.stderr


def test_a_signal_that_comes_while_solve_loads_leaves_a_schedule(tmp_path):
    """SIGTERM comes as soon as the command hears signals, long before there is an instance."""
    code = (
        "import os, signal, sys, kvbound.cli as cli\n"
        "sys.argv = ['kvbound', 'solve', 'hindsight-benchmark:seed=2', '--json', '-']\n"
        "run = cli._run\n"
        "cli._run = lambda: [os.kill(os.getpid(), signal.SIGTERM), run()][1]\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    row = json.loads(done.stdout)
    assert (row["status"], row["stopped"]) == ("feasible", "interrupted")
