"""`kvbound replay` on a CPU, from the command line to the JSON, and what it refuses."""

import json
import re
from fractions import Fraction
from itertools import count

import pytest

from costmodels.cost_files import write_cost
from gpu_validation.calibration import SIZES
from gpu_validation.engine import Engine
from heuristics import get_policy, trace_policy
from kvcore import Cost
from kvcore.cost_file import CostFile, Observation
from kvcore.instance import Machine
from tests.support.commands import kvbound
from workloads import builtin

SMALL = ("--device", "cpu", "--repeats", 2, "--warm-up", 1)


def replayed(*arguments):
    return json.loads(kvbound("replay", *arguments, *SMALL, "--json", "-").stdout)


def test_policies_and_the_optimum_are_replayed(tmp_path):
    plot = tmp_path / "r.svg"
    found = replayed("mars-figure1", "fcfs", "sjf", "optimum", "--plot", plot)
    assert [row["schedule"] for row in found["rows"]] == ["fcfs", "sjf", "optimum"]
    assert [row["predicted"] for row in found["rows"]] == [35, 31, 29]
    assert all(row["same_tokens"] and row["batches"] >= 12 and row["repeats"] == 2 for row in found["rows"])
    assert (found["device_type"], found["model"], found["backend"], found["dtype"]) == (
        "cpu", "small", "sdpa", "float32",
    )  # fmt: skip
    assert len(found["ranking"]["pairs"]) == 3
    assert [gain["over"] for gain in found["gains"]] == ["optimum"] * 3
    assert found["gains"][0]["predicted"] == pytest.approx(35 / 29)
    # batches take milliseconds where the model says seconds; the calls take their seconds in both
    assert all(0 < row["measured"] < row["predicted"] for row in found["rows"])
    assert plot.read_text().startswith("<?xml")


def test_a_schedule_file_and_another_cost(tmp_path):
    file, cost = tmp_path / "free.json", "infercept-6b"
    kvbound("solve", "mars-figure1", "--handling", "free", "--schedule", file)
    [row] = replayed("mars-figure1", file, "--cost", cost)["rows"]
    assert row["schedule"] == "free"
    # 11 batches of a token, 10.0463 ms each, and one that only moves 5 tokens, 0.04 ms each
    assert row["batch_seconds"]["predicted"] == pytest.approx(11 * 0.0100463 + 0.0002)
    rows = replayed("mars-figure1", file, "fcfs", "--cost", cost)["rows"]
    assert rows[0]["batches"] == row["batches"]


def test_a_cost_that_was_fitted_elsewhere_is_said_first(tmp_path):
    cost = builtin.builtin_instance("mars-figure1").cost
    told = kvbound("replay", "mars-figure1", "fcfs", *SMALL)
    assert told.stderr.startswith("note: the predicted times are of the instance's own cost, and this is ")
    here = json.loads(kvbound("replay", "mars-figure1", "fcfs", *SMALL, "--json", "-").stdout)["device"]
    for device, note in (({"device": "X9"}, "note: the predicted times are of X9, "), ({"device": here}, "")):
        write_cost(CostFile(tick_seconds=Fraction(1, 100), cost=cost, device=device), tmp_path / "c.json")
        err = kvbound("replay", "mars-figure1", "fcfs", "--cost", tmp_path / "c.json", *SMALL).stderr
        assert err.startswith(note)
        assert bool(err) == bool(note)


def test_batches_beyond_what_was_fitted_are_said(tmp_path):
    """mars-figure1 has blocks of one token, and no batch of more than that many tokens."""
    here = json.loads(kvbound("replay", "mars-figure1", "fcfs", *SMALL, "--json", "-").stdout)["device"]
    trace = trace_policy(builtin.builtin_instance("mars-figure1"), get_policy("fcfs"))
    seen = [Observation(b.features, 1.0, "x") for b in trace.batches]
    for kept, block, notes in ((seen, 1, 0), (seen[:1], 1, 1), (seen, 16, 1), (seen[:1], 16, 2)):
        cost, machine = trace.instance.cost, Machine(memory=100, block=block)
        made = CostFile(
            tick_seconds=Fraction(1), cost=cost, device={"device": here}, observations=tuple(kept), machine=machine
        )
        write_cost(made, tmp_path / "c.json")
        said = kvbound("replay", "mars-figure1", "fcfs", "--cost", tmp_path / "c.json", *SMALL).stderr.splitlines()
        assert len(said) == notes
        if len(kept) == 1:
            assert re.search(
                r"^note: fcfs: \d+ of \d+ batches are larger than any that .*c.json was fitted to$", said[0]
            )
        if block == 16:
            assert said[-1].endswith("c.json was fitted in blocks of 16 tokens: calibrate with --block 1")


def test_calibrating_in_turn_replaces_the_prediction(monkeypatch):
    """The cost is of seconds a token, and the batches last milliseconds: now that is predicted, and no note is left."""
    monkeypatch.setitem(SIZES, ("cpu", False), SIZES["cpu", True])
    done = kvbound(
        "replay", "mars-figure1", "fcfs", "sjf", *SMALL, "--model", "tiny", "--calibrate", "--objective", "busy-time",
        "--json", "-",
    )  # fmt: skip
    assert done.stderr == ""
    for row in json.loads(done.stdout)["rows"]:
        assert 0 < row["predicted"] < 1
        assert row["batch_error"]["median"] <= row["batch_error"]["p95"]


@pytest.mark.parametrize(("runs", "whole"), [(5, 2), (1, 0)])
def test_ctrl_c_reports_the_rounds_that_are_whole(runs, whole, monkeypatch):
    run, begun = Engine.run, count()

    def interrupted(self, *arguments, **options):
        if next(begun) == runs:
            raise KeyboardInterrupt
        return run(self, *arguments, **options)

    monkeypatch.setattr(Engine, "run", interrupted)
    asked = ("--device", "cpu", "--model", "tiny", "--warm-up", 0, "--repeats", 9, "--json", "-")
    said = kvbound("replay", "mars-figure1", "fcfs", "sjf", *asked, code=130).stdout
    assert [row["repeats"] for row in json.loads(said)["rows"]] == [2, 2] if whole else said == ""


def test_a_schedule_of_another_instance():
    other, busy = "serial@infermax-figure15:I=4", ("--objective", "busy-time")
    found = replayed("infermax-figure15:I=8", "serial", other, *busy)["rows"]
    alone = replayed("infermax-figure15:I=4", "serial", *busy)["rows"]
    assert found[1]["schedule"] == other
    assert found[1]["predicted"] == alone[0]["predicted"] < found[0]["predicted"]


@pytest.mark.parametrize(("arguments", "code", "line"), [
    (("mars-figure1", "nobody"), 2, "no policy is called 'nobody'"),
    (("mars-figure1", "fcfs", "fcfs"), 2, "the schedule fcfs is given twice"),
    (("mars-figure1", "fcfs", "--objective", "late-requests"), 2, "replay measures times, not late-requests"),
    (("mars-figure1", "fcfs", "--model", "gpt-9"), 2, "no model is called 'gpt-9'"),
    (("mars-figure1", "fcfs", "--model", "opt-13b"), 2, "opt-13b has no gate"),
    (("mars-figure1", "fcfs", "--cost", "guess"), 2, "no cost model is called 'guess'"),
    (("mars-figure1", "fcfs", "--plot", "nowhere/r.svg"), 2, "nowhere"),
])  # fmt: skip
def test_what_cannot_be_replayed_is_said_in_one_line(arguments, code, line):
    said = kvbound("replay", *arguments, "--device", "cpu", code=code).stderr
    [told] = [each for each in said.splitlines() if not each.startswith("note: the predicted times are of ")]
    assert line in told


def test_a_cost_file_is_for_its_model(tmp_path):
    """A plan for another model would be predicted by the wrong times."""
    file = tmp_path / "c.json"
    unit = CostFile(tick_seconds=Fraction(1), cost=Cost.unit(), model="llama-3.2-1b")
    write_cost(unit, file)
    asked = ("mars-figure1", "fcfs", "--cost", file, "--model", "tiny", "--device", "cpu")
    said = kvbound("replay", *asked, code=2).stderr
    assert "was measured with llama-3.2-1b, not with tiny; leave --model out" in said
    write_cost(unit.replace(model="tiny"), file)
    assert replayed("mars-figure1", "fcfs", "--cost", file)["model"] == "tiny"


def test_a_schedule_for_another_instance(tmp_path):
    file = tmp_path / "s.json"
    kvbound("solve", "mars-figure1", "--schedule", file)
    said = kvbound("replay", "infermax-figure15:I=4", file, "--device", "cpu", code=2).stderr
    assert "the schedule is for another instance" in said


def test_an_invalid_schedule_names_the_rule(tmp_path):
    mars = builtin.builtin_instance("mars-figure1")
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"format": "kvbound-schedule", "version": 1, "instance_sha256": mars.sha256,
                                "batches": [{"start": 0, "work": {"R1": 2}}]}))  # fmt: skip
    said = kvbound("replay", "mars-figure1", file, "--device", "cpu", code=1)
    assert "R3 is broken in batch 0" in said.stdout + said.stderr
