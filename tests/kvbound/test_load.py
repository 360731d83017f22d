"""Load sweeps: the same requests at several rates, as rows, CSV and a picture."""

import csv
import io
import json
import signal
from fractions import Fraction

import pytest

from heuristics import get_policy, trace_policy
from heuristics.load import load_rows, queue_grows, rate, scaled
from kvbound.cli.load import load_sweep
from kvbound.plots import plot_load
from kvcore import Cost, CostFunction, Instance, Request
from kvcore.errors import BadInput
from kvcore.instance import Call, Machine, Segment, Slo
from solvers.dual_bound import best_bound
from tests.support.commands import kvbound
from workloads.builtin import builtin_instance
from workloads.generators import generate


def workload():
    return generate("fixed", n=40, rate=Fraction(2), prompt=3, output=5, seed=1)


def test_a_load_moves_arrivals_and_nothing_else():
    instance = workload()
    twice = scaled(instance, Fraction(2))
    assert [request.arrival for request in twice.requests] == [request.arrival // 2 for request in instance.requests]
    assert [r.replace(arrival=0) for r in twice.requests] == [r.replace(arrival=0) for r in instance.requests]
    assert twice.machine == instance.machine
    assert scaled(instance, Fraction(1)) is instance


def test_the_rate_is_requests_over_the_last_arrival():
    instance = workload()
    last = instance.requests[-1].arrival * instance.tick_seconds
    assert rate(instance) == 40 / last
    assert rate(builtin_instance("mars-figure1")) is None


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(-1), Fraction(1, 10**15)])
def test_a_load_that_makes_no_sense(factor):
    with pytest.raises(BadInput, match=r"above 0|beyond tick"):
        scaled(workload(), factor)


def test_rows_are_the_same_in_one_process_and_in_two():
    factors = [Fraction(1), Fraction(8)]
    one = list(load_rows(workload(), ["fcfs", "serial"], factors))
    assert one == list(load_rows(workload(), ["fcfs", "serial"], factors, jobs=2))
    assert [(row["factor"], row["policy"]) for row in one] == [
        ("1", "fcfs"), ("1", "serial"), ("8", "fcfs"), ("8", "serial"),
    ]  # fmt: skip
    latency = [row["measures"]["latency"]["mean"] for row in one]
    assert latency[1] < latency[3], "one request at a time: the faster they come, the longer they wait"


@pytest.mark.parametrize(("rate_", "stationary"), [(Fraction(1), True), (Fraction(40), False)])
def test_a_queue_that_grows_is_said_to(rate_, stationary):
    """One request at a time, 3 ticks of 1/40 s each: 40 of them arrive every second where 13 are served."""
    instance = generate("fixed", n=80, rate=rate_, prompt=3, output=3, seed=1)
    (row,) = load_rows(instance, ["serial"], [Fraction(1)])
    assert row["stationary"] is stationary


def test_a_queue_of_few_or_of_all_at_once_says_nothing():
    few = generate("fixed", n=49, rate=Fraction(40), prompt=3, output=3, seed=1)
    at_once = generate("fixed", n=60, prompt=3, output=3, seed=1)
    for instance in (few, at_once):
        assert next(iter(load_rows(instance, ["serial"], [Fraction(1)])))["stationary"] is None


def test_requests_in_calls_are_no_queue():
    """They all arrive within the first call: more and more are in calls, and none waits."""
    made = generate("fixed", n=60, rate=Fraction(1, 2), prompt=1, output=2, seed=1)
    call = Call(duration=10**6)
    calling = made.replace(
        requests=tuple(r.replace(segments=(Segment(decode=1, call=call), *r.segments)) for r in made.requests)
    )
    trace = trace_policy(calling, get_policy("fcfs"))
    assert queue_grows(trace) is False


def test_a_policy_that_cannot_run_has_a_row_that_says_so():
    instance = builtin_instance("hindsight").replace(machine=Machine(memory=30, pause=False, chunked=False))
    rows = list(load_rows(instance, ["fcfs", "vllm"], [Fraction(1)]))
    assert "measures" in rows[0]
    assert "needs a machine with evict and pause" in rows[1]["error"]


def test_the_command_writes_a_table_a_csv_and_a_picture(tmp_path):
    (tmp_path / "w.json").write_text(workload().to_json())
    done = kvbound(
        "load", tmp_path / "w.json", "--policies", "fcfs,serial", "--factors", "1,4", "--window", "30",
        "--csv", tmp_path / "l.csv", "--plot", tmp_path / "l.svg", "--json", tmp_path / "l.json",
    )  # fmt: skip
    rows = list(csv.DictReader(io.StringIO((tmp_path / "l.csv").read_text())))
    assert [(row["factor"], row["policy"]) for row in rows] == [
        ("1", "fcfs"), ("1", "serial"), ("4", "fcfs"), ("4", "serial"),
    ]  # fmt: skip
    given = json.loads((tmp_path / "l.json").read_text())["rows"]
    assert [float(row["latency_p99"]) for row in rows] == [row["measures"]["latency"]["p99"] for row in given]
    assert [int(row["unfinished"]) for row in rows] == [row["measures"]["unfinished"] for row in given]
    picture = (tmp_path / "l.svg").read_text()
    assert "arrivals per second" in picture
    assert "serial" in picture
    assert "goodput" in picture
    assert done.stdout.count("serial") == 2


def test_a_lower_bound_stands_beside_the_policies(tmp_path):
    (tmp_path / "w.json").write_text(workload().to_json())
    out, picture = tmp_path / "l.json", tmp_path / "l.svg"
    options = ("--policies", "fcfs", "--factors", "1,4", "--bound", "1", "--plot", picture, "--json", out)
    done = kvbound("load", tmp_path / "w.json", *options)
    given = json.loads(out.read_text())
    for row, bound in zip(given["rows"], given["bounds"], strict=True):
        assert 0 < bound["measures"]["latency"]["mean"] <= row["measures"]["latency"]["mean"]
    bounds = [line for line in done.stdout.splitlines() if "any scheduler" in line]
    assert [line.count("≥") for line in bounds] == [1, 1]
    assert "any scheduler, at best" in picture.read_text()


def test_each_bound_of_a_load_has_all_the_seconds_that_bound_has(monkeypatch, tmp_path):
    made, given = generate("fixed", n=4, prompt=3, output=5, seed=1, slo_ttft=Fraction(1)), []

    def bound(instance, objective, *, time_limit, progress):
        given.append((objective, time_limit))
        return best_bound(instance, objective, time_limit=time_limit, progress=progress)

    monkeypatch.setattr("solvers.dual_bound.best_bound", bound)
    (tmp_path / "w.json").write_text(made.to_json())
    load_sweep(str(tmp_path / "w.json"), "fcfs", "1", bound=3.0, json=str(tmp_path / "l.json"))
    assert given == [("total-flow-time", 3.0), ("late-requests", 3.0)]


def test_a_picture_names_no_policy_that_failed_and_has_room_for_the_most_attainment(tmp_path):
    def row(policy, share):
        spread = {"mean": 2.0, "p50": 2.0, "p99": 3.0}
        times = dict.fromkeys(("latency", "normalized_latency_without_calls", "ttft"), spread)
        return {"factor": "1", "rate": 1.0, "policy": policy, "measures": {**times, "slo_attainment": share}}

    rows = [row("fcfs", 0.5), {"factor": "1", "rate": 1.0, "policy": "vllm", "error": "needs evict"}]
    figure = plot_load(rows, bounds=[row("any scheduler", 1.0)])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fcfs", "any scheduler, at best"]
    assert figure.axes[5].get_ylim()[1] > 1


def test_no_scheduler_meets_more_slos_than_the_bound(tmp_path):
    """Two first tokens of three ticks each by tick 4, on one device: one of the two is late, whoever schedules."""
    requests = tuple(Request(id=f"R{i}", prompt=3, segments=(Segment(decode=1),), slo=Slo(ttft=4)) for i in range(2))
    cost = Cost((CostFunction(tokens=1),))
    (tmp_path / "w.json").write_text(Instance(machine=Machine(memory=9), cost=cost, requests=requests).to_json())
    out, picture = tmp_path / "l.json", tmp_path / "l.svg"
    options = ("--policies", "fcfs", "--factors", "1", "--bound", "1", "--plot", picture, "--json", out)
    kvbound("load", tmp_path / "w.json", *options)
    given = json.loads(out.read_text())
    assert given["bounds"][0]["measures"]["slo_attainment"] == 0.5
    assert given["rows"][0]["measures"]["slo_attainment"] <= 0.5


def test_goodput_is_that_of_the_last_load_that_keeps_the_slos(tmp_path):
    """A prompt takes two seconds, and one comes every 4, less the faster the load: from twice as fast on all queue."""
    requests = tuple(
        Request(id=f"R{i}", arrival=4 * i, prompt=2, segments=(Segment(decode=1),), slo=Slo(ttft=2)) for i in range(8)
    )
    made = Instance(machine=Machine(memory=9), cost=Cost((CostFunction(tokens=1),)), requests=requests)
    (tmp_path / "w.json").write_text(made.to_json())
    out, picture = tmp_path / "l.json", tmp_path / "l.svg"
    limits = ("--factors", "1,3", "--bound", 10**6, "--keep", 90)
    options = ("--policies", "fcfs", *limits, "--plot", picture, "--json", out)
    done = kvbound("load", tmp_path / "w.json", *options)
    given = json.loads(out.read_text())
    fcfs, none = given["goodput"]
    assert [fcfs["policy"], none["policy"]] == ["fcfs", "no scheduler"]
    assert Fraction(fcfs["factor"]) == 2 < Fraction(none["factor"]) <= 3
    assert fcfs["goodput_per_second"] == 8 / 16
    assert none["slo_attainment"] < 0.9 <= fcfs["slo_attainment"]
    assert len(given["rows"]) == len(given["bounds"]) == 7
    assert "the first at which no scheduler has them" in done.stdout
    refused = kvbound("load", "mars-figure1", "--policies", "fcfs", "--keep", "99", code=2)
    assert "no request has an SLO to keep" in refused.stderr


def test_attainment_is_shown_where_there_are_slos(tmp_path):
    made = generate("fixed", n=20, rate=Fraction(2), prompt=3, output=5, seed=1, slo_ttft=Fraction(1))
    (tmp_path / "w.json").write_text(made.to_json())
    done = kvbound("load", tmp_path / "w.json", "--policies", "fcfs", "--factors", "1", "--plot", tmp_path / "l.svg")
    assert "SLO met" in done.stdout
    assert "meet their SLOs" in (tmp_path / "l.svg").read_text()


def test_a_queue_that_grows_has_a_word_and_a_line(tmp_path):
    made = generate("fixed", n=80, rate=Fraction(40), prompt=3, output=3, seed=1)
    (tmp_path / "w.json").write_text(made.to_json())
    said = kvbound("load", tmp_path / "w.json", "--policies", "serial", "--factors", "1").stdout
    assert "grows: the queue grows over the run" in said
    assert max(map(len, (line.rstrip() for line in said.splitlines()))) <= 95


def test_sigterm_keeps_the_rows_that_are_there(monkeypatch, tmp_path):
    def second_is_interrupted(instance, policy, **options):
        if policy.name == "serial":
            signal.raise_signal(signal.SIGTERM)
        return trace_policy(instance, policy, **options)

    monkeypatch.setattr("heuristics.load.trace_policy", second_is_interrupted)
    out = tmp_path / "l.csv"
    kvbound("load", "mars-figure1", "--policies", "fcfs,serial", "--factors", "1", "--csv", out, code=130)
    assert [row["policy"] for row in csv.DictReader(io.StringIO(out.read_text()))] == ["fcfs"]


def test_a_process_that_is_killed_is_one_line(tmp_path):
    lines = [
        "import os, kvbound as kv", "class Mine(kv.Policy):", "    def decide(self, *_):",
        "        os.kill(os.getpid(), 9)",
    ]  # fmt: skip
    (tmp_path / "mine.py").write_text("\n".join(lines))
    given = "--policies", tmp_path / "mine.py", "--factors", "1,2", "--jobs", 2
    said = kvbound("load", "mars-figure1", *given, code=2).stderr
    assert said == "kvbound: one of its processes was killed, perhaps for want of memory: try --jobs 1\n"
