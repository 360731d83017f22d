"""Reading the public traces: every field, every mistake in a file, and the real data where it is at hand."""

import random
import re
from collections import Counter
from fractions import Fraction

import pytest

from costmodels import GPT_J_6B, INFERMAX_7B, infercept_6b, infermax_7b
from kvcore import BadInput, Call, Machine, Segment
from kvcore.csv_table import LONGEST
from kvcore.files import read_instance
from tests.support.commands import kvbound, one_line
from tests.support.data import MIXTURE, real
from workloads.coarsen import coarsen
from workloads.importers import infercept_slice, read_agent_traces, read_azure, read_infercept

CONVERSATION = "azure2023/AzureLLMInferenceTrace_conv.csv"
CODE = "azure2023/AzureLLMInferenceTrace_code.csv"
AGENTS = "agent_traces/agent_requests.csv"

HEADER = (
    "request_key,augmentation,segment,initial_prompt_tokens,decode_tokens,api_time_s,api_return_tokens,token_source\n"
)
TWO = (
    HEADER
    + """aaaaaaaa1,chat,0,12,5,0.05,3,given
aaaaaaaa1,chat,1,,7,0.0500001,-2,given
bbbbbbbb1,math,1,,2,,,given
aaaaaaaa1,chat,2,,4,1e-05,9,given
bbbbbbbb1,math,0,40,1,0,0,text_bpe
"""
)
ARRIVALS = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 23:59:59.9799600,374,44
2023-11-17 00:00:00.0049600,1,1
2023-11-17 00:00:00.0049601,8,2
"""
SESSIONS = """trace_id,agent,seq,t_s,input_tokens,output_tokens,api_time_s,think_time_s
t1,main,0,5.0,100,10,2.5,0.0
t1,main,1,9.0,150,20,3.0,1.5
t1,main/sub1,0,6.0,50,5,,0.0
t1,main,2,15.0,160,30,1.0,2.0
t1,main,3,20.0,400,40,,
t1,main,4,26.0,500,1,1,
t1,main,5,30.0,80,9,1,3
t1,main,6,40.0,90,,1,3
t1,main,7,50.0,95,7,1,3
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "trace.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


# --- InferCept -------------------------------------------------------------------------------------------------------
def test_every_field_of_infercept_is_read(file):
    """Rows need not be together nor in order; the trailing call of the first request is dropped, -2 is nothing."""
    read = read_infercept(file(TWO))
    chat, math = read.requests
    assert (chat.id, chat.prompt, chat.arrival) == ("chat-aaaaaaaa", 12, 0)
    assert chat.segments == (
        Segment(decode=5, call=Call(duration=2, returns=3, handling="free")),
        Segment(decode=7, call=Call(duration=3, returns=0, handling="free")),
        Segment(decode=4),
    )
    assert (math.id, math.prompt) == ("math-bbbbbbbb", 40)
    assert math.segments == (Segment(decode=1, call=Call(duration=0, returns=0, handling="free")), Segment(decode=2))
    assert read.tick_seconds == Fraction(1, 40)
    assert read.cost.always_one_tick


def test_the_default_machine_holds_one_and_a_half_contexts(file):
    read = read_infercept(file(TWO))
    assert [request.peak for request in read.requests] == [30, 42]
    assert read.machine == Machine(memory=63, host_memory=21, batch_tokens=64, evict=True)
    other = Machine(memory=50, block=10)
    assert read_infercept(file(TWO), machine=other).machine == other


@pytest.mark.parametrize(
    ("tick", "durations"), [("1/40", [2, 3]), ("1/100", [5, 6]), ("2", [1, 1]), ("1/10000000", [500000, 500001])]
)
def test_call_times_are_exact_and_rounded_up(file, tick, durations):
    read = read_infercept(file(TWO), tick=Fraction(tick))
    assert [call.duration for call in read.requests[0].calls] == durations


def test_a_sample_is_drawn_without_replacement_and_repeats(file):
    path = file(TWO)
    assert [r.id for r in read_infercept(path, take=2, seed=1).requests] == ["chat-aaaaaaaa", "math-bbbbbbbb"]
    drawn = {tuple(r.id for r in read_infercept(path, take=1, seed=seed).requests) for seed in range(20)}
    assert drawn == {("chat-aaaaaaaa",), ("math-bbbbbbbb",)}
    assert read_infercept(path, take=2, seed=7) == read_infercept(path, take=2, seed=7)


def test_one_augmentation_is_kept(file):
    assert [r.id for r in read_infercept(file(TWO), augmentation="math").requests] == ["math-bbbbbbbb"]
    with pytest.raises(BadInput, match="no request has the augmentation 'qa'; there are chat, math"):
        read_infercept(file(TWO), augmentation="qa")


def test_arrivals_are_a_poisson_process_in_the_order_drawn(file):
    rows = "".join(f"key{i:09d},chat,0,5,3,,,given\n" for i in range(400))
    read = read_infercept(file(HEADER + rows), rate=Fraction(2), seed=3, take=400)
    arrivals = [request.arrival for request in read.requests]
    assert arrivals == sorted(arrivals)
    assert 150 * 40 < arrivals[-1] < 250 * 40  # 400 requests at 2 per second
    assert [request.id for request in read.requests] != sorted(request.id for request in read.requests)
    draw = random.Random(3)
    draw.sample(range(400), 400)
    assert arrivals[0] == -(-Fraction(draw.expovariate(2.0)) * 40 // 1)


def test_equal_beginnings_of_keys_keep_the_whole_keys_as_ids(file):
    read = read_infercept(file(TWO.replace("bbbbbbbb1,math", "aaaaaaaa2,chat")))
    assert [request.id for request in read.requests] == ["chat-aaaaaaaa1", "chat-aaaaaaaa2"]


def replaced(old, new):
    assert TWO.count(old) == 1
    return TWO.replace(old, new)


@pytest.mark.parametrize(("text", "message"), [
    ("", "it is empty; the first line must name the columns request_key, augmentation"),
    (HEADER, "it has no rows below its header"),
    (TWO.replace("decode_tokens", "decoded"), r"line 1: no column decode_tokens; is it decoded\?; the columns"),
    (TWO.replace("token_source", "segment"), "line 1: more than one column segment"),
    (replaced(",7,0.0500001", ",seven,0.0500001"), "line 3: decode_tokens must be a whole number, it is 'seven'"),
    (replaced(",7,0.0500001", ",,0.0500001"), "line 3: decode_tokens must be a whole number, it is empty"),
    (replaced(",7,0.0500001", ",0,0.0500001"), "line 3: decode_tokens must be at least 1, it is '0'"),
    (replaced(",7,0.0500001", "," + "7" * 99 + ",0"), "line 3: decode_tokens must be .*, it is '7{38}..'"),
    (replaced("12,5,", "0,5,"), "line 2: initial_prompt_tokens must be at least 1, it is '0'"),
    (replaced("chat,1,,7", "chat,1,3,7"), "line 3: initial_prompt_tokens must be empty but for segment 0"),
    (replaced("1e-05", "nan"), "line 5: api_time_s must be a decimal number, it is 'nan'"),
    (replaced("1e-05", "-1e-05"), "line 5: api_time_s must be at least 0, it is '-1e-05'"),
    (replaced("1e-05", "1e+20"), "line 5: api_time_s must be at most 10+ ticks of 1/40 s, it is '1e.20'"),
    (replaced("0.05,3", ",3"), "line 2: api_time_s must be a decimal number, it is empty"),
    (replaced("0.05,3", "0.05,"), "line 2: api_return_tokens must be a whole number, it is empty"),
    (replaced("-2", "-3"), "line 3: api_return_tokens must be at least -2, it is '-3'"),
    (replaced("chat,2,,4", "chat,3,,4"), "line 5: segment must be 2, the next one of .*, it is '3'"),
    (replaced("chat,2,,4", "chat,1,,4"), "line 5: segment must be another: line 3 has the same one"),
    (replaced("aaaaaaaa1,chat,2", ",chat,2"), "line 5: request_key must be a name .*, it is empty"),
    (replaced("bbbbbbbb1,math,0", "b\x07bbbbbbb1,math,0"),
     "line 6: request_key must be a name of 1 to 90 printable characters"),
    (replaced("math,0,40,1,0,0,text_bpe", "math"), "line 6: 2 fields, the header names 8 columns"),
    (replaced("text_bpe", '"text'), "line 6: not a CSV file: unexpected end of data"),
    (TWO.encode("utf-16"), "not UTF-8 text"),
])  # fmt: skip
def test_a_bad_mixture_is_answered_in_one_line(file, text, message):
    with pytest.raises(BadInput, match=message) as refused:
        read_infercept(file(text))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("options", "message"), [
    ({"take": 0}, "--take is from 1 to 2, the number of all requests in the file, not 0"),
    ({"tick": Fraction(0)}, "a tick lasts more than 0 seconds, not 0"),
    ({"rate": Fraction(-1)}, "the rate of arrivals is from 1/1000000 to 1000000 per second, not -1"),
    ({"minutes": Fraction(1, 1000), "rate": Fraction(1, 1000)}, "no request arrives within --minutes"),
])  # fmt: skip
def test_bad_options_are_answered_in_one_line(file, options, message):
    with pytest.raises(BadInput, match=message):
        read_infercept(file(TWO), **options)


def test_requests_that_arrive_within_minutes_are_drawn_with_replacement(file):
    path = file(TWO)
    read = read_infercept(path, rate=Fraction(1, 2), minutes=Fraction(2), seed=1)
    assert read == read_infercept(path, rate=Fraction(1, 2), minutes=Fraction(2), seed=1)
    ids = [request.id for request in read.requests]
    assert 40 < len(ids) < 80
    assert len(set(ids)) == len(ids)
    assert [id.partition("#")[2] for id in ids] == [str(k) for k in range(1, len(ids) + 1)]
    assert {id.partition("#")[0] for id in ids} == {"chat-aaaaaaaa", "math-bbbbbbbb"}
    arrivals = [request.arrival for request in read.requests]
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] <= 120 * 40
    assert read.name == "infercept:rate=1/2,minutes=2,seed=1"


def test_missing_and_huge_files_are_refused(tmp_path):
    with pytest.raises(BadInput, match=r"no-such-file.csv: cannot be read: No such file"):
        read_infercept(tmp_path / "no-such-file.csv")
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as sparse:
        sparse.truncate(2 * LONGEST)
    with pytest.raises(BadInput, match=f"huge.csv: a line is longer than {LONGEST} letters"):
        read_azure(huge)


# --- Azure -----------------------------------------------------------------------------------------------------------
def test_every_field_of_azure_is_read(file):
    read = read_azure(file(ARRIVALS))
    assert [(r.id, r.arrival, r.prompt, r.output) for r in read.requests] == [
        ("R1", 0, 374, 44),
        ("R2", 1, 1, 1),  # exactly one tick of 25 ms
        ("R3", 2, 8, 2),
    ]
    assert [r.id for r in read_azure(file(ARRIVALS), take=2).requests] == ["R1", "R2"]
    assert [r.arrival for r in read_azure(file(ARRIVALS), tick=Fraction(1, 10**7)).requests] == [0, 250000, 250001]


def test_time_stamps_of_the_later_traces_and_a_byte_order_mark_are_read(file):
    text = "\ufeff" + ARRIVALS.replace("0,374", "0+00:00,374").replace(
        "2023-11-17 00:00:00.0049601", "2023-11-17T00:00:01Z"
    )
    assert [request.arrival for request in read_azure(file(text)).requests] == [0, 1, 41]


@pytest.mark.parametrize(("text", "message"), [
    (ARRIVALS.replace("ContextTokens", "Context"), "line 1: no column ContextTokens"),
    (ARRIVALS.replace("1,1\n", "1,-1\n"), "line 3: GeneratedTokens must be at least 0, it is '-1'"),
])  # fmt: skip
def test_a_bad_azure_trace_is_answered_in_one_line(file, text, message):
    with pytest.raises(BadInput, match=message):
        read_azure(file(text))


# --- sessions of agents ----------------------------------------------------------------------------------------------

ROOMY = Machine(memory=1000)


def test_a_session_is_a_request_with_a_call_between_its_rows(file):
    """It begins anew where the input shrank, and after a row without output, which is left out."""
    first, sub, fresh, last = read_agent_traces(file(SESSIONS), machine=ROOMY).requests
    assert (first.id, first.arrival, first.prompt) == ("main-t1/0", 0, 100)
    assert first.segments == (
        Segment(decode=10, call=Call(duration=60, returns=40)),  # 150 - (100 + 10)
        Segment(decode=20, call=Call(duration=80, returns=0)),  # 160 < 150 + 20
        Segment(decode=30, call=Call(duration=160, returns=200)),  # 400 - (170 + 30); 5 s, of which 1 s is the model's
        Segment(decode=40, call=Call(duration=240, returns=60)),  # 500 - 440; 6 s, the model's time is not known
        Segment(decode=1),
    )
    assert (fresh.id, fresh.arrival, fresh.prompt, fresh.segments) == ("main-t1/5", 1000, 80, (Segment(decode=9),))
    assert (last.id, last.arrival, last.prompt, last.segments) == ("main-t1/7", 1800, 95, (Segment(decode=7),))
    assert (sub.id, sub.arrival, sub.prompt, sub.output) == ("sub-t1/sub1/0", 40, 50, 5)


def test_requests_that_are_too_long_are_refused_or_left_out(file):
    path = file(SESSIONS)
    with pytest.raises(BadInput, match=r"request main-t1/0 can never fit: its last token needs 500 tokens"):
        read_agent_traces(path, machine=Machine(memory=499))
    shorter = read_agent_traces(path, machine=Machine(memory=499), drop_too_long=True)
    assert [request.id for request in shorter.requests] == ["sub-t1/sub1/0", "main-t1/5", "main-t1/7"]
    assert shorter.name == "agent-traces:trace.csv, 1 too long left out"
    assert len(read_agent_traces(path, machine=Machine(memory=500), drop_too_long=True).requests) == 4
    assert len(read_agent_traces(path, machine=Machine(memory=500, block=64), drop_too_long=True).requests) == 3
    with pytest.raises(BadInput, match="no request is left: none with output fits a memory of 20 tokens"):
        read_agent_traces(path, machine=Machine(memory=20), drop_too_long=True)


def test_some_sessions_are_drawn_and_keep_their_order(file):
    path = file(SESSIONS)
    order = [request.id for request in read_agent_traces(path, machine=ROOMY).requests]
    drawn = [
        tuple(request.id for request in read_agent_traces(path, machine=ROOMY, take=2, seed=seed).requests)
        for seed in range(30)
    ]
    assert len(set(drawn)) == 6
    assert all(order.index(one) < order.index(other) for one, other in drawn)
    with pytest.raises(
        BadInput, match=r"--sample \(--take\) is from 1 to 4, the number of requests that are left, not 5"
    ):
        read_agent_traces(path, machine=ROOMY, take=5)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("think_time_s", "pause", "line 1: no column think_time_s; the columns needed are trace_id, agent, seq"),
    ("t1,main,7", "t1,main,8", "line 10: seq must be 7, the next one of session main-t1, it is '8'"),
    ("9.0,150", "4.0,150", "line 3: t_s must be no earlier than that of line 2, the row of the session before it"),
    ("9.0,150", "9.0,0", "line 3: input_tokens must be at least 1, it is '0'"),
    ("150,20,", "150,-20,", "line 3: output_tokens must be at least 0, it is '-20'"),
    ("3.0,1.5", "3.0,-1.5", "line 3: think_time_s must be at least 0, it is '-1.5'"),
    ("t1,main,1,", ",main,1,", "line 3: trace_id must be a name of 1 to 90 printable characters, it is empty"),
])  # fmt: skip
def test_bad_sessions_are_answered_in_one_line(file, old, new, message):
    assert SESSIONS.count(old) == 1
    with pytest.raises(BadInput, match=message) as refused:
        read_agent_traces(file(SESSIONS.replace(old, new)), machine=ROOMY)
    assert "\n" not in str(refused.value)


# --- the commands ----------------------------------------------------------------------------------------------------
def test_a_cost_brings_its_tick_and_machine_and_every_key_can_be_changed(file, tmp_path):
    path, target = file(TWO), tmp_path / "I.json"
    kvbound("import", "infercept", path, "--cost", "infercept-6b", "--out", target)
    read = read_instance(target)
    assert (read.machine, read.tick_seconds, read.cost) == (GPT_J_6B, Fraction(1, 10**7), infercept_6b())
    assert [call.duration for call in read.requests[0].calls] == [500_000, 500_001]
    kvbound(
        "import", "infercept", path, "--memory", 90, "--host-memory", 80, "--batch-tokens", 60, "--prefill-tokens", 50,
        "--batch-requests", 9, "--block-size", 3, "--no-hybrid", "--no-chunked",
        "--evict", "--partial", "--no-pause", "--out", target,
    )  # fmt: skip
    assert read_instance(target).machine == Machine(
        memory=90, host_memory=80, batch_tokens=60, prefill_tokens=50, batch_requests=9, block=3, hybrid=False,
        chunked=False, evict=True, partial=True, pause=False,
    )  # fmt: skip


def test_what_is_not_given_is_as_the_importer_has_it(file, tmp_path):
    target = tmp_path / "I.json"
    kvbound("import", "infercept", file(TWO), "--host-memory", 30, "--out", target)
    assert read_instance(target).machine == Machine(memory=63, host_memory=30, batch_tokens=64, evict=True)
    assert {call.handling for request in read_instance(target).requests for call in request.calls} == {"free"}
    kvbound("import", "infercept", file(TWO), "--no-evict", "--out", target)
    assert not read_instance(target).machine.evict
    assert not {call.handling for request in read_instance(target).requests for call in request.calls} & {"free"}
    for options, evicts in (((), True), (("--round", "restrict"), True), (("--no-evict",), False)):
        kvbound("import", "azure", file(ARRIVALS), "--block", 2, *options, "--out", target)
        assert read_instance(target).machine.evict == evicts
    kvbound("import", "azure", file(ARRIVALS), "--cost", "infermax-7b", "--batch-tokens", 16384, "--out", target)
    read = read_instance(target)
    assert (read.machine, read.cost) == (INFERMAX_7B.replace(batch_tokens=16384), infermax_7b())
    assert [request.arrival for request in read.requests] == [0, 25_000_000, 25_000_100]


def test_a_table_without_a_map_is_told_of_it(file, tmp_path):
    trace = file("when,prompt,decode\n0,3,4\n")
    assert "name yours: --map arrival=" in kvbound("import", "csv", trace, "--out", tmp_path / "I.json", code=2).stderr


@pytest.mark.parametrize(("given", "said"), [((), True), (("--cost", "infermax-7b"), False), (("--memory", 99), False)])
def test_what_is_assumed_of_the_machine_is_said(file, tmp_path, given, said):
    trace = file("arrival,prompt,decode\n0,3,4\n")
    done = kvbound("import", "csv", trace, "--out", tmp_path / "I.json", *given)
    assert ("each batch lasts 25 ms" in done.stderr) is said


def test_coarsening_says_what_it_distorts(file, tmp_path):
    rows = "".join(f"s{k % 3},{k},{20 + 30 * (k // 3)},7\n" for k in range(12))
    trace, target = file("session,at,prompt,output\n" + rows), tmp_path / "I.json"
    keys = ("--map", "session=session,arrival=at,prompt=prompt,decode=output", "--memory", 400, "--out", target)
    said = kvbound("import", "csv", trace, *keys, "--block", 64).stderr
    assert re.search(r"coarsening changed all peaks together to [\d.]+ times, decodes and calls to [\d.]+ times", said)


def test_agents_with_a_handling(file, tmp_path):
    target = tmp_path / "I.json"
    arguments = ("import", "agent-traces", file(SESSIONS), "--memory", 499, "--out", target)
    done = kvbound(*arguments, "--drop-too-long", "--handling", "preserve", "--take", 2, "--seed", 3)
    assert ", 1 too long left out" in done.stdout
    assert len(read_instance(target).requests) == 2
    kvbound(*arguments[:-4], "--memory", 900, "--handling", "preserve", "--out", target)
    calls = [call for request in read_instance(target).requests for call in request.calls]
    assert {call.handling for call in calls} == {"preserve"}


@pytest.mark.parametrize(("source", "arguments", "message"), [
    ("infercept", ["--memory", 60, "--host-memory", 1, "--handling", "swap"], "--handling swap: request chat-aaaa"),
    ("infercept", ["--cost", "infercept-6b", "--block", 64], "only instances whose batches all last one tick"),
    ("infercept", ["--minutes", 1], "--minutes means nothing without --rate, the requests a second"),
    ("infercept", ["--minutes", 1, "--rate", 1, "--take", 1], "--take draws requests without replacement, --min"),
    ("infercept", ["--block-size", "big"], "Invalid value for '--block-size'"),
    ("infercept", ["--evict", "yes"], "Got unexpected extra argument"),
    ("infercept", ["--no-chunked", "--batch-tokens", 5], "its prompt is a prefill of 12 tokens"),
    ("azure", ["--no-such"], "No such option"),
    ("azure", ["--tick", "1e99999999"], "--tick 1e99999999: write a number above 0"),
    ("agent-traces", [], "name the memory that you use, in tokens (--memory)"),
    ("agent-traces", ["--cost", "infermax-70b"], "name the memory that you use, in tokens (--memory)"),
])  # fmt: skip
def test_bad_options_of_the_commands_are_answered_in_one_line(file, tmp_path, source, arguments, message):
    text = {"infercept": TWO, "azure": ARRIVALS, "agent-traces": SESSIONS}[source]
    assert message in one_line("import", source, file(text), *arguments, "--out", tmp_path / "I.json")
    assert not (tmp_path / "I.json").exists()


# --- the real data ---------------------------------------------------------------------------------------------------
def test_the_infercept_mixture():
    path = real(MIXTURE)
    requests = read_infercept(path).requests
    rows = path.read_text().splitlines()[1:]
    assert len(requests) == 397
    assert sum(row.split(",")[5] != "" for row in rows) == 1841
    assert sum(len(request.calls) for request in requests) == 1841 - 184
    kinds = Counter(request.id.split("-")[0] for request in requests)
    assert kinds == {"math": 98, "chat": 65, "tts": 65, "image": 65, "ve": 54, "qa": 50}
    segments = [segment.decode for request in requests for segment in request.segments]
    assert len(segments) == len(rows) == 2054
    assert round(100 * sum(decode < 64 for decode in segments) / len(segments)) == 67
    assert (min(segments), sorted(segments)[1027], max(segments)) == (1, 50, 1353)
    assert max(request.peak for request in requests) == 2050
    assert max(call.duration for request in requests for call in request.calls) == 60 * 40
    assert sum(call.duration == 0 for request in requests for call in request.calls) > 0
    assert len({request.id for request in requests}) == 397
    assert max(len(request.id) for request in requests) < 20


def test_the_azure_traces():
    conversation, code = read_azure(real(CONVERSATION)), read_azure(real(CODE))
    assert (len(conversation.requests), len(code.requests)) == (19_366, 8_819)
    assert conversation.requests[0].prompt == 374
    assert conversation.requests[-1].arrival == 140_069  # 3501.722 s at 25 ms
    assert max(request.peak for request in conversation.requests) < conversation.machine.memory


@pytest.mark.data
def test_the_agent_traces():
    read = read_agent_traces(real(AGENTS), machine=Machine(memory=None))
    assert len(read.requests) == 601
    assert Counter(request.id.partition("-")[0] for request in read.requests).keys() == {"main", "sub"}
    assert sum(len(request.segments) for request in read.requests) == 24_015 - 10  # ten rows have no output
    assert max(request.peak for request in read.requests) > 880_000
    fitting = read_agent_traces(real(AGENTS), machine=Machine(memory=200_000), drop_too_long=True)
    assert len(fitting.requests) == 601 - 114


@pytest.mark.data
def test_the_whole_conversation_trace_is_imported_in_one_command(tmp_path):
    """With INFERMAX's setting."""
    kvbound(
        "import", "azure", real(CONVERSATION), "--cost", "infermax-7b", "--memory", 100_000, "--batch-tokens", 16_384,
        "--evict", "--out", tmp_path / "A.json",
    )  # fmt: skip
    read = read_instance(tmp_path / "A.json")
    assert len(read.requests) == 19_366
    assert read.machine == Machine(memory=100_000, batch_tokens=16_384, evict=True)
    assert (read.tick_seconds, read.cost) == (Fraction(1, 10**9), infermax_7b())


@pytest.mark.data
def test_half_an_hour_of_the_mixture(tmp_path):
    kvbound(
        "import", "infercept", real(MIXTURE), "--cost", "infercept-6b", "--rate", 2, "--minutes", 30, "--out",
        tmp_path / "I.json",
    )  # fmt: skip
    read = read_instance(tmp_path / "I.json")
    assert 3300 < len(read.requests) < 3900
    assert read.requests[-1].arrival < 1800 * 10**7
    assert len({request.id.partition("#")[0] for request in read.requests}) == 397


@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("evict", [False, True])
def test_slices_of_the_mixture_are_rounded_to_64(k, seed, evict):
    piece = infercept_slice(real(MIXTURE), k, seed, evict=evict)
    assert piece.tick_seconds == Fraction(8, 5)
    assert len(piece.requests) == k
    limits = {name: 64 * getattr(piece.machine, name) for name in ("memory", "host_memory")}
    fine = read_infercept(real(MIXTURE), take=k, seed=seed, machine=Machine(batch_tokens=64, evict=evict, **limits))
    assert coarsen(fine, block_tokens=64, slot_ticks=64).replace(name=piece.name) == piece
