"""Intervals against a tick-by-tick reading of the trace; pictures against the objects that they show."""

import hashlib
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from kvbound.plots import compare_schedules, gantt, ladder, memory, plot_log, render, save
from kvbound.plots.gantt import LOOKS
from kvbound.timeline import timeline
from kvcore import BadInput, CostFunction, verify_schedule
from kvcore.metrics import completions, makespan
from tests.support.build import batch, instance, request, schedule
from tests.support.contents import idling
from tests.support.mars_schedules import PUBLISHED, mars
from tests.support.random_schedules import random_trace

ROOT = Path(__file__).parents[2]


@cache
def published(name):
    return verify_schedule(mars(), PUBLISHED[name].schedule(mars()))


def one_request(decode, duration=1, tick_seconds=Fraction(1), **machine):
    """A request alone, every batch of which lasts `duration`."""
    made = instance(request("R1", 1, decode), cost=(CostFunction(busy=duration),), **machine)
    made = made.replace(tick_seconds=tick_seconds)
    return verify_schedule(made, schedule(made, *(batch(j * duration, R1=1) for j in range(decode))))


# --- intervals -------------------------------------------------------------------------------------------------------
def test_the_intervals_of_a_published_schedule():
    assert timeline(published("SJF")) == {
        "R1": [(0, 3, "waiting"), (3, 4, "prefill"), (4, 5, "paused"), (5, 9, "decode"), (9, 11, "call-preserved"),
               (11, 12, "decode")],
        "R2": [(0, 1, "prefill"), (1, 8, "call-discarded"), (8, 12, "waiting"), (12, 13, "recompute"),
               (13, 14, "decode")],
        "R3": [(0, 1, "waiting"), (1, 2, "prefill"), (2, 3, "decode"), (3, 4, "call-swapped"), (4, 5, "decode")],
    }  # fmt: skip


def test_a_call_that_returns_within_a_batch_ends_there():
    made = instance(request("R1", 1, (1, 3, 0, "preserve"), 1), request("R2", 1, 2), cost=(CostFunction(busy=5),))
    trace = verify_schedule(made, schedule(made, batch(0, R1=1, R2=1), batch(5, R2=1), batch(10, R1=1)))
    assert timeline(trace)["R1"] == [
        (0, 5, "prefill"), (5, 8, "call-preserved"), (8, 10, "paused"), (10, 15, "decode"),
    ]  # fmt: skip


def test_kv_is_followed_through_a_call_and_after_it():
    made = instance(request("R1", 3, (1, 5, 0, "free"), 1), request("R2", 1, 8), evict=True, partial=True)
    moves = {1: {"out": {"R1": 1}}, 2: {"out": {"R1": 2}}, 3: {"drop": {"R1": 1}}, 7: {"back": {"R1": 2}}}
    between = [batch(tick, R2=1, **moves.get(tick, {})) for tick in range(1, 9)]
    trace = verify_schedule(made, schedule(made, batch(0, R1=3), *between, batch(9, R1=2)))
    assert timeline(trace)["R1"] == [
        (0, 1, "prefill"), (1, 2, "call-mixed"), (2, 3, "call-swapped"), (3, 6, "call-mixed"), (6, 7, "swapped-out"),
        (7, 8, "transfer"), (8, 9, "paused"), (9, 10, "recompute"),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_intervals_tile_the_life_of_a_request_and_every_tick_is_what_the_trace_says(seed):
    trace = random_trace(seed)
    states = [trace.states(boundary) for boundary in range(len(trace.batches) + 1)]
    for row in trace.requests:
        intervals = timeline(trace)[row.request.id]
        told = [(tick, interval.kind) for interval in intervals for tick in range(interval.start, interval.end)]
        assert told == [
            (tick, kind_at(trace, row, states, tick)) for tick in range(row.request.arrival, row.completion)
        ], row.request.id
        assert all(before.kind != after.kind for before, after in pairwise(intervals))


def kind_at(trace, row, states, tick):
    """What a request does at a tick, from the states at the boundaries of batches."""
    j = max((j for j, batch in enumerate(trace.batches) if batch.start <= tick), default=None)
    if j is None:
        return "waiting"
    running = tick < trace.batches[j].end
    step = next((step for step in row.steps if step.batch == j), None)
    if running and step is not None:
        return "recompute" if step.recomputed else step.phase
    _, device, host, _ = states[j + 1][row.request.id]
    call = next((call for call in row.calls if call.start <= tick < call.end), None)
    if call is not None:
        whole = {(call.held, 0): "call-preserved", (0, call.held): "call-swapped", (0, 0): "call-discarded"}
        return whole.get((device, host), "call-mixed")
    transfers = any(move.batch == j and move.kind != "drop" for move in row.moves)
    called = any(call.start <= trace.batches[j].start < call.end for call in row.calls)
    if running and transfers and not called:
        return "transfer"
    return "paused" if device else "swapped-out" if host else "waiting"


# --- Gantt and memory ------------------------------------------------------------------------------------------------
def bars(ax):
    """The bars drawn: start, end, row, and the kind that has their look."""
    kinds = {(to_rgba(look.fill), look.hatch, look.height): kind for kind, look in LOOKS.items()}
    found = set()
    for patch in (artist for artist in ax.get_children() if isinstance(artist, PathPatch)):
        for corners in patch.get_path().vertices.reshape(-1, 5, 2):
            (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
            kind = kinds[patch.get_facecolor(), patch.get_hatch() or "", round(high - low, 6)]
            found.add((left, right, round((low + high) / 2, 6), kind))
    return found


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_the_gantt_chart_shows_every_interval(seed):
    trace = random_trace(seed)
    expected = {(*interval[:2], y, interval.kind) for y, row in enumerate(timeline(trace).values()) for interval in row}
    assert bars(gantt(trace)) == expected


def test_rows_from_the_top_and_time_from_zero():
    ax = gantt(published("FCFS"))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["R1", "R2", "R3"]
    assert list(ax.get_yticks()) == [0, 1, 2]
    bottom, top = ax.get_ylim()
    assert bottom > 2 > 0 > top
    assert ax.get_xlim()[0] == 0
    assert ax.get_xlim()[1] > makespan(published("FCFS"))
    assert ax.get_xlabel() == "time (ticks)"
    assert [text.get_text() for text in ax.texts] == ["8", "15", "12"]


def test_the_legend_names_the_kinds_used_and_no_other():
    ax = gantt(published("FCFS"))
    used = {interval.kind for row in timeline(published("FCFS")).values() for interval in row}
    assert "transfer" not in used
    assert "call-swapped" in used
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [LOOKS[k].text for k in LOOKS if k in used]


def line(ax, label):
    return next((line for line in ax.get_lines() if line.get_label() == label), None)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_memory_drawn_is_that_of_the_trace(name):
    trace = published(name)
    ax = memory(trace)
    drawn = line(ax, "device memory")
    assert drawn.get_drawstyle() == "steps-post"
    assert np.array_equal(drawn.get_xydata(), trace.memory_curve())
    limit = line(ax, "memory limit")
    assert list(limit.get_ydata()) == [6, 6]
    assert [text.get_text() for text in ax.texts] == ["memory 6"]
    assert ax.get_ylabel() == "KV (tokens)"


def test_host_memory_is_drawn_where_it_is_used():
    ax = memory(published("MARS"))
    host = line(ax, "host memory")
    assert {tuple(point) for point in host.get_xydata()} >= {(2, 2), (3, 0)}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["host memory"]
    ax = memory(one_request(3, memory=6))
    assert line(ax, "host memory") is None
    assert ax.get_legend() is None


def test_contents_are_a_band_and_reuses_and_forgets_are_marked():
    """A's contents stay for C and D while nobody holds them, from 3 to 4, and go at 6."""
    trace = idling()
    ax = memory(trace)
    retained, held = (area.get_paths()[0].vertices for area in ax.collections[1:3])
    assert [{tuple(point) for point in area} >= corners for area, corners in (
        (retained, {(0, 2), (6, 2), (6, 0)}), (held, {(3, 2), (3, 0), (4, 0), (4, 2), (6, 2), (6, 0)})
    )] == [True, True]  # fmt: skip
    assert line(ax, "forget").get_xydata().tolist() == [[6, 0]]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["contents, retained", "contents, held", "forget"]
    rows = gantt(trace)
    assert line(rows, "reuse").get_xydata().tolist() == [[4, 2], [5, 3]]
    assert rows.get_legend().get_texts()[-1].get_text() == "reuse"
    assert not {"reuse", "forget"} & {each.get_label() for each in gantt(published("FCFS")).get_lines()}
    figure = compare_schedules([("one", trace), ("two", trace)])
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named[-4:] == ["reuse", *names]


@pytest.mark.parametrize(("limit", "named"), [({}, []), ({"memory": 10**6}, ["↑ memory 1,000,000"])])
def test_no_limit_is_no_line_and_one_far_above_the_curve_does_not_flatten_it(limit, named):
    ax = memory(one_request(3, **limit))
    assert line(ax, "memory limit") is None
    assert [text.get_text() for text in ax.texts] == named
    assert 3 < ax.get_ylim()[1] < 10


def test_memory_is_drawn_from_zero_where_the_first_batch_starts_later():
    made = instance(request("R1", 1, 1, arrival=4))
    trace = verify_schedule(made, schedule(made, batch(4, R1=1)))
    assert line(memory(trace), "device memory").get_xydata().tolist() == [[0, 0], [4, 1], [5, 0]]


@pytest.mark.parametrize(("tick_seconds", "unit", "end"), [
    (Fraction(1), "ticks", "3,000"), (Fraction(30), "min", "1,500"), (Fraction(1, 10**9), "µs", "3.00"),
    (Fraction(1, 10**7), "µs", "300"), (Fraction(1, 2 * 10**6), "ms", "1.50"), (Fraction(1, 100), "s", "30.0"),
    (Fraction(1, 10**15), "ns", "0.00"),
])  # fmt: skip
def test_the_unit_of_time_follows_the_length_of_the_schedule(tick_seconds, unit, end):
    ax = gantt(one_request(3, 1000, tick_seconds))
    assert ax.get_xlabel() == f"time ({unit})"
    assert [text.get_text() for text in ax.texts] == [end]


def test_charts_go_into_the_axes_that_they_are_given():
    ax = Figure().subplots()
    assert gantt(published("SJF"), ax) is ax
    ax = Figure().subplots()
    assert memory(published("SJF"), ax) is ax


def test_of_many_rows_every_fifth_is_labelled():
    made = instance(*(request(f"R{i}", 1, 1) for i in range(200)))
    trace = verify_schedule(made, schedule(made, batch(0, **{f"R{i}": 1 for i in range(200)})))
    labels = [label.get_text() for label in gantt(trace).get_yticklabels()]
    assert labels == [f"R{i}" for i in range(0, 200, 5)]


# --- side by side ----------------------------------------------------------------------------------------------------
def columns():
    return [
        (f"{name}  mean {sum(completions(published(name)).values()) / 3:.4g}", published(name)) for name in PUBLISHED
    ]


def test_columns_share_their_axes_and_one_legend():
    figure = compare_schedules(columns())
    above, below = figure.axes[:4], figure.axes[4:]
    assert len(below) == 4
    assert len({ax.get_xlim() for ax in figure.axes}) == 1
    assert len({ax.get_ylim() for ax in above}) == len({ax.get_ylim() for ax in below}) == 1
    assert figure.axes[0].get_xlim()[1] > 18
    titles = [ax.get_title(loc="left") for ax in above]
    assert [title.split("\u2003") for title in titles] == [title.split("  ") for title, _ in columns()]
    assert all(line(ax, "memory limit") is not None for ax in below)
    assert [legend for ax in figure.axes if (legend := ax.get_legend())] == []
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [
        "prefill", "decode", "recompute", "ready, KV on device", "ready, no KV", "call, KV on device",
        "call, KV on host", "call, no KV", "host memory",
    ]  # fmt: skip


def test_a_schedule_that_dwarfs_the_others_is_left_out():
    short, long = one_request(3), one_request(90)
    figure = compare_schedules([("one  1", short), ("two", short), ("long\nmean 90", long)])
    assert len(figure.axes) == 4
    assert figure.get_supxlabel() == "Not drawn, more than 2 times the median length: long (90 ticks)"
    assert compare_schedules([("short", short), ("long", long)]).get_supxlabel() == ""


def test_more_columns_than_fit_make_bands():
    figure = compare_schedules(columns() + columns())
    assert len(figure.axes) == 16
    figure = compare_schedules((columns() + columns())[:7])
    assert [ax.get_title(loc="left").partition("\u2003")[0] for ax in figure.axes if ax.get_title(loc="left")] == [
        "FCFS", "SJF", "SJF+API", "MARS", "FCFS", "SJF", "SJF+API",
    ]  # fmt: skip


def test_rows_are_labelled_again_where_they_are_others():
    figure = compare_schedules([("a", published("SJF")), ("b", published("MARS")), ("c", one_request(2))])
    figure.draw_without_rendering()
    shown = [[label.get_text() for label in ax.get_yticklabels() if label.get_visible()] for ax in figure.axes[:3]]
    assert shown == [["R1", "R2", "R3"], [], ["R1"]]


# --- files -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["svg", *(pytest.param(k, marks=pytest.mark.slow) for k in ("png", "pdf"))])
def test_the_same_bytes_each_time(kind, tmp_path):
    first, again = tmp_path / f"first.{kind}", tmp_path / f"again.{kind}"
    compare_schedules(columns(), first)
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": None, "axes.facecolor": "red"}):
        compare_schedules(columns(), str(again))
    assert first.read_bytes() == again.read_bytes()
    assert len(first.read_bytes()) > 1000


def test_the_same_bytes_in_another_process_which_loads_no_pyplot():
    code = (
        "import sys, hashlib, kvbound, kvbound.plots as plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from tests.kvbound.test_plots import columns\n"
        "print(hashlib.sha256(plots.render(plots.compare_schedules(columns()))).hexdigest())\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    env = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == hashlib.sha256(render(compare_schedules(columns()))).hexdigest()


def test_an_svg_holds_its_text_and_no_date():
    text = render(compare_schedules(columns())).decode()
    root = ElementTree.fromstring(text)
    written = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"R1", "R2", "R3", "memory 6", "time (ticks)", "KV (tokens)", "MARS\u2003mean 10"} <= written
    assert "<dc:date>" not in text
    assert "kvbound" in text


def test_drawing_leaves_the_global_settings_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    compare_schedules(columns(), tmp_path / "a.svg")
    gantt(published("SJF"))
    memory(published("SJF"))
    ladder([row("fcfs", 35)])
    assert dict(matplotlib.rcParams) == before


def test_any_id_can_be_written():
    ids = ["$x^", "a<b&c", "x" * 100 + "end"]
    made = instance(*(request(id, 1, 1) for id in ids))
    trace = verify_schedule(made, schedule(made, batch(0, **dict.fromkeys(ids, 1))))
    figure = compare_schedules([("$cost$\n<&>", trace)])
    root = ElementTree.fromstring(render(figure).decode())
    written = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"$x^", "a<b&c", "xxxxxxx…xxxend", "$cost$", "<&>"} <= written


@pytest.mark.parametrize(("name", "what"), [("a.gif", "not as .gif"), ("a", "not as a file without suffix")])
def test_an_unknown_suffix(name, what, tmp_path):
    with pytest.raises(BadInput, match=rf"is saved as .svg, .png or .pdf, {what}"):
        save(gantt(published("SJF")).figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_large_trace_is_small():
    """200 requests, of which two at a time decode in turn: 3,000 batches, 6,000 steps, 12,000 intervals."""
    made = instance(*(request(f"R{i}", 5, 30, arrival=7 * i) for i in range(200)), memory=10_000)
    made = made.replace(tick_seconds=Fraction(1, 10**9))
    batches = [
        batch(5000 + j, **{f"R{k}": 1 if j >= 100 else 5 for k in (2 * (j % 100), 2 * (j % 100) + 1)})
        for j in range(3000)
    ]
    trace = verify_schedule(made, schedule(made, *batches))
    image = render(compare_schedules([("one", trace), ("two", trace)]))
    assert len(image) < 5_000_000
    assert sum(map(len, timeline(trace).values())) > 10_000
    assert b"data:image/png" in image


# --- the log of a solve ----------------------------------------------------------------------------------------------
def test_value_and_bound_are_steps_against_time_that_go_on_to_the_end(tmp_path):
    log = [{"seconds": 0.5, "bound": 20, "by": "alone"}, {"seconds": 1.0, "value": 40, "by": "fcfs"},
           {"seconds": 2.0, "value": 30, "by": "slots"}]  # fmt: skip
    figure = plot_log(row(None, 30, 20, seconds=4.0, log=log), tmp_path / "log.svg")
    value, bound = figure.axes[0].get_lines()
    assert (value.get_label(), value.get_xydata().tolist()) == ("value", [[1, 40], [2, 30], [4, 30]])
    assert (bound.get_label(), bound.get_xydata().tolist()) == ("bound", [[0.5, 20], [4, 20]])
    assert figure.axes[0].get_ylabel() == "total-flow-time (ticks)"
    assert "total-flow-time" in (tmp_path / "log.svg").read_text()
    with pytest.raises(BadInput, match="has no log of values and bounds"):
        plot_log(row("fcfs", 35))


# --- ladder ----------------------------------------------------------------------------------------------------------
def row(policy, value, bound=None, **more):
    return {
        "objective": "total-flow-time", "tick_seconds": "1", "instance_sha256": "as given", "status": "feasible",
        "policy": policy, "formulation": None, "value": value, "bound": bound, "horizon": None,
    } | more  # fmt: skip


def texts(ax):
    return [text.get_text().replace("\u2003", " ") for text in ax.texts]


def test_rungs_are_sorted_and_measured_against_the_optimum():
    optimum = row(None, 30, 30, status="optimal", formulation="arc-flow", certified_bound=30)
    ax = ladder([row("fcfs", 35), row("mars-order", 30), optimum, row("stuck", None, status="unknown")])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["mars-order", "arc-flow", "fcfs", "stuck"]
    assert texts(ax) == ["optimum 30", "30 ×1", "30 ×1", "35 ×1.167", "unknown: no schedule"]
    assert ax.get_xlabel() == "total-flow-time (ticks)"
    dots = [line.get_xydata().tolist() for line in ax.get_lines()]
    assert dots == [[[30, 1]], [[30, 2]], [[35, 3]]]
    bottom, top = ax.get_ylim()
    assert bottom > 4 > 0 > top


LADDERS = {
    "against a lower bound a ratio is at most": (
        [row("fcfs", 35), row(None, None, 28, status="bound-only", formulation="area"), row("sjf", 31, 20)],
        ["lower bound 28", "31 ≤ ×1.107", "35 ≤ ×1.250", "bound 28"]),
    "a bound over too few batches is none": (
        [row("model", 34, 33, horizon={"sufficient": False}), row("fcfs", 35)], ["no bound is proved", "34 ", "35 "]),
    "a bound over enough batches": (
        [row("model", 34, 33, horizon={"sufficient": True}), row("fcfs", 35)],
        ["lower bound 33", "34 ≤ ×1.030", "35 ≤ ×1.061"]),
    "a bound of zero gives no ratio": ([row("fcfs", 3, 0, objective="late-requests")], ["lower bound 0", "3 "]),
}  # fmt: skip


@pytest.mark.parametrize("what", LADDERS)
def test_ratios_of_a_ladder(what):
    rows, expected = LADDERS[what]
    assert texts(ladder(rows)) == expected


def test_rows_on_another_instance_are_a_group_of_their_own():
    free = {"instance_sha256": "free", "group": "free calls"}
    claimed = row("keep", 29, 29, certified_bound=27, proved_by="search", **free)
    ax = ladder([row("fcfs", 35, 30), claimed, row("drop", 33, label="dropping", **free)])
    assert texts(ax) == [
        "lower bound 30", "35 ≤ ×1.167", "free calls: optimum, claimed by search: 29", "29 ×1", "33 ×1.138",
    ]  # fmt: skip
    assert list(ax.get_yticks()) == [1, 4, 5]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["fcfs", "keep", "dropping"]


@pytest.mark.parametrize(("objective", "tick_seconds", "value", "unit", "text"), [
    ("total-flow-time", "1/1000", 12_345, "s", "12.35"),
    ("normalized-latency", "1/1000", "7/2", "ms per token", "3.500"),
    ("late-requests", "1/1000", 7, "requests", "7"),
    ("makespan", "1", 12_345, "ticks", "12,345"),
])  # fmt: skip
def test_values_in_their_units(objective, tick_seconds, value, unit, text):
    ax = ladder([row("fcfs", value, objective=objective, tick_seconds=tick_seconds)])
    assert ax.get_xlabel() == f"{objective} ({unit})"
    assert texts(ax)[1].strip() == text


def test_a_value_that_dwarfs_the_others_is_at_the_edge():
    ax = ladder([row("fcfs", 35, 30), row("sjf", 31), row("srpt", 30), row("serial", 400)])
    assert texts(ax)[-1] == "400 \u00d713.333"
    assert [line.get_marker() for line in ax.get_lines()] == ["o", "o", "o", ">"]
    assert ax.get_lines()[-1].get_xdata()[0] == pytest.approx(1.1 * 35)


def test_what_is_not_drawn():
    with pytest.raises(BadInput, match="no schedule to draw"):
        compare_schedules([])
    with pytest.raises(BadInput, match="share one objective, these have none"):
        ladder([])
    with pytest.raises(BadInput, match="share one objective, these have makespan, total-flow-time"):
        ladder([row("fcfs", 1), row("sjf", 1, objective="makespan")])
    with pytest.raises(BadInput, match="share one tick_seconds, these have 1, 1/1000"):
        ladder([row("fcfs", 1), row("sjf", 1, tick_seconds="1/1000")])
