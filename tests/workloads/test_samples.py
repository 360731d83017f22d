"""The shipped samples are what the documented commands make of the public data, and are what the demo promises."""

import random
import re
import shlex
import sys
from pathlib import Path

import pytest

import solvers
from benchmarks.data import data_file
from heuristics import get_policy, trace_policy
from kvbound.cli import main
from kvcore import BadInput, handlings, objective_value
from tests.support.data import MIXTURE
from workloads.builtin import BUILTIN, SAMPLES, VE_SAMPLES, builtin_instance

ROOT = Path(__file__).parents[2]
CSV = data_file(MIXTURE)
COMMANDS = re.findall(r"^\$ (kvbound import .*)$", (ROOT / "workloads" / "samples" / "README.md").read_text(), re.M)


@pytest.mark.skipif(not CSV.exists(), reason=f"the InferCept data is not at {CSV} (set KVBOUND_DATA)")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_documented_command_makes_the_sample(command, tmp_path, monkeypatch, capsys):
    words = [str(CSV) if word.endswith(".csv") else word for word in shlex.split(command)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    assert (tmp_path / words[-1]).read_bytes() == (ROOT / "workloads" / "samples" / words[-1]).read_bytes()


def test_there_is_a_command_for_every_sample():
    assert [command.split()[-1] for command in COMMANDS] == [
        *(f"infercept-{k}.json" for k in SAMPLES),
        *(f"infercept-evict-{k}.json" for k in SAMPLES),
        *(f"infercept-ve-{k}.json" for k in VE_SAMPLES),
    ]


@pytest.mark.parametrize("k", SAMPLES)
def test_a_sample_has_k_real_requests_with_calls(k):
    instance = builtin_instance(f"infercept-sample:k={k}")
    assert len(instance.requests) == k
    assert sum(len(request.calls) for request in instance.requests) >= 10
    assert instance.coarsening.direction == "restrict"


@pytest.mark.parametrize("k", VE_SAMPLES)
def test_a_sample_that_drives_a_virtual_environment(k):
    instance = builtin_instance(f"infercept-ve:k={k}")
    assert len(instance.requests) == k
    assert all(1900 < request.prompt < 2048 and len(request.calls) >= 3 for request in instance.requests)
    largest = sorted(instance.machine.blocks(request.peak) * 64 for request in instance.requests)
    assert sum(largest[:2]) <= instance.machine.memory < sum(largest[:3])


def test_all_three_handlings_occur_in_the_samples():
    calls = [call for k in SAMPLES for r in builtin_instance(f"infercept-sample:k={k}").requests for call in r.calls]
    assert {call.handling for call in calls} == {"preserve", "discard", "swap"}


def test_slices_are_drawn_where_the_data_is_at_hand(monkeypatch):
    monkeypatch.delenv("KVBOUND_DATA", raising=False)
    with pytest.raises(BadInput, match="infercept-slice needs the data: set KVBOUND_DATA"):
        builtin_instance("infercept-slice:k=3,seed=1")
    if CSV.exists():
        monkeypatch.setenv("KVBOUND_DATA", str(CSV.parents[1]))
        assert len(builtin_instance("infercept-slice:k=3,seed=1").requests) == 3
        assert builtin_instance("infercept-slice:k=3,seed=1,evict=1").machine.evict


@pytest.mark.parametrize(("name", "complaint"), [
    ("infercept-sample:k=9", "k is one of 3, 4, 5, 6"),
    ("infercept-sample:k=3,evict=2", "infercept-sample: evict is 0 or 1, not 2"),
    ("infercept-ve:chunked=2", "infercept-ve: chunked is 0 or 1, not 2"),
    ("infercept-ve:k=5", "infercept-ve: k is one of 3, 4, not 5"),
    ("infercept-sample:k=0", "k is a number of requests"),
    ("mars-figure1:k=3", "'k=3' is no parameter"),
    ("hindsight:n=0", "n is a number of requests"),
    ("hindsight:M=5", "M is at least 6"),
    ("hindsight:M=30,P=31", "P, the largest peak, is from 6 to M = 30"),
    ("hindsight:P=5", "P, the largest peak"),
    ("infermax-figure15:I=0", "I is a prompt length"),
])  # fmt: skip
def test_bad_names_are_answered_in_one_line(name, complaint):
    with pytest.raises(BadInput, match=complaint) as refused:
        builtin_instance(name)
    assert "\n" not in str(refused.value)


def test_the_theory_family_draws_in_the_documented_order():
    benchmark = builtin_instance("hindsight-benchmark:seed=2")
    assert (len(benchmark.requests), benchmark.machine.memory) == (42, 31)
    assert all(request.peak <= 31 for request in benchmark.requests)
    assert set(BUILTIN) >= {"mars-figure1", "infermax-figure15", "hindsight", "hindsight-benchmark"}


def test_arrivals_of_the_theory_family_are_drawn_after_each_request():
    online = builtin_instance("hindsight:n=40,M=30,P=12,T=9,seed=1")
    draw = random.Random(1)
    for request in online.requests:
        s = draw.randint(1, 5)
        output = draw.randint(1, 12 - s)
        assert (request.prompt, request.output, request.arrival) == (s + 1, output, draw.randint(0, 9))
    assert {request.arrival for request in online.requests} == set(range(10))
    assert builtin_instance(online.name).sha256 == online.sha256
    assert {request.arrival for request in builtin_instance("hindsight:n=40,M=30,P=12,seed=1").requests} == {0}


@pytest.mark.slow
def test_what_the_readme_says_of_infercept_ve():
    whole, chunked = (builtin_instance(f"infercept-ve:k=3{more}").with_free_calls() for more in ("", ",chunked=1"))
    best = solvers.solve(whole, "total-flow-time")
    assert (best.status, best.value) == ("optimal", 28112453)
    assert sorted(handlings(best.trace).values()) == ["preserve"] * 13 + ["swap"]
    means = [objective_value(trace_policy(chunked, get_policy(name)), "total-flow-time") / 3e7
             for name in ("vllm", "infercept", "mars")]  # fmt: skip
    assert means == pytest.approx([1.74, 1.62, 1.01], abs=0.005)
