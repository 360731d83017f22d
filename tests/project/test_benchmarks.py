"""Each `python -m benchmarks..` runs, on its smallest case; a new one needs a function here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import kvbound as kv
from benchmarks import __main__ as registry
from benchmarks import against_bounds, library, options, proved, simulate, worst
from benchmarks.engines import __main__ as engines
from benchmarks.engines import dynamo
from benchmarks.reduced import reduced
from kvbound import machine_checked
from library import Library
from library.library import table_rows

FOLDER = Path(registry.__file__).parent
MODULES = sorted(
    ".".join(file.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__main__")
    for file in FOLDER.rglob("*.py")
    if "\nif __name__ ==" in file.read_text(encoding="utf-8")
)
STUDY = 'name = "one"\n[[instances]]\nbuiltin = "mars-figure1"\n[[policies]]\nnames = ["fcfs"]\n'
Run = Callable[[pytest.MonkeyPatch], object]


@pytest.mark.parametrize("name", registry.BENCHMARKS)
def test_each_benchmark_gives_rows(name, tmp_path, monkeypatch):
    monkeypatch.delenv("KVBOUND_DATA", raising=False)
    monkeypatch.setattr(library, "CHOSEN", ("mars-figure1",))
    monkeypatch.setattr(library, "SECONDS", 0.2)
    monkeypatch.setattr(simulate, "CASES", {"small": ("fcfs", "vllm")})
    monkeypatch.setattr(simulate, "measured", simulate._measure)  # in this process
    monkeypatch.setitem(simulate.TRACES, "small", "mars-figure1")
    for what in ("STUDIES", "RESULTS"):
        monkeypatch.setattr(registry, what, tmp_path)
    (tmp_path / f"{name}.toml").write_text(STUDY)
    registry.main([name])
    (file,) = tmp_path.glob("*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows
    assert {row["benchmark"] for row in rows} == {name}


def test_what_is_no_benchmark_is_refused():
    with pytest.raises(SystemExit, match=r"no benchmark is called nothing; there are hour, library"):
        registry.main(["nothing"])


def compare_libraries(monkeypatch):
    record = str(FOLDER / "records" / "library.jsonl")
    library.main([record, record, "profile.svg"])
    assert "<svg" in Path("profile.svg").read_text()


def measure_options(monkeypatch):
    monkeypatch.setattr(options, "RECORD", Path("record.csv"))
    monkeypatch.setattr(options, "SEEDS", range(2))
    monkeypatch.setitem(options.CASES, "events", ("events", "mars-figure1"))
    Path("record.csv").write_text((FOLDER / "records" / "options.csv").read_text())
    options.main(["events"])
    row = next(row for row in table_rows(Path("record.csv")) if row["option"].startswith("events."))
    assert row["read"] == "1"


def beside_bounds(monkeypatch):
    for name, given in {
        "RECORD": Path("engines.jsonl"),
        "WORKLOADS": {"short": ("generate fixed --n 2 --rate 1 --prompt 64 --output 2", 1.0)},
        "MODELS": dict([next(iter(against_bounds.MODELS.items()))]),
        "WORK": {"total-flow-time": 200_000}, "ROUNDS": 1,
    }.items():  # fmt: skip
        monkeypatch.setattr(against_bounds, name, given)
    against_bounds.main()
    (row,) = map(json.loads, Path("engines.jsonl").read_text().splitlines())
    assert 0 < row["total-flow-time"]["bound"] <= row["total-flow-time"]["best"]


def write_the_worst(monkeypatch):
    for name in ("WORST_OBJECTIVES", "WORST_POLICIES", "WORST_SIZES"):
        monkeypatch.setattr(worst, name, getattr(worst, name)[:1])
    whole = worst.whole_rows
    monkeypatch.setattr(worst, "whole_rows", lambda n: whole(1))
    assert worst.page().count(f"| {worst.WORST_POLICIES[0]} |") == 2


def ask_engines(monkeypatch):
    """Our policy stands in for vLLM, which is not at hand."""

    class Vllm:
        name = "vLLM"

        def __init__(self, folder):
            self.run = lambda instance, policy: engines.ours(instance, policy)[0]

    monkeypatch.setattr(engines, "Vllm", Vllm)
    Path("vllm/v1").mkdir(parents=True)
    monkeypatch.setattr(sys, "argv", ["engines", "--vllm", ".", "--seeds", "2"])
    engines.main()


def test_dynamo_is_asked_for_the_same_requests(monkeypatch, tmp_path, capsys):
    """A stand-in for NVIDIA's core that answers each request alone, which is right where nobody waits."""

    def replay(files, extra_engine_args, capture_per_request):
        found = []
        for line in Path(files[0]).read_text().splitlines():
            row = json.loads(line)
            begin, more = row["timestamp"], (row["output_length"] - 1) * extra_engine_args["timing_model"]["decode_ms"]
            first = begin + extra_engine_args["timing_model"]["prefill_ms"]
            found.append({"arrival_time_ms": begin, "first_token_ms": first, "last_token_ms": first + more, **row})
        return SimpleNamespace(per_request=found)

    core = SimpleNamespace(_normalize_mocker_config=lambda given: given["engine"], run_mocker_trace_replay=replay)
    monkeypatch.setitem(sys.modules, "dynamo._core", core)
    (tmp_path / "ai_dynamo_runtime-1.6.1.dist-info").mkdir()
    asked = dynamo.Dynamo(tmp_path)
    assert asked.name == "Dynamo 1.6.1"
    machine = kv.Machine(memory=40, block=1, batch_tokens=32, evict=True)
    sizes = ((3, 8, 4), (9, 8, 2), (9, 8, 2))
    alone, together = (
        kv.Instance(name=name, machine=machine, cost=kv.Cost.unit(), requests=tuple(
            kv.Request(id=f"r{k}", arrival=arrival, prompt=prompt, segments=(kv.Segment(decode=output),))
            for k, (arrival, prompt, output) in enumerate(sizes[:count])
        ))
        for name, count in (("alone", 2), ("together", 3))
    )  # fmt: skip
    dynamo.beside(asked, [alone, together], lambda _: [], lambda _: [])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "vLLM and vllm-v1 differ in 0 of 2 workloads",
        "Dynamo 1.6.1, nobody preempted: 2 equal, 0 differ",
        "Dynamo 1.6.1, preempted: 0 equal, 0 differ",
    ]
    late = alone.replace(requests=tuple(one.replace(arrival=3 + k) for k, one in enumerate(alone.requests)))
    dynamo.beside(asked, [late], lambda _: [], lambda given: [dynamo.Step(given.requests[0].arrival, [], {})])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "vLLM and vllm-v1 differ in 1 of 1 workloads"
    assert lines[3:] == [
        "alone: 40 blocks of 2, None requests",
        "  (0, 8, 4, 1, 3001), vllm-v1 (1, 3002)",
        "  (1000, 8, 2, 1001, 2001), vllm-v1 (2002, 3002)",
    ]


def compile_kernels(monkeypatch):
    pytest.importorskip("triton", reason="the kernels need PyTorch and Triton")
    from benchmarks import compiled

    assert [source.name for source in compiled.others()]


def agree(monkeypatch):
    pytest.importorskip("torch", reason="the engine needs PyTorch")
    from benchmarks import agreement

    monkeypatch.setattr(agreement, "gate", lambda: ({"none": {"rows": [], "ranking": {"pairs": []}}}, [[]]))
    assert agreement.main() == 0


def beside_single_methods(monkeypatch):
    from benchmarks import side_by_side

    monkeypatch.setattr(side_by_side, "CASES", {"five": "generate fixed --n 2 --prompt 8 --output 2 --memory 128"})
    (row,) = side_by_side.rows(10_000, [])
    assert row["bound_ratio"] >= 0.9
    assert row["bound"] <= row["value"]


def count_proved(monkeypatch):
    """A program that says the same of all."""
    program, rows, record = Path("program"), Path("rows.jsonl"), Library().record("mars-figure1")
    program.write_text("#!/bin/sh\necho proved 29 by 0 states\n")
    program.chmod(0o755)
    monkeypatch.setattr(machine_checked, "program", program.absolute)
    monkeypatch.setattr(Library, "records", lambda self: [record])
    for _ in "ab":  # the second has nothing left to do
        proved.main(rows, 1)
        found = [json.loads(line) for line in rows.read_text().splitlines()]
        assert [row["why_not"] for row in found if row["objective"] == "total-flow-time"] == [""]


def reduce_an_instance(monkeypatch):
    """To two segments of a token each in units of 1024 tokens, which any way proves."""
    small = reduced(Library().instance(Library().record("ve-2")), 1024, 2)
    assert [(one.output, one.prompt, len(one.segments)) for one in small.requests] == [(2, 2, 2)] * 2
    assert kv.solve(small, ways=("events",), work=3_000_000).value == 6_043_898


RUNS: dict[str, Run] = {
    "benchmarks": lambda monkeypatch: registry.machine(), "benchmarks.library": compare_libraries,
    "benchmarks.options": measure_options, "benchmarks.against_bounds": beside_bounds,
    "benchmarks.worst": write_the_worst, "benchmarks.engines": ask_engines, "benchmarks.compiled": compile_kernels,
    "benchmarks.proved": count_proved, "benchmarks.agreement": agree,
    "benchmarks.side_by_side": beside_single_methods, "benchmarks.reduced": reduce_an_instance,
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_each_module_runs(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUNS[module](monkeypatch)
