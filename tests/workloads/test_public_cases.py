"""Small inputs after public reports: each becomes the instance that its author means, and what is lost is said."""

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pandas
import pyarrow
import pytest

from kvbound.frames import to_dataframe
from kvbound.named import simulate
from kvcore import BadInput, Machine
from kvcore.cost import Cost
from kvcore.files import read_instance
from kvcore.instance import Call, Segment, Slo
from tests.support.commands import kvbound
from workloads.importers import read_map, read_requests, read_trace

CASES = Path(__file__).parents[1] / "data" / "public_cases"
MAP = "arrival=arrival_s,prompt=prompt,decode=output"
TURNS = "arrival=timestamp,prompt=input_length,decode=output_length"
APPENDED = "arrival=arrival_ms:ms,decode=output_len,session=session,call=tool_wait_ms:ms"
MS = Fraction(1, 1000)


def imported(name, map, path=CASES, tick=MS):
    """Return the instance of a case and its notes."""
    kind = "jsonl" if name.endswith("jsonl") else "csv"
    trace = read_requests(path / name, read_map(map), kind=kind, tick=tick)
    return trace.instance(Machine(memory=None), tick, Cost.unit()), trace.notes


def shapes(instance):
    """Return arrival, prompt, and each segment's decode with its call."""
    segments = {
        request.id: [(part.decode, *((part.call.duration, part.call.returns) if part.call else ())) for part in
                     request.segments]
        for request in instance.requests
    }  # fmt: skip
    return {request.id: (request.arrival, request.prompt, *segments[request.id]) for request in instance.requests}


def written(tmp_path, text, name="trace.csv"):
    (tmp_path / name).write_text(text)
    return name


# --- sessions --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("inputs", ["appends=input_len", "prompt=prefix_len,appends=input_len"])
def test_a_log_of_appended_tokens_keeps_the_context(inputs):
    instance, notes = imported("appended_tokens.csv", f"{APPENDED},{inputs}")
    turns = (2300, (200, 300, 350), (130, 150, 800), (100,))
    assert shapes(instance) == {f"{k}/0": (250 * k, *turns) for k in range(3)}
    assert notes[0] == "9 rows in 3 sessions make 3 requests"


def test_without_it_the_split_is_said():
    instance, notes = imported("appended_tokens.csv", f"{APPENDED},prompt=input_len")
    assert len(instance.requests) == 6
    assert notes[0].startswith("9 rows in 3 sessions make 6 requests: 3 begin where an input is shorter than the one")
    assert "appends=COLUMN" in notes[0]


def test_a_row_names_the_row_before():
    instance, notes = imported("qwen_parents.jsonl", f"{TURNS},id=chat_id,parent=parent_chat_id")
    chat = (0, 520, (130, 14_000, 50), (90, 24_000, 110), (40,))
    assert shapes(instance) == {"1": chat, "3": (15_000, 3000, (12,))}
    assert notes[0] == "4 rows in 2 sessions make 2 requests"


def test_a_parent_taken_for_a_session_is_said():
    instance, notes = imported("qwen_parents.jsonl", f"{TURNS},session=parent_chat_id")
    assert len(instance.requests) == 3
    wanted = "4 rows in 3 sessions make 3 requests: if parent_chat_id names the row before, give parent=parent_chat_id,"
    assert notes[0].startswith(wanted)


def test_of_two_rows_after_one_the_first_goes_on(tmp_path):
    text = "t,id,parent,in,out\n0,a,,10,5\n3,c,a,30,5\n2,b,a,20,5\n4,d,gone,9,1\n5,e,b,50,1\n"
    instance, notes = imported(
        written(tmp_path, text), "arrival=t,id=id,parent=parent,prompt=in,decode=out", tmp_path, Fraction(1)
    )
    assert shapes(instance) == {
        "a": (0, 10, (5, 2, 5), (5, 3, 25), (1,)), "c": (3, 30, (5,)), "d": (4, 9, (1,)),
    }  # fmt: skip
    said = "1 begin where another row follows the same one, 1 begin where the row before is not in the file"
    assert notes[0] == f"5 rows in 3 sessions make 3 requests: {said}"


def test_a_row_without_output_splits_a_session_and_is_said(tmp_path):
    name = written(tmp_path, "t,who,in,out\n0,a,10,5\n1,a,20,\n2,a,30,5\n3,a,40,5\n")
    instance, notes = imported(name, "arrival=t,session=who,prompt=in,decode=out", tmp_path, Fraction(1))
    assert [request.id for request in instance.requests] == ["a/0", "a/2"]
    why = "1 begin where the row before has no output"
    assert notes[:2] == [f"4 rows in 1 sessions make 2 requests: {why}", "1 rows without output are left out"]


@pytest.mark.parametrize(("map", "message"), [
    ("appends=in,decode=out", "--map: appends means nothing without session .or parent."),
    ("arrival=t,prompt=in,decode=out,parent=who", "--map: parent needs id, by which a row names the row before it"),
    ("arrival=t,prompt=in,decode=out,parent=who,id=t,session=who", "session and parent: give the name of"),
    ("arrival=t,prompt=in,decode=out,session=who,appends=t,returns=t", "appends and returns: both say by how much"),
    ("prompt=in,decode=out,weight=t,priority=t", "weight and priority: a priority becomes the weight"),
    ("prompt=in,decode=out,parent=who,id=t", "--map: parent needs arrival or call"),
    ("arrival=t,prompt=in,decode=out,id=t,parent=t,contents=in:16", "contents and parent: hashes of whole prompts"),
])  # fmt: skip
def test_keys_that_mean_nothing_together_are_refused(map, message):
    with pytest.raises(BadInput, match=message):
        read_map(map)


@pytest.mark.parametrize(("text", "message"), [
    ("t,id,up,in,out\n0,a,b,1,1\n1,b,a,1,1\n", "some rows name each other in a circle as the row before"),
    ("t,id,up,in,out\n0,a,,1,1\n1,a,,1,1\n", "line 3: another row has the id a"),
])  # fmt: skip
def test_parents_that_are_no_trees_are_refused(tmp_path, text, message):
    with pytest.raises(BadInput, match=message):
        imported(written(tmp_path, text), "arrival=t,id=id,parent=up,prompt=in,decode=out", tmp_path)


def test_a_session_that_appends_nothing_first_is_refused(tmp_path):
    name = written(tmp_path, "t,who,in,out\n0,a,0,5\n")
    with pytest.raises(BadInput, match="line 2: in must be a whole number above 0, it is '0'"):
        imported(name, "arrival=t,session=who,appends=in,decode=out", tmp_path)


# --- objectives, classes, priorities ---------------------------------------------------------------------------------
def test_objectives_and_classes_of_each_row():
    map = f"{MAP},class=slo_class,slo_ttft=slo_ttft_s"
    instance, notes = imported("slo_classes.csv", map)
    classes = {"critical": 100, "batch": 5000, "standard": 500}
    assert [(request.slo_class, request.slo) for request in instance.requests[:3]] == [
        (name, Slo(ttft=ticks)) for name, ticks in classes.items()
    ]
    assert len(instance.requests) == 24
    assert notes == []


def test_attainment_by_class_in_tables_frames_and_loads(tmp_path):
    out = tmp_path / "classes.json"
    map = f"{MAP},class=slo_class,slo_ttft=slo_ttft_s"
    kvbound(
        "import", "csv", CASES / "slo_classes.csv", "--map", map, "--load", 9, "--cost", "infermax-7b", "--out", out
    )
    run = kvbound(
        "simulate", out, "--policy", "vllm-v1", "--json", tmp_path / "run.json", "--csv", tmp_path / "run.csv"
    )
    (row,) = json.loads((tmp_path / "run.json").read_text())["rows"]
    by_class = row["measures"]["slo_attainment_by_class"]
    assert sorted(by_class) == ["batch", "critical", "standard"]
    assert sum(by_class.values()) / 3 == pytest.approx(row["measures"]["slo_attainment"])  # eight of each
    assert by_class["critical"] < by_class["batch"] == 1
    assert "SLO met, critical" in " ".join(run.stdout.split())
    frame = pandas.read_csv(tmp_path / "run.csv")
    assert frame["slo_attainment_by_class_critical"][0] == pytest.approx(by_class["critical"])
    loads = kvbound("load", out, "--policies", "vllm-v1", "--factors", "1", "--csv", tmp_path / "load.csv", "--wide")
    assert " ".join(f"{100 * share:.1f} %" for share in by_class.values()) in " ".join(loads.stdout.split())
    assert pandas.read_csv(tmp_path / "load.csv")["slo_attainment_by_class_batch"][0] == 1
    requests = to_dataframe(simulate(read_instance(out), "vllm-v1").trace)
    assert requests.groupby("slo_class")["on_time"].mean().to_dict() == pytest.approx(by_class)


def test_a_row_without_objectives_has_those_of_all(tmp_path):
    name = written(tmp_path, "in,out,first,each\n1,1,100,\n1,1,,30\n")
    out = tmp_path / "i.json"
    map = "prompt=in,decode=out,slo_ttft=first:ms,slo_tpot=each:ms"
    kvbound(
        "import", "csv", tmp_path / name, "--map", map, "--slo-ttft", 1, "--slo-latency", 9, "--tick", MS, "--out", out
    )
    assert [request.slo for request in read_instance(out).requests] == [
        Slo(ttft=100, latency=9000), Slo(ttft=1000, latency=9000, tpot=Fraction(30)),
    ]  # fmt: skip


def test_priorities_are_weights_the_smallest_number_first(tmp_path):
    name = written(tmp_path, "in,out,p\n1,1,-5\n1,1,10\n1,1,\n1,1,10\n")
    instance, notes = imported(name, "prompt=in,decode=out,priority=p", tmp_path)
    assert [request.weight for request in instance.requests] == [3, 1, 2, 1]
    assert notes == ["3 priorities are weights now: the smallest number is the largest weight"]


def test_an_assumed_output_limit_is_said(tmp_path):
    assert imported("huge_max_tokens.csv", f"{MAP},max_new=max_tokens")[1] == []
    limits = [request.max_new for request in imported("huge_max_tokens.csv", f"{MAP},max_new=max_tokens")[0].requests]
    assert limits == [30_000, *[512] * 8]
    name = written(tmp_path, "in,out,most\n1,1,\n1,1,9\n1,1,\n")
    assert imported(name, "prompt=in,decode=out,max_new=most", tmp_path)[1] == [
        "2 requests have no max_new: engines assume 4,096"
    ]


# --- the other cases -------------------------------------------------------------------------------------------------
def test_sessions_by_arrival_and_answer():
    map = "arrival=t,prompt=input,decode=output,session=session,latency=answer_s"
    instance, notes = imported("agent_pauses.csv", map)
    assert [request.arrival for request in instance.requests] == [400 * k for k in range(6)]
    assert all(request.prompt == 2500 and request.output == 480 for request in instance.requests)
    assert {call for request in instance.requests for call in request.calls} == {Call(duration=4000, returns=780)}
    assert notes == ["24 rows in 6 sessions make 6 requests"]


def test_plain_rows():
    offline, saturated = imported("offline_40k.csv", "prompt=prompt,decode=output")[0], imported(
        "prefill_saturation.csv", MAP)[0]  # fmt: skip
    assert [request.shape for request in offline.requests] == [offline.requests[0].shape] * 50
    assert (offline.requests[0].prompt, offline.requests[0].segments) == (40_000, (Segment(decode=256),))
    assert [request.arrival for request in saturated.requests] == [0] * 8 + [1000] * 8


# --- forms -----------------------------------------------------------------------------------------------------------
def test_floats_of_pandas_are_whole_numbers():
    instance, notes = imported("pandas_floats.csv", MAP)
    assert [(request.prompt, request.output) for request in instance.requests] == [(10, 5), (20, 3)]
    assert notes == ["1 rows without a prompt are left out"]


class Interchange:
    """A frame that has `__dataframe__` alone."""

    def __init__(self, frame):
        self.__dataframe__ = frame.__dataframe__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", [lambda frame: frame, pyarrow.Table.from_pandas, Interchange])
def test_a_frame_is_read_as_its_csv(form):
    frame = pandas.read_csv(CASES / "slo_classes.csv")
    frame["at"] = pandas.to_datetime("2024-02-29 10:00:00.25") + pandas.to_timedelta(frame["arrival_s"], unit="s")
    for map in (MAP, MAP.replace("arrival_s", "at")):
        made = read_trace(form(frame), f"{map},class=slo_class", machine=Machine(memory=None), tick=MS)
        assert made.requests == imported("slo_classes.csv", f"{MAP},class=slo_class")[0].requests
        assert made.name == "the frame"


def test_a_frame_lacks_a_column_or_a_number():
    frame = pandas.DataFrame({"in": [1.0, None, 2.5], "out": [1, 2, 3]})
    with pytest.raises(BadInput, match="the frame: no column input; the columns needed are input, out; it has in, out"):
        read_trace(frame, "prompt=input,decode=out", machine=Machine(memory=None))
    with pytest.raises(BadInput, match=r"the frame, line 3: in must be a whole number, it is '2\.5'"):
        read_trace(frame, "prompt=in,decode=out", machine=Machine(memory=None))
    assert len(read_trace(frame[:2], "prompt=in,decode=out", machine=Machine(memory=None)).requests) == 1


def test_a_frame_of_arrow_needs_pyarrow(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(Exception, match="such a frame needs pyarrow, which is not installed: pip install pyarrow"):
        read_trace(SimpleNamespace(__arrow_c_stream__=None), "prompt=a,decode=b", machine=Machine(memory=None))


EVENTS = '{"events": [{"at": 1.5}, {"at": 9}], "use": {"in": [7, 8]}, "out": 2}'


@pytest.mark.parametrize("text", [EVENTS, f"[{EVENTS}]", f"\ufeff[\n {EVENTS}\n]\n", f"\n{EVENTS}\n"])
def test_paths_through_lists_and_an_array_of_rows(tmp_path, text):
    name = written(tmp_path, text, "t.jsonl")
    instance, _ = imported(name, "arrival=events[0].at,prompt=use.in[-1],decode=out", tmp_path)
    assert shapes(instance) == {instance.requests[0].id: (0, 8, (2,))}


@pytest.mark.parametrize(("text", "message"), [
    (f"[{EVENTS},\n 3]", "item 2 of its array is no JSON object"),
    (f"[{EVENTS},\n {{]", "line 2: not JSON: "),
    (EVENTS.replace("[7, 8]", "[]"), r"line 1: no key use.in\[-1\]; its keys are .*events\[0\].at"),
])  # fmt: skip
def test_bad_arrays_are_answered_in_one_line(tmp_path, text, message):
    with pytest.raises(BadInput, match=message):
        imported(written(tmp_path, text, "t.jsonl"), "arrival=events[0].at,prompt=use.in[-1],decode=out", tmp_path)


def test_an_instance_may_begin_with_a_byte_order_mark(tmp_path):
    instance, _ = imported("prefill_saturation.csv", MAP)
    (tmp_path / "i.json").write_text("\ufeff" + instance.to_json())
    assert read_instance(tmp_path / "i.json") == instance
