"""The report of `kvbound compare --html`: what it shows, that it is whole and harmless, and that a browser shows it."""

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import pytest

from kvbound.comparison import compare as compare_policies
from kvbound.report import chart, page
from kvbound.report.chart import Bar, bars_of
from kvbound.timeline import Interval, timeline
from kvcore import verify_schedule
from tests.support.browser import Browser, find_browser
from tests.support.build import instance, request
from tests.support.commands import kvbound
from tests.support.contents import IDLE, idling
from tests.support.mars_schedules import PUBLISHED, mars
from tests.support.random_schedules import random_trace
from workloads.builtin import builtin_instance

WORK = ("prefill", "decode", "recompute")
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style></svg>&amp;", "ünï '\"` ${1}")


class Reader(HTMLParser):
    """The elements of a page with their attributes, its text, and the elements that were never closed."""

    VOID = ("meta", "br", "hr", "img", "link", "input")

    def __init__(self, html):
        super().__init__()
        self.elements = []
        self.words = []
        self.open = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag, kind=None):
        return [a for name, a in self.elements if name == tag and (kind is None or a.get("class") == kind)]

    def tips(self):
        return [attributes["data-tip"] or "" for attributes in self.all("rect") if "data-tip" in attributes]


@cache
def compared():
    return compare_policies(mars(), ["fcfs", "mars-order"], "total-flow-time", "as-given", 30)


@cache
def html():
    return compared().report().html()


def hostile():
    made = instance(*(request(id, 2, 3) for id in HOSTILE), memory=12, batch_tokens=4)
    made = made.replace(name="<script>alert('name')</script>")
    return compare_policies(made, ["fcfs"], "total-flow-time", "as-given", 30, against=None)


# --- bars ------------------------------------------------------------------------------------------------------------
def joined(lane):
    """The bars as intervals, those of the same kind that follow each other as one."""
    made = []
    for bar in lane:
        if made and made[-1].kind == bar.kind and made[-1].end == bar.start:
            made[-1] = made[-1]._replace(end=bar.end)
        else:
            made.append(Interval(bar.start, bar.end, bar.kind))
    return made


@pytest.mark.parametrize("cells", [0, 10**6])
def test_bars_are_the_timeline_and_hold_all_the_work(cells, monkeypatch):
    monkeypatch.setattr(chart, "CELLS", cells)
    several = Counter[bool]()
    for trace in map(random_trace, range(40)):
        lanes = bars_of(trace)
        assert {id: joined(lane) for id, lane in lanes.items()} == timeline(trace)
        for done in trace.requests:
            work = [bar for bar in lanes[done.request.id] if bar.kind in WORK]
            assert sum(bar.tokens for bar in work) == sum(step.tokens for step in done.steps)
            assert sum(bar.recomputed for bar in work) == sum(step.recomputed for step in done.steps)
            several.update(bar.batches[0] < bar.batches[1] for bar in work)
    assert several[False] > 0
    assert (several[True] > 0) == (cells == 0)


def test_the_kv_of_a_bar_is_that_of_the_trace():
    seen = Counter[str]()
    for trace in map(random_trace, range(40)):
        boundary = {batch.start: j for j, batch in enumerate(trace.batches)}
        for id, lane in bars_of(trace).items():
            for bar in lane:
                seen[bar.kind] += 1
                if bar.kind not in WORK and bar.start in boundary and not trace_moves(trace, boundary[bar.start]):
                    state = trace.states(boundary[bar.start])[id]
                    assert (bar.device, bar.host) == (state.device, state.host), (id, bar)
    assert {"paused", "call-preserved", "waiting", "decode", "prefill"} <= set(seen)


def trace_moves(trace, j):
    return any(move.batch == j for done in trace.requests for move in done.moves)


def test_the_bars_of_a_published_schedule():
    trace = verify_schedule(mars(), PUBLISHED["SJF"].schedule(mars()))
    assert bars_of(trace)["R3"] == [
        Bar(0, 1, "waiting", 0, 0, 0), Bar(1, 2, "prefill", 1, 0, 1, (1, 1), 1),
        Bar(2, 3, "decode", 2, 0, 2, (2, 2), 1), Bar(3, 4, "call-swapped", 0, 2, 0, call=1),
        Bar(4, 5, "decode", 3, 0, 3, (4, 4), 1),
    ]  # fmt: skip


# --- the page --------------------------------------------------------------------------------------------------------
def test_the_page_has_every_request_schedule_and_proof():
    found = Reader(html())
    assert found.open == []
    words = "\n".join(found.words)
    lanes = Counter((attributes["aria-label"] or "").split(":")[0] for attributes in found.all("g", "lane"))
    assert lanes == {"R1": 4, "R2": 4, "R3": 4}  # two policies and two optima
    for text in ("fcfs", "mars-order", "optimum, as given", "optimum, free", "29 ticks is proved optimal",
                 "max-flow-time", "latency p99", "recomputation", "for schedules of any length",
                 mars().sha256):  # fmt: skip
        assert text in words
    assert found.words.count("memory 6") == 4
    assert len(found.all("svg", "ladder")) == 1


def test_a_bar_says_what_it_is():
    trace = next(run.trace for run in compared().policies if run.row["policy"] == "fcfs")
    prefill = next(bar for bar in bars_of(trace)["R1"] if bar.kind == "prefill")
    tip = next(tip for tip in Reader(html()).tips() if tip.startswith("R1: prefill"))
    assert tip.splitlines() == [
        "R1: prefill", "batch 0: 1 token", f"its KV: {prefill.device} on the device, 0 on the host",
        "device memory: 1 of 6", "0 to 1 ticks",
    ]  # fmt: skip


def test_contents_are_shown():
    made = compare_policies(IDLE, [], against=None, schedules={"kept": idling().schedule}).report().html()
    tips = Reader(made).tips()
    assert "C: decode\nbatch 1: 1 token\nreuses 2 more, which saves 2 ticks\nits KV: 3 on the device" in "\n".join(tips)
    memory = [tip.splitlines()[2:-1] for tip in tips if tip.startswith("memory")]
    assert memory == [["xy: 2 blocks, A"], ["xy: 2 blocks, retained"], ["xy: 2 blocks, C"], ["xy: 2 blocks, D"], []]
    words = Reader(made).words
    after = {word: words[k + 1 :] for k, word in enumerate(words) if word.strip()}
    assert "retained" in words
    assert [word for word in after["blocks forgotten"] if word.strip()][:4] == ["kept", "4", "4", "2"]
    assert [word for word in after["named"] if word.strip()][:5] == ["xy", "–", "2", "3", "A, C, D"]


def test_a_page_has_one_unit():
    made = builtin_instance("infercept-sample:k=3")
    written = "\n".join(Reader(compare_policies(made, ["fcfs", "sjf"], against=None).report().html()).words)
    assert {"value, s", "arrival, s", "times, s", "time (s)", "KV (blocks", "of 64 tokens)"} <= set(written.split("\n"))
    assert re.findall(r".*\bticks?\b.*", written) == [
        line for line in written.split("\n") if line.startswith(("coarsened", "3 requests"))
    ]


def test_the_page_is_whole_and_asks_for_nothing():
    found = Reader(html())
    ids = Counter(attributes["id"] for _, attributes in found.elements if "id" in attributes)
    assert ids
    assert max(ids.values()) == 1
    used = set(re.findall(r"(?:url\(|href=\")#([^\")]+)", html()))
    assert used
    assert used <= set(ids)
    assert re.findall(r"https?://|//[a-z]|@import|\bsrc=", html()) == []
    assert "default-src 'none'" in str(found.all("meta"))


def test_the_page_is_the_same_whenever_it_is_made():
    slower = {kind: replace(optimum, seconds=optimum.seconds + 1) for kind, optimum in compared().optima.items()}
    assert html() == replace(compared(), optima=slower).report().html()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [["mars-figure1", "--no-optimum"], ["hindsight:n=5,M=1000,P=9,seed=1"]])
def test_two_runs_of_the_command_write_the_same_bytes(tmp_path, asked):
    """Where ways race for the optimum, the clock says whose proof it is: the second one is proved before any begins."""
    written = []
    for seed in ("1", "2"):
        out = tmp_path / f"{seed}.html"
        command = [sys.executable, "-m", "kvbound", "compare", *asked, "--policies", "fcfs", "--html", out]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed})
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_names_stay_names():
    found = Reader(hostile().report().html())
    assert found.open == []
    assert len(found.all("script")) == 1
    assert found.all("img") == []
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)
    words = "\n".join(found.words)
    for id in (*HOSTILE, "<script>alert('name')</script>"):
        assert id in words
        assert id in HOSTILE or words.count(id) == 2  # the title and the heading
    assert {tip.split(": ")[0] for tip in found.tips()} >= set(HOSTILE)


def test_many_requests_are_a_summary():
    comparison = compare_policies(
        builtin_instance("hindsight:n=300,M=300,P=10,seed=1"), ["fcfs"], "total-flow-time", "as-given", 1, against=None
    )
    found = Reader(comparison.report().html())
    assert any("up to 200 requests are drawn, and here are 300" in words for words in found.words)
    assert any("the first 200, of 300" in words for words in found.words)
    assert found.all("g", "lane") == []


def test_a_schedule_of_too_many_bars_is_named_but_not_drawn(monkeypatch):
    numbers = [sum(map(len, bars_of(trace).values())) for _, trace in compared().schedules()]
    most = max(numbers) - 1
    monkeypatch.setattr(chart, "MOST_BARS", most)
    found = Reader(compared().report().html())
    assert f"Not drawn: {max(numbers)} bars, and up to {most} are." in found.words
    assert len(found.all("svg", "chart")) == sum(number <= most for number in numbers) > 0


def test_thousands_of_batches_are_drawn_as_their_runs():
    made = instance(*(request(f"R{k}", 5, 3000) for k in range(5)), memory=20_000)
    found = compare_policies(made, ["fcfs"], "total-flow-time", "as-given", 1, against=None).report().html()
    assert len(found) < 200_000
    assert any("batches 1 to 2,999: 2,999 tokens" in tip for tip in Reader(found).tips())


def test_what_a_bar_says_lies_over_the_bar():
    trace = verify_schedule(mars(), PUBLISHED["SJF"].schedule(mars()))
    drawn = chart.chart("one", "SJF", trace, bars_of(trace), page.Frame.of([trace]))
    ticks = sorted({float(mark.attrib["x"]) for mark in drawn.iter("use") if mark.attrib["x"] != "0"})
    assert len(ticks) == 1 + 14
    names = {str(text.text): float(text.attrib["y"]) for text in drawn.iter("text")}
    for id, lane in bars_of(trace).items():
        areas = next(g for g in drawn.iter("g") if str(g.get("aria-label")).startswith(f"{id}:"))
        for area, bar in zip(areas, lane, strict=True):
            x, y, width, height = (float(area.attrib[name]) for name in ("x", "y", "width", "height"))
            assert (x, x + width) == pytest.approx((ticks[bar.start], ticks[bar.end]), abs=0.02), (id, bar)
            assert y + height / 2 == pytest.approx(names[id], abs=4)  # a row is 18 points


def test_the_command_writes_the_page(tmp_path):
    kvbound("compare", "mars-figure1", "--policies", "fcfs", "--no-optimum", "--html", tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert written.startswith('<!doctype html>\n<html lang="en">')
    assert "nothing to measure against was looked for" in written


# --- in a browser ----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium is installed, and KVBOUND_BROWSER names none")
    started = Browser(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def opened(browser, tmp_path):
    (tmp_path / "report.html").write_text(html(), encoding="utf-8")
    browser.open(tmp_path / "report.html")
    return browser


TIP = "document.getElementById('tip')"


@pytest.mark.slow
def test_a_browser_loads_it_from_disk_without_a_complaint(opened):
    assert opened.value("document.querySelectorAll('svg.chart').length") == 4
    assert opened.value("document.querySelector('svg.chart').getBoundingClientRect().height") > 100
    assert [url for url in opened.requests() if not url.startswith("file://")] == []
    assert len(opened.requests()) == 1
    assert opened.complaints() == []


@pytest.mark.slow
def test_a_browser_would_complain(opened):
    opened.value("console.error('on purpose')")
    opened.value("void fetch('http://127.0.0.1:9/').catch(() => {})")
    assert "on purpose" in str(opened.complaints())
    assert "Content Security Policy" in str(opened.complaints())


@pytest.mark.slow
def test_pointing_at_a_bar_shows_what_it_is(opened):
    assert opened.value(f"{TIP}.hidden") is True
    opened.point("rect.call-swapped[data-tip]")
    assert opened.value(f"{TIP}.hidden") is False
    shown = opened.value(f"{TIP}.innerText").splitlines()
    assert shown[0] == "R3: call, KV on host"
    assert shown[1] == "call 1"
    assert opened.value("document.querySelectorAll('.cursor[visibility=visible]').length") == 4
    opened.point("rect.strip")
    assert opened.value(f"{TIP}.innerText").startswith("memory\ndevice 1 of 6 tokens")
    opened.point("h1")
    assert opened.value(f"{TIP}.hidden") is True
    assert opened.complaints() == []


@pytest.mark.slow
def test_the_arrow_keys_go_from_bar_to_bar(opened):
    opened.value("document.querySelector('svg.chart').focus()")
    opened.press("ArrowRight")
    first = opened.value(f"{TIP}.innerText")
    opened.press("ArrowRight")
    assert opened.value(f"{TIP}.innerText") != first
    opened.press("ArrowLeft")
    assert opened.value(f"{TIP}.innerText") == first
    opened.press("Escape")
    assert opened.value(f"{TIP}.hidden") is True


@pytest.mark.slow
def test_it_is_dark_where_the_reader_wants_that(opened):
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    seen = {}
    for scheme in ("light", "dark"):
        opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen[scheme] = opened.value(colours)
    opened.call("Emulation.setEmulatedMedia", features=[])
    assert seen["light"] == ["rgb(255, 255, 255)", "rgb(26, 26, 26)"]
    assert seen["dark"] == ["rgb(22, 25, 29)", "rgb(232, 232, 232)"]


@pytest.mark.slow
def test_it_prints(opened):
    printed = opened.pdf()
    assert printed.startswith(b"%PDF-")
    assert printed.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2
    opened.call("Emulation.setDeviceMetricsOverride", width=718, height=1000, deviceScaleFactor=1, mobile=False)
    opened.call("Emulation.setEmulatedMedia", media="print")
    cut = "[...document.querySelectorAll('.wide')].filter(e => e.scrollWidth > e.clientWidth).length"
    wide = opened.value(cut)
    opened.call("Emulation.setEmulatedMedia", media="")
    assert (wide, opened.value(cut) > 0) == (0, True)  # on the screen of a phone they scroll
    opened.call("Emulation.clearDeviceMetricsOverride")
    assert opened.complaints() == []


@pytest.mark.slow
def test_a_browser_runs_no_name(browser, tmp_path):
    (tmp_path / "hostile.html").write_text(hostile().report().html(), encoding="utf-8")
    browser.open(tmp_path / "hostile.html")
    browser.point("rect.prefill[data-tip]")
    assert browser.value(f"{TIP}.innerText").startswith(f"{HOSTILE[0]}: prefill")
    assert browser.value("document.querySelectorAll('img, #tip *').length") == 0
    assert browser.complaints() == []
