"""Any trace: columns by a map, sessions with calls, what is selected, and each mistake in one line."""

import gzip
import json
import re
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcore import BadInput, Machine
from kvcore.files import read_instance
from kvcore.instance import Call, Request, Segment, Slo
from tests.support.commands import kvbound, one_line
from workloads.importers import Selection, read_trace
from workloads.importers.selection import iso_seconds

MAP = "arrival=t,prompt=in,decode=out"
PLAIN = "t,in,out\n0,10,1\n2.5,20,2\n1,30,3\n"
TALK = """t,who,in,out,answer,tool
0,a,10,5,2,
10,,7,1,1,
10,a,20,5,1,0.5
12,b,9,9,1,
20,a,40,5,3,
30,a,15,5,3,
40,a,50,0,1,
50,a,60,5,1,
"""
TALKS = MAP + ",session=who"


@pytest.fixture
def file(tmp_path):
    def write(text, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def read(path, map=MAP, tick="1", memory=None, **options):
    rate = options.pop("rate", None)
    return read_trace(
        path, map, machine=Machine(memory=memory), jsonl=path.name.endswith("jsonl"), rate=rate, tick=Fraction(tick),
        drop_too_long=True, selection=Selection(**options),
    )  # fmt: skip


def rows(instance):
    return [(request.id, request.arrival, request.prompt, request.output) for request in instance.requests]


# --- public traces, in their form ------------------------------------------------------------------------------------

FORMS = {
    "Azure": (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:01.017335+00:00,2399,6\n",
        "arrival=TIMESTAMP,prompt=ContextTokens,decode=GeneratedTokens",
        [("r1", 0, 2162, 5), ("r2", 1008, 2399, 6)],
    ),
    "BurstGPT": (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5.0,7,2.5,ChatGPT,472,18,490,Conversation log\n45.0,,1,GPT-4,0,0,0,API log\n"
        "46.0,,1,GPT-4,10,2,12,API log\n",
        "arrival=Timestamp,prompt=Request tokens,decode=Response tokens,session=Session ID,latency=Elapsed time",
        [("7/0", 0, 472, 18), ("r3", 41_000, 10, 2)],
    ),
    "Mooncake": (
        '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n\n'
        '{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 48]}\n',
        "arrival=timestamp:ms,prompt=input_length,decode=output_length",
        [("r1", 0, 6955, 52), ("r2", 3053, 6472, 26)],
    ),
    "ShareGPT": (
        '{"id": "QWJh_0", "usage": {"prompt_tokens": 31, "completion_tokens": 4}}\n'
        '{"id": "QWJh_1", "usage": {"prompt_tokens": 9, "completion_tokens": 7}}\n',
        "prompt=usage.prompt_tokens,decode=usage.completion_tokens,id=id",
        [("QWJh_0", 0, 31, 4), ("QWJh_1", 0, 9, 7)],
    ),
    "vLLM": (
        json.dumps({"duration": 1.5, "input_lens": [512, 8], "output_lens": [128, 3], "start_times": [100.25, 101.5]}),
        "arrival=start_times,prompt=input_lens,decode=output_lens",
        [("r1", 0, 512, 128), ("r2", 1250, 8, 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_public_traces_are_read_as_the_page_says(file, name):
    text, map, expected = FORMS[name]
    path = file(text, "t.jsonl" if text.startswith("{") else "t.csv")
    assert rows(read(path, map, tick="1/1000")) == expected
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    assert f"`{map}`" in page


# --- files -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_are_sorted_and_known_by_their_place(file, encoding, end):
    data = PLAIN.replace("\n", end).encode(encoding)
    expected = [("r1", 0, 10, 1), ("r3", 1, 30, 3), ("r2", 3, 20, 2)]
    assert rows(read(file(data))) == expected
    assert rows(read(file(gzip.compress(data, mtime=0), "t.csv.gz"))) == expected


def test_quoted_fields_may_hold_what_separates(file):
    text = '"t, s",in,"the\nout"\n" 1 ","10",5\n\n,,\n2,"10",6\n'
    assert rows(read(file(text), "arrival=t, s,prompt=in,decode=the\nout")) == [("r1", 0, 10, 5), ("r2", 1, 10, 6)]


def test_standard_input_is_read(tmp_path, monkeypatch):
    (tmp_path / "in").write_text(PLAIN)
    with (tmp_path / "in").open("rb") as stream:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=stream.fileno))
        assert len(read(Path("-")).requests) == 3


@pytest.mark.parametrize(("text", "seconds"), [
    ("2024-02-29", 1709164800), ("2024-02-29 01:00", 1709168400), ("2024-02-29T01:00:00Z", 1709168400),
    ("2024-02-29 01:00:00.123456789", Fraction(1709168400123456789, 10**9)),
    ("2024-02-29 01:00:00+05:30", 1709168400 - 19800), ("2024-02-29T01:00:00-0800", 1709168400 + 28800),
    ("2024-02-29 01:00:00 UTC", 1709168400), ("1709168400", None), ("29.2.2024", None), ("2024-02-29 1", None),
])  # fmt: skip
def test_times_of_day_are_exact(text, seconds):
    assert iso_seconds(text) == seconds


@pytest.mark.parametrize(
    ("unit", "tick", "arrival"), [("s", "1/10", 25), ("ms", "1/1000", 3), ("us", "1/10000000", 25), ("ns", "1", 1)]
)
def test_units_are_exact_and_rounded_up(file, unit, tick, arrival):
    assert read(file(PLAIN), f"arrival=t:{unit},prompt=in,decode=out", tick).requests[-1].arrival == arrival


# --- sessions --------------------------------------------------------------------------------------------------------
def test_rows_of_a_session_are_one_request_until_the_input_shrinks(file):
    read_ = read(file(TALK), TALKS + ",latency=answer,call=tool")
    first, alone, other, shrunk, last = read_.requests
    assert first.segments == (
        Segment(decode=5, call=Call(duration=8, returns=5)),  # 10 s, of which the answer took 2; 20 - (10 + 5)
        Segment(decode=5, call=Call(duration=1, returns=15)),  # 0.5 s, as the column says; 40 - 25
        Segment(decode=5),
    )
    assert [request.id for request in (first, alone, other, shrunk, last)] == ["a/0", "r2", "b/0", "a/3", "a/5"]
    assert [request.arrival for request in read_.requests] == [0, 10, 12, 30, 50]


def test_without_an_answer_time_the_gap_is_the_call_and_it_is_said(file, tmp_path):
    path = file(TALK)
    assert [call.duration for call in read(path, TALKS).requests[0].calls] == [10, 10]
    done = kvbound("import", "csv", path, "--map", TALKS, "--memory", 9999, "--out", tmp_path / "i.json")
    assert done.stderr.count("\n") == 1
    assert (
        "1 rows without output are left out; 2 calls last from arrival to arrival, the answer included" in done.stderr
    )
    assert kvbound("import", "csv", path, "--map", TALKS + ",latency=answer", "--out", "-").stderr.count("calls") == 0


def test_what_calls_return_may_be_said(file):
    """Then the prompt of later rows is not looked at, a session is never cut, and the last call is dropped."""
    text = "who,in,out,back,tool\na,10,5,3,1\na,,1,,\nb,1,1,9,1\n"
    first, last = read(file(text), "prompt=in,decode=out,session=who,returns=back,call=tool:ms").requests
    segments = (Segment(decode=5, call=Call(duration=1, returns=3)), Segment(decode=1))
    assert first == Request(id="a", prompt=10, segments=segments)
    assert (last.id, last.calls) == ("b", ())


# --- what is selected ------------------------------------------------------------------------------------------------

MANY = "t,in,out\n" + "".join(f"{1000 + k},{k + 1},1\n" for k in range(10))


@pytest.mark.parametrize(("options", "kept"), [
    ({"since": "3", "until": "6"}, [3, 4, 5]),
    ({"since": "1970-01-01 00:16:43", "until": "1970-01-01T00:16:46Z"}, [3, 4, 5]), ({"skip": 8}, [8, 9]),
    ({"since": "2", "skip": 2, "take": 3}, [4, 5, 6]), ({"sample": 10, "seed": 5}, list(range(10))),
])  # fmt: skip
def test_a_window_then_skip_then_take(file, options, kept):
    chosen = read(file(MANY), **options)
    assert rows(chosen) == [(f"r{k + 1}", k - kept[0], k + 1, 1) for k in kept]
    words = [f"{'from' if name == 'since' else name}={value}" for name, value in options.items()]
    assert chosen.name == ",".join(["csv:trace.csv", *words])


def test_a_sample_is_drawn_and_repeats(file):
    path = file(MANY)
    drawn = {seed: rows(read(path, sample=3, seed=seed)) for seed in range(8)}
    assert drawn[3] == rows(read(path, sample=3, seed=3))
    assert len({tuple(each) for each in drawn.values()}) > 4
    assert all(each == sorted(each, key=lambda row: row[1]) and len(each) == 3 for each in drawn.values())


def test_load_moves_arrivals_and_not_calls(file):
    double = read(file(TALK), TALKS, load=Fraction(4))
    assert [request.arrival for request in double.requests] == [0, 3, 3, 8, 13]
    assert [call.duration for call in double.requests[0].calls] == [10, 10]


def test_a_trace_without_times_may_come_at_a_rate(file):
    path = file(MANY)
    assert {request.arrival for request in read(path, "prompt=in,decode=out").requests} == {0}
    slow, fast = (read(path, "prompt=in,decode=out", "1/1000", rate=Fraction(1), load=Fraction(k)) for k in (1, 10))
    assert [round(request.arrival / 10) for request in slow.requests] == pytest.approx(
        [request.arrival for request in fast.requests], abs=1
    )


def test_what_is_too_long_is_left_out_before_it_is_counted(file):
    small = read(file(MANY), memory=5, take=5)
    assert [request.prompt for request in small.requests] == [1, 2, 3, 4, 5]
    assert small.name == "csv:trace.csv,take=5, 5 too long left out"


AGENTS = "trace_id,agent,seq,t_s,input_tokens,output_tokens,api_time_s,think_time_s\nx,main,0,0,1,1,,\n"
MIXTURE = (
    "request_key,augmentation,segment,initial_prompt_tokens,decode_tokens,api_time_s,api_return_tokens\nk,qa,0,1,1,,\n"
)


@pytest.mark.parametrize("source", ["csv", "azure", "agent-traces", "infercept"])
def test_every_import_takes_objectives(file, tmp_path, source):
    text = {"csv": PLAIN, "azure": FORMS["Azure"][0], "agent-traces": AGENTS, "infercept": MIXTURE}[source]
    options = ["--slo-latency", 9.99, "--slo-ttft", 1, "--slo-tpot", "0.03", "--memory", 9999]
    options += ["--map", MAP] * (source == "csv")
    kvbound("import", source, file(text), *options, "--out", out := tmp_path / "i.json")
    for request in read_instance(out).requests:
        assert request.slo == Slo(latency=399, ttft=40, tpot=Fraction(6, 5))
    assert "goodput_per_second" in kvbound("simulate", out, "--policy", "fcfs", "--json", "-").stdout


# --- what is lost ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "shown"), [
    (FORMS["Mooncake"][0], "hash_ids"),
    ('{"timestamp":1,"input_length":1,"output_length":1,"usage":{"cached_tokens":4}}', "usage.cached_tokens"),
    ("timestamp,input_length,output_length,common_prefix_prev_tokens,x\n1,1,1,1,1\n", "common_prefix_prev_tokens"),
])  # fmt: skip
def test_columns_that_show_shared_prefixes_bring_one_warning(file, tmp_path, text, shown):
    kind = "jsonl" if text.startswith("{") else "csv"
    done = kvbound(
        "import", kind, file(text), "--map", FORMS["Mooncake"][1], "--memory", 9999,
        "--out", tmp_path / "i.json", "--json", "-",
    )  # fmt: skip
    assert f"{shown} not used: prefixes that requests share are computed for each" in done.stderr
    assert done.stderr.count("not used") == 1
    assert json.loads(done.stdout)["sizes"]["requests"] > 0


def test_the_output_limit_is_that_of_the_row_or_the_largest_of_a_session(file):
    text = "who,t,in,out,most\n,0,5,4,8\n,1,5,4,\nann,2,5,4,9\nann,9,20,3,16\nbob,3,5,4,9\nbob,9,20,3,\n,4,5,0,2\n"
    read_in = read(file(text), MAP + ",session=who,max_new=most")
    assert {r.id: r.max_new for r in read_in.requests} == {"r1": 8, "r2": None, "ann/0": 16, "bob/0": None}
    with pytest.raises(BadInput, match="line 3: most must be no less than the 4 tokens generated, it is '3'"):
        read(file(text.replace("4,\nann", "4,3\nann")), MAP + ",max_new=most")
    with pytest.raises(BadInput, match="line 2: most must be at least 1, it is '0'"):
        read(file(text.replace("4,8", "0,0")), MAP + ",max_new=most")
    jsonl = file(
        '{"t": 0, "in": 5, "out": 4, "max_tokens": 7}\n{"t": 0, "in": 5, "out": 4, "max_tokens": null}\n', "t.jsonl"
    )
    assert [r.max_new for r in read(jsonl, MAP + ",max_new=max_tokens").requests] == [7, None]
    shown = kvbound("import", "jsonl", jsonl, "--map", MAP + ",max_new=max_tokens", "--out", jsonl.parent / "i.json")
    assert [line.split()[-1] for line in shown.stdout.splitlines()[-4:-1]] == ["max_new", "7", "-"]


# --- mistakes --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("map", "message"), [
    ("prompt=in", "--map: decode is missing; write decode=COLUMN"),
    ("prompt=in,decode=out,colour=x", "no key of --map is called 'colour'; there are arrival, prompt"),
    ("prompt=in,decode=out,id=", "--map: 'id=': write id=COLUMN"),
    ("prompt=in,decode=out,prompt=t", "--map: prompt stands twice"),
    ("prompt=in:ms,decode=out",
     "--map: 'prompt=in:ms': only arrival, call, latency, slo_latency, slo_ttft, slo_tpot have a unit"),
    ("prompt=in,decode=out,call=t", "--map: call means nothing without session"),
    ("prompt=in,decode=out,session=t", "--map: session needs arrival or call"),
    ("prompt=input,decode=out", "line 1: no column input; the columns needed are input, out"),
    ("arrival=t:min,prompt=in,decode=out", "line 1: no column t:min; a unit is s, ms, us or ns; the columns needed"),
])  # fmt: skip
def test_a_bad_map_is_answered_in_one_line(file, tmp_path, map, message):
    assert message in one_line("import", "csv", file(PLAIN), "--map", map, "--out", tmp_path / "i.json")


@pytest.mark.parametrize(("text", "message"), [
    (PLAIN.replace("t,in,out\n", ""), "line 1: it must name the columns, and holds numbers; the columns"),
    (PLAIN.replace("20,2", "many,2"), "line 3: in must be a whole number, it is 'many'"),
    (PLAIN.replace("2.5", "soon"), "line 3: t must be a time such as 2023-11-16 .*, or seconds, it is 'soon'"),
    (PLAIN.replace("2.5", "2024-02-28"), "line 3: t must be a number, as before, it is '2024-02-28'"),
    (PLAIN.replace("\n0,", "\n2024-02-28,"), "line 3: t must be a time of day, as before, it is '2.5'"),
    (PLAIN.replace("2.5", ""), "line 3: t must be a time such as .*, or seconds, it is empty"),
    (PLAIN.replace("\n0,", "\n2024-02-30 10:00,"), "line 2: t must be a date and a time of day"),
    (PLAIN.replace("2.5", "-5"), "line 3: t must be at least 0, it is '-5'"),
    (PLAIN.replace("20,2", "1" * 21 + ",2"), "line 3: in must be a whole number of at most 15 digits"),
    (PLAIN.replace(",1\n", ",0\n").replace(",2\n", ",\n").replace(",3\n", ",0\n"), "no request is left: none with"),
    (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "cannot be read: Compressed file ended before"),
    (gzip.compress(PLAIN.encode(), mtime=0)[:12] + b"xxxxxxxxxxxxxxxxxxx", "cannot be read: "),
])  # fmt: skip
def test_a_bad_cell_is_answered_in_one_line(file, text, message):
    with pytest.raises(BadInput, match=message) as refused:
        read(file(text))
    assert "\n" not in str(refused.value)


def test_a_trace_is_no_instance(file):
    said = kvbound("simulate", file(PLAIN), "--policy", "fcfs", code=2).stderr
    assert "trace.csv is no instance; `kvbound import` makes one of a trace" in said


GOOD = '{"t": 0, "in": 5, "out": 1}\n'


@pytest.mark.parametrize(("text", "map", "message"), [
    ("", MAP, "it is empty; each line must hold an object with t, in, out"),
    ('{"t": 0, "out": {"in": 5}}', MAP, "line 1: no key in; its keys are t, out, out.in"),
    (GOOD + "{t: 1}", MAP, "line 2: not JSON: Expecting property name"),
    (GOOD + "[1, 2]", MAP, "line 2: each line must hold one JSON object"),
    (GOOD + '{"t": 1, "in": 1.5, "out": 1}', MAP, "line 2: in must be a whole number, it is '1.5'"),
    (GOOD + '{"t": 1, "in": true, "out": 1}', MAP, "line 2: in must be a whole number, it is 'true'"),
    (GOOD + '{"t": NaN, "in": 1, "out": 1}', MAP, "line 2: t must be a time such as .*, it is 'NaN'"),
    (GOOD + '{"t": [1, 2], "in": [1], "out": [1]}', MAP, "line 2: its lists must be of one length, .*'t': 2,"),
    (GOOD, MAP + ",id=name", "line 1: no key name; its keys are t, in, out"),
    (GOOD, MAP + ",session=who", "no line has the key who"),
    (GOOD, MAP.replace("=t", "=t:min"), "line 1: no key t:min; a unit is s, ms, us or ns; its keys are t, in, out"),
    (GOOD + "[" * 100_000, MAP, "line 2: not JSON: "),
    (GOOD * 2, MAP + ",id=t", "line 2: another request has the id 0"),
])  # fmt: skip
def test_a_bad_line_of_json_is_answered_in_one_line(file, text, map, message):
    with pytest.raises(BadInput, match=message) as refused:
        read(file(text, "t.jsonl"), map)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("options", "map", "message"), [
    (["--from", 9], MAP, "no request is left after .*: the trace has 3, and the last arrives 2.5 s"),
    (["--tick", "1e-15"], MAP, "line 3: t must be within 10+ ticks of 1/10+ s after the first .--until"),
    (["--skip", 3], MAP, "no request is left after --from, --until and --skip"),
    (["--skip", 1, "--take", 3], MAP, "--take is from 1 to 2, the number of requests that are left, not 3"),
    (["--from", "noon"], MAP, "--from noon: write seconds, such as 90, or a time such as 2023-11-16 18:20"),
    (["--until", "2024-13-01"], MAP, "--until 2024-13-01: month must be in 1..12"),
    (["--load", 0], MAP, "--load 0: write a number above 0"),
    (["--slo-ttft", "soon"], MAP, "--slo-ttft soon: write a number above 0"),
    (["--slo-ttft", "200ms"], MAP, "--slo-ttft 200ms: write a number without a unit; in seconds it is 0.2"),
    (["--slo-tpot", "1e-20"], MAP, "the objectives in ticks of 1/40 s: tpot: its numerator and denominator"),
    (["--rate", 1], MAP, "--rate is for a trace without arrivals"),
    (["--from", 1], "prompt=in,decode=out", "--from and --until mean nothing for a trace without a column"),
    (["--load", 2], "prompt=in,decode=out", "--load means nothing where all requests arrive at once"),
    (["--memory", 5, "--drop-too-long"], MAP, "no request is left: none with output fits a memory of 5 tokens"),
    (["--round", "up"], MAP, "--round is restrict, not 'up': for bounds use the fine instance"),
])  # fmt: skip
def test_bad_options_are_answered_in_one_line(file, tmp_path, options, map, message):
    said = one_line("import", "csv", file(PLAIN), "--map", map, *options, "--out", tmp_path / "i.json")
    assert re.search(message, said)
    assert not (tmp_path / "i.json").exists()


def test_a_file_that_is_written_in_pieces_is_the_same(file, tmp_path):
    """With --json all requests are held at once, without it a thousand at a time."""
    path = file("t,in,out\n" + "".join(f"{k},{k % 7 + 1},{k % 3 + 1}\n" for k in range(2500)))
    for out, more in (("a.json", []), ("b.json", ["--json", tmp_path / "facts.json"])):
        kvbound("import", "csv", path, "--map", MAP, "--slo-ttft", 1, "--out", tmp_path / out, *more)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
