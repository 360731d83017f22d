"""Runs by the times of their requests: each format, each mistake with its line and column."""

from fractions import Fraction
from pathlib import Path

import pytest

import kvbound as kv
from kvcore import BadInput, Machine
from solvers.dual_bound import best_bound
from workloads.importers.measured import form_of, read_measured

DATA = Path(__file__).parents[1] / "data" / "measured"
MACHINE = Machine(memory=2000, batch_tokens=512, evict=True)
FILES = {
    "blis.csv": ("blis", [(0, 512, 8), (10, 256, 4), (20, 256, 6)], "0.62", "0.195"),
    "llmservingsim.csv": ("llmservingsim", [(0, 512, 3), (30, 256, 2)], "0.21", "0.1"),
    "aisimulate.jsonl": ("aisimulate", [(0, 512, 5), (10, 300, 3)], "0.2265", "0.075749999999999996"),
}


def read(path, **options):
    return read_measured(path, machine=MACHINE, tick=Fraction(1, 1000), **options)


@pytest.mark.parametrize("file", FILES)
def test_each_format_is_known_by_its_columns(file):
    form, requests, latency, ttft = FILES[file]
    run = read(DATA / file)
    assert form_of(DATA / file) == form
    assert [(one.arrival, one.prompt, one.output) for one in run.instance.requests] == requests
    assert run.seconds == {"total-flow-time": Fraction(latency), "total-ttft": Fraction(ttft)}
    assert read(DATA / file, form=form) == run


def test_what_the_model_lacks_is_noted():
    assert read(DATA / "blis.csv").notes == (
        "1 requests without a whole answer are left out",
        "64 prompt tokens may come from a cache; the model computes them, so the run may be faster",
    )
    assert read(DATA / "aisimulate.jsonl").notes[0].startswith("128 prompt tokens may come from a cache")
    assert read(DATA / "llmservingsim.csv").notes == ()


@pytest.mark.parametrize(("file", "old", "new", "message"), [
    ("blis.csv", ",1050000,1250000,", ",0,0,", "line 2: first_chunk_time_us must be later than the arrival: the"),
    ("blis.csv", ",1150000,", ",1050000,", "line 3: last_chunk_time_us must be no earlier than first_chunk_time"),
    ("blis.csv", ",512,8,512", ",0,8,512", "line 2: input_tokens must be at least 1"),
    ("blis.csv", ",512,8,512", ",512,0,512", "line 2: output_tokens must be at least 1"),
    ("blis.csv", ",ok,", ",error,", "none of its requests was done"),
    ("llmservingsim.csv", "40000000,40000000,\"", "4e,40000000,\"", "line 2: TTFT must be a decimal number"),
    ("llmservingsim.csv", "\n0,1,", "\n1,1,", "line 3: instance id must be 0 in all rows: a run here is"),
    ("aisimulate.jsonl", '"prefill_worker_idx":null', '"prefill_worker_idx":0', "line 1: prefill_worker_idx must"),
    ("aisimulate.jsonl", '"arrival_time_ms":10.0', '"arrival_time_ms":-1', "line 2: arrival_time_ms must be"),
    ("aisimulate.jsonl", '"input_length":512', '"input_length":5000', "needs"),
])  # fmt: skip
def test_mistakes_are_named_by_line_and_column(tmp_path, file, old, new, message):
    text = (DATA / file).read_text()
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=message):
        read(tmp_path / file, form=FILES[file][0])


def test_an_unknown_file_is_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert form_of(tmp_path / "x.csv") is None
    with pytest.raises(BadInput, match="format of a run"):
        read(tmp_path / "x.csv")
    with pytest.raises(BadInput, match="come from a file, not from standard input"):
        read("-", form="blis")
    with pytest.raises(BadInput, match="--take is from 1 to 3, the number of requests that were done, not 4"):
        read(DATA / "blis.csv", take=4)


def test_older_files_lack_prefix_lengths_and_clocks_may_count_since_1970(tmp_path):
    (tmp_path / "old.csv").write_text(
        "request_id,input_tokens,output_tokens,arrival_time_us,send_time_us,first_chunk_time_us,last_chunk_time_us,"
        "status\n0,5,2,7,1708100000000000,1708100000045200,1708100001590300,ok\n"
    )
    run = read(tmp_path / "old.csv")
    assert run.seconds == {"total-flow-time": Fraction("1.5903"), "total-ttft": Fraction("0.0452")}
    assert (run.instance.requests[0].arrival, run.notes) == (0, ())


def test_what_the_model_itself_ran_is_not_below_its_bound(tmp_path):
    """A run of one of our policies, written as LLMServingSim's CSV, has the values that the referee measured."""
    instance = kv.generate("fixed", prompt=8, output=4, n=6, machine=Machine(memory=24, batch_tokens=16, evict=True))
    trace = kv.simulate(instance, "vllm").trace
    tick = int(instance.tick_seconds * 10**9)
    rows = [
        (0, k, "m", one.request.prompt, one.request.output, one.request.arrival * tick,
         (one.completion - one.request.arrival) * tick, (one.first_token - one.request.arrival) * tick)
        for k, one in enumerate(trace.requests)
    ]  # fmt: skip
    lines = [
        "instance id,request id,model,input,output,arrival,latency,TTFT",
        *(",".join(map(str, row)) for row in rows),
    ]
    (tmp_path / "run.csv").write_text("\n".join(lines) + "\n")
    run = read_measured(tmp_path / "run.csv", machine=instance.machine, tick=instance.tick_seconds, cost=instance.cost)
    for objective, seconds in run.seconds.items():
        assert seconds / instance.tick_seconds == kv.objective_value(trace, objective)
        bound = best_bound(run.instance, objective, method="shares").certified_bound
        assert bound is not None
        assert 0 < bound * instance.tick_seconds <= seconds
