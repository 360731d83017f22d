"""What `auto` runs and why, and how those that run share what they know."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from unittest import mock

import psutil
import pytest

import solvers
from bounds.tuning import chosen
from kvcore import BadInput, Cost, CostFunction, objective_value, verify_schedule
from kvcore.certificates import verify_certificate
from solvers import pool
from solvers.choice import choose
from solvers.messages import Bound, Done, Found, SolveJob, SolveOptions
from solvers.pool import SolveWorker, race
from solvers.ways import CERTIFYING, WAYS
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
MARS = builtin_instance("mars-figure1")


def ways(name, objective=FLOW):
    choice = choose(builtin_instance(name), objective, "auto", "auto")
    assert [way.label for way in choice.lanes[1]] == ["improve"]
    return [way.label for way in choice.lanes[0]], choice.why


@pytest.mark.parametrize(("name", "objective", "expected"), [
    ("mars-figure1", "total-flow-time", ["slots", "events", "slot-dual", "bound"]),
    ("mars-figure1", "makespan", ["slots", "events", "bound"]),
    ("mars-figure1", "late-requests", ["events", "bound"]),
    ("infermax-figure15", "busy-time", ["events", "bound"]),
    ("hindsight:n=30,M=30", "total-flow-time", ["configurations", "bound"]),
    ("hindsight:n=60,M=50", "total-flow-time", ["configurations", "bound"]),
    ("mars-like:n=20", "weighted-flow-time", ["slots", "slot-dual", "bound"]),
    ("mars-like:n=40", "weighted-flow-time", ["bound"]),
    ("identical:n=40,I=4,O=3,M=100", "busy-time", ["bound"]),
    ("identical:n=40,I=4,O=3,M=100", "total-flow-time", ["bound"]),
])  # fmt: skip
def test_auto_chooses_by_the_instance(name, objective, expected):
    assert ways(name, objective)[0] == expected


def test_says_why():
    assert ways("mars-like:n=40")[1] == (
        "no exact search takes it, but lower bounds scale; beside the ladder of bounds, in turns, "
        "the search among policies runs"
    )
    assert "beside the search over what can run together and the ladder of bounds, in turns" in ways("hindsight")[1]
    result = solvers.solve(MARS)
    assert "what it proves is certified" in result.chosen


def test_a_named_solver_is_taken_at_its_word():
    assert choose(MARS, "makespan", "auto", "highs").lanes[0][0].label == "batch-bigm on highs"
    with pytest.raises(BadInput, match="cp-sat does not solve batch-bigm; highs and gurobi can"):
        choose(MARS, "makespan", "batch-bigm", "cp-sat")


def test_search_means_the_exact_searches():
    choice = choose(MARS, FLOW, "search", "auto")
    assert [[way.label for way in lane] for lane in choice.lanes] == [["slots", "events"]]
    choice = choose(MARS, "late-requests", "search", "auto")
    assert [[way.label for way in lane] for lane in choice.lanes] == [["events"]]
    with pytest.raises(BadInput, match=r"search: slots is not proved with batches of several ticks .*; .* 32 requests"):
        choose(builtin_instance("identical:n=40,I=4,O=3,M=100"), FLOW, "search", "auto")
    with pytest.raises(BadInput, match="highs does not solve search; slots and events can"):
        choose(MARS, FLOW, "search", "highs")


def test_arc_flow_means_prices_and_searches_over_the_same_paths():
    """It was a program on CP-SAT; the name stays."""
    assert [way.label for way in choose(MARS, FLOW, "arc-flow", "auto").lanes[0]] == ["slots", "slot-dual"]
    many = choose(builtin_instance("mars-like:n=40"), FLOW, "arc-flow", "auto")
    assert [[way.label for way in lane] for lane in many.lanes] == [["slot-dual"]]
    with pytest.raises(BadInput, match=r"arc-flow: slots is not proved with late-requests; slot-dual is not proved"):
        choose(MARS, "late-requests", "arc-flow", "auto")
    with pytest.raises(BadInput, match="cp-sat does not solve arc-flow; slots and slot-dual can"):
        choose(MARS, FLOW, "arc-flow", "cp-sat")
    with pytest.raises(BadInput, match="arc-flow is several ways: name slots or slot-dual"):
        choose(MARS, FLOW, "auto", "auto", ["arc-flow"])
    result = solvers.solve(MARS, formulation="arc-flow")
    assert (result.value, result.status, result.formulation) == (29, "optimal", "slots")


def test_ways_that_are_named_run():
    choice = choose(MARS, FLOW, "auto", "auto", ["improve", "bound", "batch-bigm", "cp-sat"])
    assert [[way.label for way in lane] for lane in choice.lanes] == [
        ["bound", "batch-bigm on highs", "cp-sat"], ["improve"]
    ]  # fmt: skip
    assert [len(choose(MARS, FLOW, "auto", "auto", [name]).lanes) for name in ("improve", "slots")] == [1, 1]
    for names, why in (
        (["nothing"], "no way is called 'nothing'; there are auto, bound, alone, shares"),
        (["slots", "configurations"], "configurations"),
    ):
        with pytest.raises(BadInput, match=why):
            choose(MARS, FLOW, "auto", "auto", names)
    with pytest.raises(BadInput, match="not both"):
        choose(MARS, FLOW, "slots", "auto", ["slots"])


def test_each_way_of_the_table_loads_and_says_why_an_instance_is_not_for_it():
    """Batches of two ticks, too many requests for searches, and an objective that is no sum."""
    crowd = builtin_instance("mars-like:n=40").replace(cost=Cost((CostFunction(busy=2),)))
    said = {way: way.declines(crowd, "makespan") for way in WAYS.values()}
    assert {way.formulation for way, why in said.items() if why is None} == {
        "bound", "alone", "shares", "improve", "batch-bigm", "batch-bigm:plain", "cp-sat",
    }  # fmt: skip
    assert all(why is None or (len(why.split()) > 4 and "\n" not in why) for why in said.values())
    assert [callable(way.runner()) and bool(way.proposes) for way in WAYS.values()] == [
        way in CERTIFYING for way in WAYS.values()
    ]
    assert solvers.solve(MARS, formulation="shares", warm_start="serial").formulation == "shares"


LATE = 1e9
"""Seconds after which nothing happens in a test."""


def job(solver="slots", **changes):
    return replace(SolveJob(MARS, FLOW, solver, solver, None, None, None, LATE, 4000, 1, 0), **changes)


def test_a_second_lane_is_not_started_once_the_first_has_proved_it():
    ended = []

    def receive(job, message):
        if isinstance(message, Found):
            ended.append(job.solver)

    def finished():
        return "proved" if ended else None

    ends = race([[job()], [job("improve")]], receive, finished, head_start=LATE / 2)
    assert len(ends) == 1
    assert set(ended) == {"slots"}


def test_a_second_lane_starts_early_if_the_first_has_nothing_left_to_do():
    ends = race([[job()], [job()]], lambda job, message: None, lambda: None, head_start=LATE / 2)
    assert [type(end) for end in ends] == [Done, Done]


class Stepped:
    """Workers that never end by themselves, and a clock; what happens to them is noted."""

    def __init__(self, monkeypatch, ends=()):
        self.now, self.log, self.ends, self.limits, self.used, self.runs = 0.0, [], ends, {}, {}, set()
        monkeypatch.setattr(pool, "_start", self.start)
        monkeypatch.setattr(pool, "_receive", self.receive)
        monkeypatch.setattr(pool, "RESTS", True)

    def start(self, job, inbox, ends, told):
        def note(what):
            def noted():
                self.log.append((self.now, what, job.solver))
                (self.runs.discard if what == "rests" else self.runs.add)(job.solver)

            return noted

        self.limits[job.solver], self.used[job.solver] = job.time_limit, 0.0
        moves = {"rest": note("rests"), "go_on": note("goes on")}
        process = mock.Mock(memory_mib=lambda: 0, seconds=lambda: self.used[job.solver], **moves)
        note("starts")()
        return SolveWorker(job, process, ends, Done("memory limit") if job.solver in self.ends else None)

    def receive(self, inbox, on_message):
        self.now += 0.5
        for each in self.runs:
            self.used[each] += 0.5


def test_ways_of_a_lane_take_turns_and_the_first_has_two_thirds(monkeypatch):
    steps = Stepped(monkeypatch)
    lane = [job(each, time_limit=60.0) for each in ("slots", "events", "bound")]
    with chosen(SolveOptions(first_turn=3.0)):
        ends = race([lane], lambda job, message: None, lambda: None)
    assert ends == [Done("time limit")] * 3
    assert [event for event in steps.log if event[1] != "rests"] == [
        (0.0, "starts", "slots"), (3.0, "starts", "events"), (4.0, "starts", "bound"),
        (5.0, "goes on", "slots"), (11.0, "goes on", "events"), (12.5, "goes on", "bound"),
        (14.0, "goes on", "slots"), (26.0, "goes on", "events"), (29.0, "goes on", "bound"),
        (32.0, "goes on", "slots"), (56.0, "goes on", "events"),
    ]  # fmt: skip
    assert steps.limits == {"slots": 60.0, "events": 57.0, "bound": pytest.approx(56 / 6)}
    assert steps.now <= 61


def test_what_is_left_in_a_lane_goes_on_without_turns(monkeypatch):
    steps = Stepped(monkeypatch, ends=("slots", "events"))
    lane = [job(each, time_limit=60.0) for each in ("slots", "events", "bound")]
    race([lane, [job("improve", time_limit=60.0)]], lambda job, message: None, lambda: None, head_start=1.5)
    assert steps.log == [
        (0.0, "starts", "slots"), (0.5, "starts", "events"), (1.0, "starts", "bound"), (2.5, "starts", "improve")
    ]  # fmt: skip
    assert steps.limits["bound"] == 60.0  # the others took no processor time


def test_a_worker_that_rests_does_not_outlive_its_parent():
    script = (
        "import os, signal\n"
        "from tests.solvers.test_choice import job\n"
        "from solvers.process import Process\n"
        "process = Process('solvers.worker')\n"
        "process.send(job('improve'))\n"
        "process.receive()\n"
        "process.rest()\n"
        "print(process.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(made.stdout)).wait()


def test_a_claim_belongs_to_the_schedule_sent_with_it():
    found = []

    def receive(job, message):
        if isinstance(message, Found):
            found.append(message)

    race([[job("events")]], receive, lambda: None, best_known=lambda: 29)  # news without a schedule
    values = [objective_value(verify_schedule(job().instance, f.schedule), "total-flow-time") for f in found]
    assert values == [f.claimed for f in found] != []


@pytest.mark.parametrize(("solver", "finds"), [("improve", True), ("bound", False)])
def test_policies_improve_and_the_ladder_bounds_in_a_worker(solver, finds):
    sent = []

    def enough():
        return "stopped early" if any(finds or (isinstance(x, Bound) and x.value == 29) for x in sent) else None

    race([[job(solver, time_limit=1e6)]], lambda job, message: sent.append(message), enough)
    found = [objective_value(verify_schedule(MARS, each.schedule), FLOW) for each in sent if isinstance(each, Found)]
    proved = [verify_certificate(MARS, each.certificate) for each in sent if isinstance(each, Bound)]
    assert found if finds else proved  # of the ladder, some methods find schedules, too
    assert not (finds and proved)
    assert found == sorted(found, reverse=True)
    assert max(proved, default=29) == 29 <= min(found, default=29)
