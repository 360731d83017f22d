"""Options in a file: what a command takes from its table, and what is wrong with one."""

import json

import pytest

from kvcore.files import read_instance
from tests.support.commands import kvbound, one_line

STUDY = """
[import]
map = "arrival=t,prompt=in,decode=out"
memory = 64
chunked = false
slo_ttft = 1.5
out = "made.json"

[compare]
policies = ["fcfs", "sjf"]
optimum = false
objective = "makespan"

[solve]
time_limit = 20
option = ["speed.step=0.2"]
better-than = "100"
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("t,in,out\n0,10,2\n1,20,3\n")
    (tmp_path / "study.toml").write_text(STUDY)
    return "study.toml"


def test_commands_take_their_tables_and_what_is_given_counts_more(study):
    kvbound("import", "csv", "t.csv", "--config", study, "--memory", 80)
    made = read_instance("made.json")
    assert (made.machine.memory, made.machine.chunked, made.requests[0].slo.ttft) == (80, False, 60)
    rows = json.loads(kvbound("compare", "made.json", "--config", study, "--json", "-").stdout)["rows"]
    assert [(row["policy"], row["objective"]) for row in rows] == [("fcfs", "makespan"), ("sjf", "makespan")]
    assert "a schedule of at most 99.5 ticks: yes" in kvbound("solve", "mars-figure1", "--config", study).stdout


@pytest.mark.parametrize(("text", "message"), [
    ("[compare]\npolcies = 1", "no option of compare in study.toml is called 'polcies'; is it policies"),
    ("[solve]\n", r"study.toml: no table [compare]; it has solve"),
    ("[compare]\npolicies = {a = 1}", "study.toml: policies is a text, a number, true, false or a list, not a table"),
    ("[compare", "study.toml: not TOML: Expected"),
    ("[compare]\ntime_limit = 'soon'", "it must be a valid number"),
])  # fmt: skip
def test_a_bad_file_of_options_is_answered_in_one_line(study, tmp_path, text, message):
    (tmp_path / study).write_text(text)
    assert message in one_line("compare", "mars-figure1", "--config", study)
