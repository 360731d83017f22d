"""Reading the public traces: every field, every mistake in a file, and the real data where it is at hand."""

from __future__ import annotations

import os
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from heuristics import get_policy, run_policy
from kvbound import BadInput, Call, Instance, Machine, Segment, objective_value, verify_schedule
from kvbound.coarsen import coarsen, fine_bound, lift
from kvbound.files import MAX_BYTES
from kvbound.importers import infercept_slice, read_azure, read_infercept
from tests.projection import project

DATA = Path(os.environ.get("KVBOUND_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
MIXTURE = DATA / "infercept" / "merged_exp_uniform_lengths.csv"
CONVERSATION = DATA / "azure2023" / "AzureLLMInferenceTrace_conv.csv"
CODE = DATA / "azure2023" / "AzureLLMInferenceTrace_code.csv"

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


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str | bytes) -> Path:
        path = tmp_path / "trace.csv"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def real(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"the data is not at {path} (set KVBOUND_DATA)")
    return path


# --- InferCept -------------------------------------------------------------------------------------------------------


def test_every_field_of_infercept_is_read(file) -> None:
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


def test_the_default_machine_holds_one_and_a_half_contexts(file) -> None:
    read = read_infercept(file(TWO))
    assert [request.peak for request in read.requests] == [30, 42]
    assert read.machine == Machine(memory=63, host_memory=21, batch_tokens=64)
    other = Machine(memory=50, block=10)
    assert read_infercept(file(TWO), machine=other).machine == other


@pytest.mark.parametrize(
    ("tick", "durations"),
    [("1/40", [2, 3]), ("1/100", [5, 6]), ("2", [1, 1]), ("1/10000000", [500000, 500001])],
)
def test_call_times_are_exact_and_rounded_up(file, tick: str, durations: list[int]) -> None:
    read = read_infercept(file(TWO), tick=Fraction(tick))
    assert [call.duration for call in read.requests[0].calls] == durations


def test_a_sample_is_drawn_without_replacement_and_repeats(file) -> None:
    path = file(TWO)
    assert [r.id for r in read_infercept(path, take=2, seed=1).requests] == ["chat-aaaaaaaa", "math-bbbbbbbb"]
    drawn = {tuple(r.id for r in read_infercept(path, take=1, seed=seed).requests) for seed in range(20)}
    assert drawn == {("chat-aaaaaaaa",), ("math-bbbbbbbb",)}
    assert read_infercept(path, take=2, seed=7) == read_infercept(path, take=2, seed=7)


def test_one_augmentation_is_kept(file) -> None:
    assert [r.id for r in read_infercept(file(TWO), augmentation="math").requests] == ["math-bbbbbbbb"]
    with pytest.raises(BadInput, match="no request has the augmentation 'qa'; there are chat, math"):
        read_infercept(file(TWO), augmentation="qa")


def test_arrivals_are_a_poisson_process_in_the_order_drawn(file) -> None:
    rows = "".join(f"key{i:09d},chat,0,5,3,,,given\n" for i in range(400))
    read = read_infercept(file(HEADER + rows), rate=Fraction(2), seed=3, take=400)
    arrivals = [request.arrival for request in read.requests]
    assert arrivals == sorted(arrivals)
    assert 150 * 40 < arrivals[-1] < 250 * 40  # 400 requests at 2 per second
    assert [request.id for request in read.requests] != sorted(request.id for request in read.requests)
    draw = random.Random(3)
    draw.sample(range(400), 400)
    assert arrivals[0] == -(-Fraction(draw.expovariate(2.0)) * 40 // 1)


def test_equal_beginnings_of_keys_keep_the_whole_keys_as_ids(file) -> None:
    read = read_infercept(file(TWO.replace("bbbbbbbb1,math", "aaaaaaaa2,chat")))
    assert [request.id for request in read.requests] == ["chat-aaaaaaaa1", "chat-aaaaaaaa2"]


def replaced(old: str, new: str) -> str:
    assert TWO.count(old) == 1
    return TWO.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; the first line must name the columns request_key, augmentation"),
        (HEADER, "it has no rows below its header"),
        (TWO.replace("decode_tokens", "decoded"), "line 1: no column decode_tokens; the columns needed are"),
        (TWO.replace("token_source", "segment"), "line 1: more than one column segment"),
        (replaced(",7,0.0500001", ",seven,0.0500001"), "line 3: decode_tokens must be a whole number, it is 'seven'"),
        (replaced(",7,0.0500001", ",7.0,0.0500001"), "line 3: decode_tokens must be a whole number, it is '7.0'"),
        (replaced(",7,0.0500001", ",,0.0500001"), "line 3: decode_tokens must be a whole number, it is empty"),
        (replaced(",7,0.0500001", ",0,0.0500001"), "line 3: decode_tokens must be at least 1, it is '0'"),
        (replaced(",7,0.0500001", ",-7,0.0500001"), "line 3: decode_tokens must be at least 1, it is '-7'"),
        (replaced(",7,0.0500001", "," + "7" * 99 + ",0"), "line 3: decode_tokens must be .*, it is '7{38}..'"),
        (replaced("12,5,", "0,5,"), "line 2: initial_prompt_tokens must be at least 1, it is '0'"),
        (replaced("12,5,", ",5,"), "line 2: initial_prompt_tokens must be a whole number, it is empty"),
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
        (replaced("math,0,40,1,0,0,text_bpe", "math"), "line 6: 2 fields, the header names 8 columns"),
        (replaced("text_bpe", '"text'), "line 6: not a CSV file: unexpected end of data"),
        (TWO.encode("utf-16"), "not UTF-8 text"),
        (b"PK\x03\x04\xff", "not UTF-8 text"),
    ],
)  # fmt: skip
def test_a_bad_mixture_is_answered_in_one_line(file, text: str | bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message) as refused:
        read_infercept(file(text))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"take": 0}, "--take is from 1 to 2, the number of all requests in the file, not 0"),
        ({"take": 3}, "--take is from 1 to 2"),
        ({"tick": Fraction(0)}, "a tick lasts more than 0 seconds, not 0"),
        ({"rate": Fraction(-1)}, "the rate of arrivals is from 1/1000000 to 1000000 per second, not -1"),
        ({"machine": Machine(memory=10)}, "request chat-aaaaaaaa can never fit: its last token needs 30 tokens"),
    ],
)
def test_bad_options_are_answered_in_one_line(file, options: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_infercept(file(TWO), **options)


def test_missing_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no-such-file.csv: cannot be read: No such file"):
        read_infercept(tmp_path / "no-such-file.csv")
    huge = tmp_path / "huge.csv"
    with huge.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    with pytest.raises(BadInput, match="larger than 256 MiB"):
        read_azure(huge)


# --- Azure -----------------------------------------------------------------------------------------------------------


def test_every_field_of_azure_is_read(file) -> None:
    read = read_azure(file(ARRIVALS))
    assert [(r.id, r.arrival, r.prompt, r.output) for r in read.requests] == [
        ("R1", 0, 374, 44),
        ("R2", 1, 1, 1),  # exactly one tick of 25 ms
        ("R3", 2, 8, 2),
    ]
    assert [r.id for r in read_azure(file(ARRIVALS), take=2).requests] == ["R1", "R2"]
    assert [r.arrival for r in read_azure(file(ARRIVALS), tick=Fraction(1, 10**7)).requests] == [0, 250000, 250001]


def test_time_stamps_of_the_later_traces_and_a_byte_order_mark_are_read(file) -> None:
    text = "\ufeff" + ARRIVALS.replace("0,374", "0+00:00,374").replace(
        "2023-11-17 00:00:00.0049601", "2023-11-17T00:00:01Z"
    )
    assert [request.arrival for request in read_azure(file(text)).requests] == [0, 1, 41]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ARRIVALS.replace("ContextTokens", "Context"), "line 1: no column ContextTokens"),
        (ARRIVALS.replace("1,1\n", "1,0\n"), "line 3: GeneratedTokens must be at least 1, it is '0'"),
        (ARRIVALS.replace("0,374", "0,many"), "line 2: ContextTokens must be a whole number, it is 'many'"),
        (ARRIVALS.replace("2023-11-17 00:00:00.0049600", "yesterday"), "line 3: TIMESTAMP must be a time such as"),
        (ARRIVALS.replace("2023-11-17 00:00:00.0049600", "2023-13-17 00:00:00"), "line 3: TIMESTAMP must be a date"),
        (ARRIVALS.replace("00:00:00.0049601", "00:00:00"), "line 4: TIMESTAMP must be no earlier"),
        (ARRIVALS.replace("374,44", "374"), "line 2: 2 fields, the header names 3 columns"),
    ],
)  # fmt: skip
def test_a_bad_azure_trace_is_answered_in_one_line(file, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_azure(file(text))


# --- the real data ---------------------------------------------------------------------------------------------------


def test_the_infercept_mixture() -> None:
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


def test_the_azure_traces() -> None:
    conversation, code = read_azure(real(CONVERSATION)), read_azure(real(CODE))
    assert (len(conversation.requests), len(code.requests)) == (19_366, 8_819)
    assert conversation.requests[0].prompt == 374
    assert conversation.requests[-1].arrival == 140_069  # 3501.722 s at 25 ms
    assert max(request.peak for request in conversation.requests) < conversation.machine.memory


@pytest.mark.parametrize("k", [3, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_slices_of_the_mixture_keep_both_directions(k: int, seed: int) -> None:
    """A policy's coarse schedule is carried out finely, and that is no better than what relax makes of it."""
    grid = {"block_tokens": 64, "slot_ticks": 64}
    piece = infercept_slice(real(MIXTURE), k, seed)
    assert piece.tick_seconds == Fraction(8, 5)
    assert len(piece.requests) == k
    limits = {name: 64 * getattr(piece.machine, name) for name in ("memory", "host_memory")}
    fine = read_infercept(MIXTURE, take=k, seed=seed, machine=Machine(batch_tokens=64, **limits))
    restricted, relaxed = (coarsen(fine, direction=way, **grid) for way in ("restrict", "relax"))
    assert restricted.replace(name=piece.name) == piece
    assert relaxed.requests == infercept_slice(MIXTURE, k, seed, "relax").requests
    coarse = run_policy(restricted, get_policy("sjf-api"))
    schedule = lift(coarse, fine, restricted)
    value = objective_value(verify_schedule(fine, schedule), "total-flow-time")
    assert value <= 64 * objective_value(verify_schedule(restricted, coarse), "total-flow-time")
    below = verify_schedule(relaxed, project(schedule, fine, relaxed))
    bound = fine_bound(relaxed, "total-flow-time", objective_value(below, "total-flow-time"))
    assert alone(fine) * 0.9 < bound <= value


def alone(fine: Instance) -> int:
    """The total flow time if no request waited for another."""
    return sum(request.output + request.call_time for request in fine.requests)
