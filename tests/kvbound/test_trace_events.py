"""Trace Event files: their structure as Perfetto reads it, and their totals against the trace."""

import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest

from kvbound import trace_events
from kvbound.trace_events import BATCHES, FIRST, TRANSFERS, write_trace_events
from kvcore import verify_schedule
from tests.support.build import batch, instance, request, schedule
from tests.support.commands import kvbound
from tests.support.contents import idling
from tests.support.mars_schedules import PUBLISHED, mars
from tests.support.random_schedules import random_trace


def events_of(trace):
    return list(trace_events.trace_events("it", trace))


def of(events, category):
    return [event for event in events if event.get("cat") == category]


def arguments_of(events):
    return [event["args"] for event in of(events, "batch")]


@pytest.mark.parametrize("steps", [0, 10**6])
def test_totals_are_those_of_the_trace(steps, monkeypatch):
    monkeypatch.setattr(trace_events, "STEPS", steps)
    longer = Counter[bool]()
    for trace in map(random_trace, range(40)):
        events, tick = events_of(trace), trace.instance.tick_seconds * 10**6
        work = of(events, "work")
        longer.update("last_batch" in event["args"] for event in work)
        for tid, done in enumerate(trace.requests, FIRST):
            mine = [event["args"] for event in work if event["tid"] == tid]
            assert sum(args["tokens"] for args in mine) == sum(step.tokens for step in done.steps)
            assert sum(args["recomputed"] for args in mine) == sum(step.recomputed for step in done.steps)
            ends = [event["ts"] + event["dur"] for event in work if event["tid"] == tid]
            assert max(ends) == pytest.approx(float(done.completion * tick), abs=1e-6)
        calls = [call for done in trace.requests for call in done.calls]
        assert sum(event["dur"] for event in of(events, "call")) == pytest.approx(
            float(sum(call.end - call.start for call in calls) * tick)
        )
        moves = [move for done in trace.requests for move in done.moves]
        assert len(of(events, "transfer")) == sum(move.kind != "drop" for move in moves)
        assert len(of(events, "move")) == sum(move.kind == "drop" for move in moves)
        numbers = [range(args["batch"], args.get("last_batch", args["batch"]) + 1) for args in arguments_of(events)]
        assert [j for some in numbers for j in some] == list(range(len(trace.batches)))
        busy = sum(event["dur"] for event in of(events, "batch"))
        assert busy == pytest.approx(float(sum(batch.duration for batch in trace.batches) * tick))
    assert (longer[True] > 0) == (steps == 0)


def test_events_of_a_thread_nest():
    overlaps = 0
    for trace in map(random_trace, range(40)):
        threads = defaultdict(list)
        for event in events_of(trace):
            if event["ph"] == "X":
                threads[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        for spans in threads.values():
            for (start, end), (later, until) in pairwise(sorted(spans, key=lambda span: (span[0], -span[1]))):
                assert later >= end - 1e-6 or until <= end + 1e-6, (start, end, later, until)
                overlaps += later < end - 1e-6
    assert overlaps > 0  # of transfers


def test_contents_have_moves_counters_and_a_thread_for_each_node():
    events, tick = events_of(idling()), 10**6
    moves = [(event["name"], event["ts"] // tick, event["args"]) for event in of(events, "move")]
    hit = {"tokens": 2, "ticks_saved": 2}
    assert moves == [
        ("reuse", 4, {"request": "C", "batch": 1} | hit), ("reuse", 5, {"request": "D", "batch": 2} | hit),
        ("forget", 6, {"node": "xy", "batch": 3, "blocks": 2}),
    ]  # fmt: skip
    counted = [
        (e["name"], e["ts"] // tick, e["args"]["tokens"]) for e in events if e["ph"] == "C" and "cont" in e["name"]
    ]
    assert counted == [
        ("contents", 0, 2), ("contents", 6, 0), ("contents, retained", 3, 2), ("contents, retained", 4, 0),
    ]  # fmt: skip
    held = [(e["name"], e["ts"] // tick, e["dur"] // tick) for e in of(events, "contents")]
    assert held == [
        ("2 blocks: A", 0, 3), ("2 blocks: retained", 3, 1), ("2 blocks: C", 4, 1), ("2 blocks: D", 5, 1),
    ]  # fmt: skip
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert threads == ["batches", "transfers", "A", "B", "C", "D", "forgets", "contents: xy"]


def test_counters_follow_the_memory():
    trace = verify_schedule(mars(), PUBLISHED["SJF"].schedule(mars()))
    counted = defaultdict(list)
    for event in events_of(trace):
        if event["ph"] == "C":
            counted[event["name"]].append((event["ts"] // 10**6, event["args"]["tokens"]))
    expected, before = [], 0
    for tick, tokens in trace.memory_curve():
        expected += [(tick, tokens)] if tokens != before else []
        before = tokens
    assert counted["device memory"] == expected
    assert counted["device memory"][-1][1] == 0
    assert counted["host memory"] == [(3, 2), (4, 0)]


def test_times_are_microseconds():
    made = instance(request("R1", 1, 2)).replace(tick_seconds=Fraction(1, 1000))
    trace = verify_schedule(made, schedule(made, batch(0, R1=1), batch(1, R1=1)))
    assert [(event["ts"], event["dur"]) for event in of(events_of(trace), "work")] == [(0, 1000), (1000, 1000)]
    third = made.replace(tick_seconds=Fraction(1, 3_000_000))
    trace = verify_schedule(third, schedule(third, batch(0, R1=1), batch(1, R1=1)))
    assert [event["ts"] for event in of(events_of(trace), "work")] == [0, pytest.approx(1 / 3)]


def test_the_file_names_schedules_and_requests(tmp_path):
    made = instance(request('<a>"\\', 1, 2))
    trace = verify_schedule(made, schedule(made, batch(0, **{'<a>"\\': 1}), batch(1, **{'<a>"\\': 1})))
    write_trace_events(str(tmp_path / "t.json"), [("one", trace), ("two", trace)])
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    names = [(e["pid"], e["tid"], e["args"]["name"]) for e in events if e["ph"] == "M"]
    assert names == [
        (pid, *rest)
        for pid, label in ((1, "one"), (2, "two"))
        for rest in ((0, label), (BATCHES, "batches"), (FIRST, '<a>"\\'))
    ]
    for event in events:
        assert event["ph"] in "XCMi"
        assert {"pid", "tid", "name"} <= set(event)
        assert ("dur" in event) == (event["ph"] == "X")
        assert ("ts" in event) == (event["ph"] != "M")


@pytest.mark.parametrize(("arguments", "processes"), [
    (("simulate", "mars-figure1", "--policy", "fcfs,sjf"), ["fcfs", "sjf"]),
    (("compare", "mars-figure1", "--policies", "fcfs", "--no-optimum"), ["fcfs"]),
])  # fmt: skip
def test_commands_write_it(arguments, processes, tmp_path):
    kvbound(*arguments, "--trace", tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == processes
    assert any(event["tid"] == TRANSFERS and event["ph"] == "X" for event in events)
