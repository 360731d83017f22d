"""Reading logs: both forms of ours, Vidur's and vLLM's, and every mistake in one."""

import gzip
import json
from fractions import Fraction

import pytest

from kvcore import BadInput
from kvcore.files import MAX_BYTES, read_text
from workloads.importers.run_log import LoggedBatch, read_log

CSV = "batch,start_s,work,drop\n0,0.5,a:512 b:1,\n1,0.75,b:1,a c:3\n"
LINES = (
    '{"start_s": 0.5, "work": {"a": 512, "b": 1}}\n\n{"start_s": 0.75, "work": {"b": 1}, "drop": {"a": null, "c": 3}}\n'
)
VIDUR = {
    "traceEvents": [
        {"name": "[0]", "ph": "X", "ts": 0.0, "dur": 8.5, "pid": 0, "tid": 0,
         "args": {"batch_id": 0, "batch_size": 2, "request_ids": [0, 1], "num_tokens": [5, 3]}},
        {"name": "[0]", "ph": "X", "ts": 37788.269, "dur": 8.5, "pid": 0, "tid": 0,
         "args": {"batch_id": 1, "batch_size": 1, "request_ids": [1], "num_tokens": [1]}},
    ]
}  # fmt: skip
VLLM = {"time": 100.25, "num_scheduled_tokens": {"a": 7}, "preempted_req_ids": [], "num_cached_tokens": 0}


def log(tmp_path, text, preset=None, name="log"):
    (tmp_path / name).write_text(text)
    return read_log(tmp_path / name, preset)


def test_both_forms_say_the_same(tmp_path):
    found = log(tmp_path, CSV)
    assert found.batches == (
        LoggedBatch(start_s=Fraction(1, 2), work={"a": 512, "b": 1}),
        LoggedBatch(start_s=Fraction(3, 4), work={"b": 1}, drop={"a": None, "c": 3}),
    )
    assert found.moves
    assert log(tmp_path, LINES) == found
    assert not log(tmp_path, "start_s,work\n0,a:1\n").moves
    (tmp_path / "log.gz").write_bytes(gzip.compress(CSV.encode()))
    assert read_log(tmp_path / "log.gz").batches == found.batches


def test_what_is_unpacked_is_bounded(tmp_path):
    """A small file that unpacks to more than is read, one that is cut off, and one that is none."""
    bomb = gzip.compress(b"\0" * (MAX_BYTES // 16), compresslevel=1)
    (tmp_path / "bomb.gz").write_bytes(bomb)
    with pytest.raises(BadInput, match="larger than 1 MiB"):
        read_text(tmp_path / "bomb.gz", most=2**20)
    for data in (bomb[:1000], b"plain", bomb[:500] + b"x" * 500):
        (tmp_path / "bad.gz").write_bytes(data)
        with pytest.raises(BadInput, match=r"bad.gz: cannot be read: "):
            read_text(tmp_path / "bad.gz")


def test_vidur(tmp_path):
    found = log(tmp_path, json.dumps(VIDUR), "vidur")
    assert [batch.work for batch in found.batches] == [{"0": 5, "1": 3}, {"1": 1}]
    assert found.batches[1].start_s == Fraction("0.037788269")
    assert (found.moves, found.numbered) == (False, True)


def test_vllm(tmp_path):
    """Times count from the first line; where preempted_req_ids is null somewhere, evictions are read from restarts."""
    second = VLLM | {"time": 100.5, "num_scheduled_tokens": {"b": 2}, "preempted_req_ids": ["a"]}
    found = log(tmp_path, f"{json.dumps(VLLM)}\n{json.dumps(second)}\n", "vllm")
    assert found.batches == (
        LoggedBatch(start_s=Fraction(0), work={"a": 7}),
        LoggedBatch(start_s=Fraction(1, 4), work={"b": 2}, drop={"a": None}),
    )
    assert found.moves
    assert not log(tmp_path, json.dumps(VLLM | {"preempted_req_ids": None}), "vllm").moves


ONE = {"start_s": 0, "work": {"a": 1}}


@pytest.mark.parametrize(("text", "preset", "said"), [
    ("start_s,work\n", None, "it has no iterations"),
    ("start,work\n0,a:1\n", None, "no column start_s"),
    ("start_s,work\nx,a:1\n", None, "line 2: a start must be a decimal number of seconds, it is 'x'"),
    ("start_s,work\n0,a\n", None, "line 2: work must be request:tokens, .* not 'a'"),
    ("start_s,work\n0,R1=6\n", None, "line 2: work must be request:tokens, .* not 'R1=6'"),
    ("start_s,work\n0,a:1 a:2\n", None, "line 2: work must be request:tokens, once for each"),
    ("start_s,work\n0,a:1e3\n", None, "line 2: work must be request:tokens, .* not 'a:1e3'"),
    ("start_s,work\n0,a:1,b:2\n", None, "line 2: it has other fields than the header"),
    ('start_s,work\n0,"a:1\n', None, "not a CSV file: unexpected end of data"),
    ('start_s,"work\n0,a:1\n', None, "not a CSV file: unexpected end of data"),
    ("start_s,work\n1e-400,a:1\n", None, "line 2: a start must be a decimal number"),
    ("start_s,work\n0,a:0\n", None, r"line 2: work.a: must be greater than or equal to 1"),
    ("start_s,work\n1,a:1\n0.5,a:1\n", None, r"batch 1 starts at 0.5 s, before batch 0 \(1 s\)"),
    ('{"start_s": 0', None, "line 1: not a JSON object"),
    ('{"start_s": 0, "work": {}}\n[]', None, "line 2: not a JSON object"),
    (json.dumps(ONE | {"start_s": None}), None, "line 1: a start must be a decimal number of .* it is 'None'"),
    (json.dumps(ONE | {"start_s": True}), None, "line 1: a start must be a decimal number"),
    ('{"start_s": 0, "work": {"a": 1, "a": 2}}', None, "line 1: not a JSON object with each key once"),
    (json.dumps(ONE | {"start": 1}), None, "line 1: start: unknown key"),
    (json.dumps(ONE | {"work": {"a": 1.5}}), None, r"line 1: work.a: .*valid integer"),
    ("request_id,request_e2e_time\n0,1.5\n", "vidur", "not Vidur's chrome_trace.json, which alone says"),
    (json.dumps(VIDUR).replace('"pid": 0', '"pid": 1', 1), "vidur", "2 replicas and pipeline stages"),
    (json.dumps(VIDUR).replace("[5, 3]", "[5]"), "vidur", "not Vidur's chrome_trace.json"),
    ("[" * 10**5, "vidur", "not Vidur's chrome_trace.json"),
    ("INFO Iteration(3): 1 context requests, 7 context tokens", "vllm", "does not say which requests work"),
    (json.dumps(VLLM | {"num_cached_tokens": 16}), "vllm", "num_cached_tokens is not empty: prefixes"),
    (json.dumps(VLLM | {"scheduled_spec_decode_tokens": {"a": [1]}}), "vllm", "speculative decoding"),
    (json.dumps(VLLM | {"preempted_req_ids": "a"}), "vllm", "preempted_req_ids must be a list of names"),
    (json.dumps(VLLM | {"num_scheduled_tokens": None}), "vllm", "line 1: work: must be"),
    (CSV, "sglang", "--preset is one of vidur, vllm, not 'sglang'"),
])  # fmt: skip
def test_mistakes(tmp_path, text, preset, said):
    with pytest.raises(BadInput, match=said):
        log(tmp_path, text, preset)
