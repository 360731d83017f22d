"""Each `python -m benchmarks..` runs, on its smallest case; a new one needs a function here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import __main__ as registry
from benchmarks import against_bounds, library, options, proved, simulate, worst
from benchmarks.engines import __main__ as engines
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


def compile_kernels(monkeypatch):
    pytest.importorskip("triton", reason="the kernels need PyTorch and Triton")
    from benchmarks import compiled

    assert [source.name for source in compiled.others()]


def agree(monkeypatch):
    pytest.importorskip("torch", reason="the engine needs PyTorch")
    from benchmarks import agreement

    monkeypatch.setattr(agreement, "gate", lambda: ({"none": {"rows": [], "ranking": {"pairs": []}}}, [[]]))
    assert agreement.main() == 0


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


RUNS: dict[str, Run] = {
    "benchmarks": lambda monkeypatch: registry.machine(), "benchmarks.library": compare_libraries,
    "benchmarks.options": measure_options, "benchmarks.against_bounds": beside_bounds,
    "benchmarks.worst": write_the_worst, "benchmarks.engines": ask_engines, "benchmarks.compiled": compile_kernels,
    "benchmarks.proved": count_proved, "benchmarks.agreement": agree,
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_each_module_runs(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RUNS[module](monkeypatch)
