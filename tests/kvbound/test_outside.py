"""`import run`, and its schedule in `compare` and `show`."""

import json
from pathlib import Path

import pytest

import kvbound as kv
from kvcore.files import write_text
from tests.support.commands import kvbound

MEASURED = Path(__file__).parents[1] / "data" / "measured"
LOG = """start_s,work
0,r0:8 r1:8
1,r0:1 r1:1
2,r0:1 r1:1
{third},r0:1
4,r1:11
5,r2:8
6,r2:1
7,r2:1
8,r2:1
"""


@pytest.fixture
def run(tmp_path):
    """An instance file and a log, one batch of which starts half a second early."""
    requests = tuple(kv.Request(id=f"r{k}", arrival=0, prompt=8, segments=(kv.Segment(decode=4),)) for k in range(3))
    machine = kv.Machine(memory=20, block=1, batch_tokens=16, evict=True)
    made = kv.Instance(name="three", requests=requests, machine=machine, cost=({"busy": 1},))
    write_text(tmp_path / "three.json", made.to_json())
    write_text(tmp_path / "log.csv", LOG.format(third="2.4"))
    return tmp_path / "three.json", tmp_path / "log.csv"


def test_import_compare_and_show(run, tmp_path):
    instance, log = run
    out = tmp_path / "run.json"
    failed = kvbound("import", "run", log, "--instance", instance, "--out", out, code=1).stdout
    assert "invalid: the time rule R1 is broken in batch 3: it starts at 2, but the batch" in failed
    assert "before it ends at 3; --tolerate" in failed
    assert not out.exists()
    options = ("import", "run", log, "--instance", instance, "--tolerate", "--out", out)
    assert "batches that start before the cost model says" in kvbound(*options).stdout
    row = json.loads(kvbound(*options, "--json", "-").stdout)
    early, late = ({"count": 1, "first_batch": j, "largest": 1} for j in (3, 4))
    assert row["tolerated"] == {"early": early, "late": late}
    assert (row["evictions"], row["evictions_from_restarts"], row["total-flow-time"]) == (1, 1, 18)
    assert row["start_difference_seconds"] == {"largest": 0.6, "last": 0.0}

    options = ("compare", instance, "--schedule", out, "--policies", "vllm", "--no-optimum")
    files = ("--html", tmp_path / "c.html", "--json", tmp_path / "c.json")
    assert kvbound(*options, *files).stdout.splitlines()[2].startswith("run.json ")
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert [(row["label"], row["policy"], row.get("schedule"), row["value"]) for row in rows] == [
        ("run.json", None, "run.json", 18), ("vllm", "vllm", None, 18),
    ]  # fmt: skip
    assert ">run.json" in (tmp_path / "c.html").read_text()

    shown = kvbound("show", instance, "--schedule", out).stdout
    assert "tokens recomputed" in shown
    wasted = json.loads(kvbound("show", instance, "--schedule", out, "--json", "-").stdout)["schedule"]
    assert (wasted["evictions"], wasted["tokens_recomputed"], wasted["idle_seconds"]) == (1, 10, 0)
    assert (wasted["batches_below_budget"], wasted["budget_unused"]) == (8, 1 - 43 / 144)
    assert wasted["request_seconds"] == {"waiting": 6, "decode": 8, "prefill": 3, "recompute": 1}


def test_the_requests_may_come_from_a_table(run, tmp_path):
    """Without an instance file: the same instance, but for its name, and the same exit codes."""
    (tmp_path / "requests.csv").write_text("who,t,in,out\n" + "".join(f"r{k},0,8,4\n" for k in range(3)))
    made, out = tmp_path / "made.json", tmp_path / "run.json"
    said = ("--requests", tmp_path / "requests.csv", "--map", "id=who,arrival=t,prompt=in,decode=out", "--out", out)
    machine = ("--memory", 20, "--batch-tokens", 16, "--tick", 1, "--instance-out", made)
    failed = kvbound("import", "run", run[1], *said, *machine, code=1).stdout
    assert "invalid: the time rule R1 is broken in batch 3" in failed
    row = json.loads(kvbound("import", "run", run[1], *said, *machine, "--tolerate", "--json", "-").stdout)
    assert row["total-flow-time"] == 18
    assert kv.read_instance(made).requests == kv.read_instance(run[0]).requests
    for options in ((), ("--instance", run[0], "--memory", 9)):
        done = kvbound("import", "run", run[1], "--out", out, *options, code=2)
        assert done.stderr.startswith("kvbound: say what it was run on" if not options else "kvbound: --instance says")


def test_of_a_table_the_first_may_be_taken_with_objectives(run, tmp_path):
    (tmp_path / "requests.csv").write_text("who,t,in,out\n" + "".join(f"r{k},0,8,4\n" for k in range(5)))
    said = ("--requests", tmp_path / "requests.csv", "--map", "id=who,arrival=t,prompt=in,decode=out")
    machine = ("--memory", 20, "--batch-tokens", 16, "--tick", 1, "--instance-out", tmp_path / "made.json")
    taken = ("--take", 3, "--slo-latency", 4, "--tolerate", "--out", tmp_path / "run.json")
    kvbound("import", "run", run[1], *said, *machine, *taken)
    made = kv.read(tmp_path / "made.json")
    assert [request.id for request in made.requests] == ["r0", "r1", "r2"]
    assert {request.slo for request in made.requests} == {kv.Slo(latency=4)}
    refused = kvbound("import", "run", run[1], "--instance", run[0], "--take", 3, "--out", tmp_path / "x", code=2)
    assert "--instance says all" in refused.stderr


def test_python_says_the_same(run):
    instance, log = kv.read_instance(run[0]), run[1]
    found = kv.read_run(instance, log, tolerate=True)
    compared = kv.compare(instance, ["vllm"], against=None, schedules={"theirs": found.schedule})
    assert [(row["label"], row["value"]) for row in compared.rows()] == [("theirs", 18), ("vllm", 18)]
    assert kv.wasted(found.trace)["waste_token_seconds"]["recomputation"] == 11


def test_a_schedule_that_breaks_a_rule(run, tmp_path):
    instance, log = run
    kvbound("import", "run", log, "--instance", instance, "--tolerate", "--out", tmp_path / "run.json")
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"r0": 8', '"r0": 9'))
    for command in (("compare", instance, "--no-optimum"), ("show", instance)):
        done = kvbound(*command, "--schedule", tmp_path / "run.json", code=1)
        assert done.stdout.startswith("invalid: the work rule R3 is broken in batch 0, request r0")
        assert done.stderr == ""
    done = kvbound("show", "mars-figure1", "--schedule", tmp_path / "run.json", code=2)
    assert "the schedule is for another instance" in done.stderr


def test_times_of_requests_are_held_against_certified_bounds(tmp_path):
    """A run that is above its bounds, one that is below, and options that mean nothing."""
    file, out = MEASURED / "aisimulate.jsonl", tmp_path / "I.json"
    run = ("import", "run", file, "--out", out, "--memory", 2000)
    done = kvbound(*run)
    assert (
        "mean latency 0.11325 s: 13.2 % above a certified bound: no schedule of the model is below 0.1 s" in done.stdout
    )
    assert "mean TTFT 0.037875 s: 51.5 % above a certified bound" in done.stdout
    assert "128 prompt tokens may come from a cache" in done.stderr
    rows = json.loads(kvbound(*run, "--tick", 1, "--json", "-").stdout)["rows"]
    assert [row["objective"] for row in rows] == ["total-flow-time", "total-ttft"]
    assert rows[0]["certified_bound_seconds"] == 8
    assert rows[0]["above"] < 0
    assert (
        "below the certified bound of the model, 4 s: the run has faster batches" in kvbound(*run, "--tick", 1).stdout
    )
    assert len(kv.read_instance(out).requests) == 2
    refused = kvbound(*run, "--tolerate", code=2).stderr
    assert "has times of requests (aisimulate): give only --take, --time-limit and the machine" in refused
    assert kvbound("import", "run", file, "--out", out, "--preset", "blis", code=2).stderr.startswith("kvbound: ")
