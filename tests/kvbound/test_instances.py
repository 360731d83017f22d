"""Every way in which a user names an instance, and what is said where there is none."""

from pathlib import Path

import pytest

import kvbound as kv
from kvcore.errors import BadInput
from kvcore.metrics import check_objective
from tests.support.commands import kvbound


def test_a_name_of_the_library_is_an_instance_for_every_command():
    library = kv.Library()
    assert kv.load_instance("ve-2") == library.instance(library.record("ve-2"))
    assert kvbound("show", "ve-2").stdout.partition("\n")[2].startswith("2 requests")
    assert "vllm" in kvbound("simulate", "ve-2", "--policy", "vllm").stdout


def test_a_file_goes_before_the_library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = kv.load_instance("mars-figure1").replace(name="mine")
    Path("ve-2").write_text(mine.to_json())
    assert kv.load_instance("ve-2") == mine


@pytest.mark.parametrize(("name", "complaint"), [
    ("mars-figure2", "no file 'mars-figure2', and no instance of that name; is it mars-figure1"),
    ("ve2", r"is it .*ve-2.*\?; `kvbound instances` and `kvbound library list` name all"),
    ("x.json", "no file 'x.json', and no instance of that name; `kvbound instances`"),
    ("mars-figur1:k=2", "no file 'mars-figur1:k=2'.*is it mars-figure1"),
])  # fmt: skip
def test_an_unknown_instance_is_answered_with_near_names(name, complaint):
    with pytest.raises(BadInput, match=complaint):
        kv.load_instance(name)


@pytest.mark.parametrize(("command", "complaint"), [
    ("solve mars-figure1 --ways slot", "no way is called 'slot'; is it slots"),
    ("solve mars-figure1 --formulation arcflow", "no formulation is called 'arcflow'; is it arc-flow"),
    ("solve mars-figure1 --solver higs", "no solver is called 'higs'; is it highs"),
    ("solve mars-figure1 --objective mean-latncy", "no objective is called 'mean-latncy'; is it mean-latency"),
    ("costs roofline:model=llama-3-8,device=h100", "no model is called 'llama-3-8'; is it llama-3-8b"),
    ("costs roofline:model=llama-3-8b,device=h10", "no device is called 'h10'; is it h100"),
    ("costs a100", "no cost model is called 'a100'; there are unit"),
    ("bound mars-figure1 --method slot", "no bound is called 'slot'; is it slots"),
    ("bound mars-figure1 --objective beauty", "no objective is called 'beauty'; there are"),
    ("generate infercep --out x.json", "no kind of requests is called 'infercep'; is it infercept"),
    ("generate infercept --n 1 --cost infercept6b --out x.json", "no cost model is called 'infercept6b'; is it"),
    ("check faster-call-vlm", "none that is shipped is called so; is it faster-call-vllm"),
    ("solve mars-figure1 --objective total-tft", "no objective is called 'total-tft'; is it total-ttft"),
    ("simulate mars-figure1 --policy fcsf", "no policy is called 'fcsf'; is it fcfs"),
])  # fmt: skip
def test_every_unknown_name_is_answered_with_near_names(command, complaint):
    said = kvbound(*command.split(), code=2)
    assert complaint in said.stderr
    assert (said.stdout, said.stderr.count("\n")) == ("", 1)


def test_columns_that_are_called_as_the_keys_need_no_map(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plain.csv").write_text("arrival,prompt,decode\n0,10,5\n1,8,3\n")
    assert "2 requests" in kvbound("import", "csv", "plain.csv", "-o", "plain.json").stdout
    Path("other.csv").write_text("time,input,output\n0,10,5\n")
    said = kvbound("import", "csv", "other.csv", "-o", "other.json", code=2).stderr
    assert "no column arrival; the columns needed are arrival, prompt, decode; it has time, input, output" in said


def test_a_table_of_another_layout(tmp_path):
    """A byte order mark, quotes, semicolons, and a clock in milliseconds whose unit was not said at first."""
    file, out = tmp_path / "odd.csv", tmp_path / "odd.json"
    file.write_text('\ufeff"Sent at, ms";"Prompt Tokens";"Out"\r\n1740819600025;10;5\r\n1740819601025;8;3\r\n')
    columns = "arrival=Sent at, ms{},prompt={},decode=Out"
    wrong = kvbound("import", "csv", file, "--map", columns.format("", "Prompt tokens"), "-o", out, code=2).stderr
    assert "no column Prompt tokens; is it Prompt Tokens?; the columns needed are" in wrong
    said = kvbound("import", "csv", file, "--map", columns.format("", "Prompt Tokens"), "-o", out).stderr
    assert "Sent at, ms begins 1.741e+12 s after 1970: if it counts ms or ns, say so (arrival=Sent at, ms:ms)" in said
    said = kvbound("import", "csv", file, "--map", columns.format(":ms", "Prompt Tokens"), "-o", out)
    assert "after 1970" not in said.stderr
    assert [request.arrival for request in kv.read(out).requests] == [0, 40]


@pytest.mark.parametrize("policy", ["--policy", "--policies"])
def test_policy_and_policies_are_one_option(policy, tmp_path):
    for command in ("simulate mars-figure1", "compare mars-figure1 --no-optimum", "load mars-figure1"):
        kvbound(*command.split(), policy, "fcfs")
    searched = ("search", policy, "fcfs", "--n", 1, "--memory", 1, "--prompt", 1, "--decode", 1, "--arrival", 0)
    kvbound(*searched, "-o", tmp_path / "worst.json")
    assert (tmp_path / "worst.json").exists()


def test_near_names_of_objectives_and_records():
    with pytest.raises(BadInput, match=r"no objective is called 'total-flowtime'; is it total-flow-time"):
        check_objective("total-flowtime")
    with pytest.raises(BadInput, match=r"the library has no instance 'mars-figure2'; is it mars-figure1"):
        kv.Library().record("mars-figure2")
    with pytest.raises(BadInput, match=r"no built-in instance is called 'mars-liek'; is it mars-like"):
        kv.builtin_instance("mars-liek")


def test_a_file_of_nearly_that_name_is_named(tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    with pytest.raises(BadInput, match=r"no file '.*mine.jsn', and no instance of that name; is it .*/mine.json\?"):
        kv.load_instance(str(tmp_path / "mine.jsn"))


def test_a_long_cost_is_cut_and_no_more_than_ten_requests_are_listed(tmp_path):
    out, cost = tmp_path / "i.json", "roofline:model=llama-3-8b,device=h100"
    shown = kvbound("generate", "fixed", "--n", 11, "--cost", cost, "--out", out).stdout.splitlines()
    assert "a batch lasts the longest of 4 sums, at least 4.481 ms (show --wide has all)" in shown
    assert sum(line.startswith("fixed-") for line in shown) == 10
    assert ".. and 1 more requests" in shown
    assert "a batch lasts the longest of (4.481 ms busy + 39.13 ns tokens" in kvbound("show", out, "--wide").stdout
    assert max(len(line) for line in kvbound("show", out).stdout.splitlines() if line.startswith("a batch")) <= 80
