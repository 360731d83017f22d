"""The script that measures everything, and the table of targets that is read from its records."""

import json
import sys
import zipfile

import pytest

from gpu_validation import record
from gpu_validation.record import RECORDS, RecordStep, main, steps
from gpu_validation.targets import NOT_YET, table, targets

GPU = {"device_type": "cuda", "device": "NVIDIA H200"}


def write(folder, name, found):
    (folder / f"{name}.json").write_text(json.dumps(found))


def kernels():
    """Large decodes and prompts of two widths, and what counts for nothing: a small one, a short one, a peer's."""
    row = {**GPU, "ours": True, "peer": "ours, triton", "head_width": 64, "longest": 2048, "seconds_median": 1e-3}
    decode = row | {"kind": "decode", "kv_bytes": 6e8, "of_read": 0.9, "over_best_peer": 1.1}
    prompt = row | {"kind": "prefill", "over_best_peer": 0.9}
    return {
        "rows": [
            decode, decode | {"head_width": 128, "over_best_peer": 0.95, "of_read": 0.88},
            decode | {"kv_bytes": 1e6, "of_read": 0.1, "over_best_peer": 0.2}, prompt,
            prompt | {"head_width": 128, "over_best_peer": 0.7}, prompt | {"longest": 512, "over_best_peer": 0.1},
            prompt | {"ours": False, "over_best_peer": 0.1}, decode | {"error": "broken", "seconds_median": 1.0},
        ]
    }  # fmt: skip


def calibration():
    swap = {"direction": "in", "tokens": 64, "alone": 1e-3, "without": 2e-3, "hidden": 0.95, "bytes_per_second": 1e10}
    return {
        "device": GPU,
        "bandwidths": [
            {"quantity": "host to device", "per_second": 5e10}, {"quantity": "device to host", "per_second": 4e10},
        ],
        "rows": [{"label": "decode", "batch": "64 x 1 at 2048", "over_floor": 1.15}],
        "swaps": [
            swap,
            swap | {"tokens": 1024, "bytes_per_second": 4.8e10},
            swap | {"direction": "out", "tokens": 1024, "bytes_per_second": 3.9e10, "hidden": 0.92},
            swap | {"direction": "out", "tokens": 4096, "bytes_per_second": 3.9e10, "hidden": 0.1, "alone": 3e-3},
        ],
        "fit": {"held_out": {"mean": 0.02}},
    }  # fmt: skip


def replay(median, p95, makespan_error, tau, regret, bound, throttled):
    row = {"batch_error": {"median": median, "p95": p95}, "makespan_error": makespan_error, "launch_bound": bound}
    return {**GPU, "rows": [row], "kendall_tau": tau, "regret": regret, "throttled": throttled}


def all_records(folder):
    write(folder, "kernels", kernels())
    write(folder, "calibration", calibration())
    write(folder, "truth", {"rows": [GPU | {"holds": True}] * 4})
    write(folder, "replay-a", replay(0.02, 0.1, -0.06, 0.8, 0.01, 0.0, False))
    write(folder, "replay-b", replay(0.04, 0.2, 0.01, 1.0, 0.0, 0.05, True))
    return folder


def test_every_quantity_is_read_from_the_records(tmp_path):
    found = targets(all_records(tmp_path))
    values = [target.value for target in found]
    assert values == pytest.approx(
        [1, 0.88, 1.1, 0.95, 0.9, 0.7, 1.15, 0.96, 0.92, 0.02, 0.04, 0.2, 0.06, 0.8, 0.01, 0.05, 0.5]
    )
    met = [target.row().endswith("| yes |") for target in found]
    missed = {k for k, good in enumerate(met) if not good}
    assert missed == {3, 5, 11, 12, 13, 16}  # peers at D 128, the 95th percentile, makespan, tau, throttling


def test_without_records_nothing_was_measured(tmp_path):
    assert all(target.value is None for target in targets(tmp_path))
    assert table(tmp_path).count(NOT_YET) == len(targets(tmp_path))


@pytest.mark.parametrize("name", ["kernels", "calibration", "truth", "replay-a", "replay-b"])
def test_records_of_a_cpu_count_for_nothing(tmp_path, name):
    before, file = targets(all_records(tmp_path)), tmp_path / f"{name}.json"
    file.write_text(file.read_text().replace('"cuda"', '"cpu"'))
    assert targets(tmp_path) != before


def test_the_committed_table_is_what_the_records_say():
    assert (RECORDS / "README.md").read_text(encoding="utf-8") == table(RECORDS)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_all_steps_take_less_than_half_an_hour(device, tmp_path):
    planned = steps(device, tmp_path)
    assert sum(step.seconds for step in planned) <= 1800
    assert len({step.name for step in planned}) == len(planned)
    assert [step.name for step in planned[:3]] == ["preflight", "calibration", "replay-slice"]
    for k, step in enumerate(planned):
        assert set(step.after) <= {before.name for before in planned[:k]}


def given_steps(monkeypatch, *planned):
    monkeypatch.setattr(record, "steps", lambda device, folder: list(planned))


def test_a_step_that_fails_or_hangs_leaves_the_others_whole(tmp_path, monkeypatch):
    given_steps(
        monkeypatch,
        RecordStep("fails", ("-c", "import sys; sys.exit('no memory')"), 10**6),
        RecordStep("hangs", ("-c", "import time; time.sleep(600)"), 1),
        RecordStep("needs it", ("-c", "0"), 20, ("fails",)),
        RecordStep("works", ("-c", "print('fine')"), 10**6),
        RecordStep("stops", ("-c", "raise SystemExit(130)"), 10**6),  # with what it had, as the commands do
    )
    rows = {row["step"]: row for row in record.record("cuda", tmp_path)}
    assert [rows[name]["ok"] for name in rows] == [False, False, False, True, True]
    assert rows["fails"]["error"] == "no memory"
    assert "stopped after 1 s" in rows["hangs"]["error"]
    assert rows["needs it"]["error"] == "fails failed"
    assert (tmp_path / "works.log").read_text() == "fine\n"
    assert json.loads((tmp_path / "steps.json").read_text())["steps"] == list(rows.values())
    assert "Steps that failed: fails (no memory); hangs (" in table(tmp_path)


def test_a_step_that_is_told_to_stop_may_write_what_it_has(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    code = (
        "import signal, sys, time, pathlib\n"
        f"def stop(*_): pathlib.Path({str(kept)!r}).write_text('rows'); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "time.sleep(600)"
    )
    waited = record.subprocess.Popen.wait

    def wait(self, timeout=None):  # the limit is reached once the step has begun, however long that takes
        while timeout == 1 and not (tmp_path / "begun").exists():
            pass
        return waited(self, timeout)

    monkeypatch.setattr(record.subprocess.Popen, "wait", wait)
    given_steps(monkeypatch, RecordStep("long", ("-c", code), 1))
    [row] = record.record("cuda", tmp_path)
    assert (row["ok"], row["exit_code"], kept.read_text()) == (True, 130, "rows")


def test_called_again_only_what_is_missing_is_measured(tmp_path, monkeypatch):
    """And with too little left of the budget nothing is begun."""
    begun = []

    def run(step, folder, limit):
        begun.append((step.name, limit))
        return {"step": step.name, "ok": step.name != "second" or len(begun) > 4, "error": "lost"}

    monkeypatch.setattr(record, "run", run)
    given_steps(monkeypatch, *(RecordStep(name, (), 50) for name in ("first", "second", "third")))
    moments = iter([0, 0, 70, 90])
    monkeypatch.setattr(record.time, "monotonic", lambda: next(moments))
    rows = record.record("cuda", tmp_path, budget=100)
    assert begun == [("first", 50), ("second", 30)]
    assert rows[2]["error"] == "no time was left; run the same again"
    monkeypatch.setattr(record.time, "monotonic", lambda: 0)
    record.record("cuda", tmp_path)
    assert [name for name, _ in begun[2:]] == ["second", "third"]
    rows = record.record("cuda", tmp_path, ["first"])
    assert [name for name, _ in begun[4:]] == ["first"]
    assert [row["step"] for row in rows] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [(["--device", "cpu"], "say with --out where it may write"), (["--steps", "all"], "there is no step 'all'")],
)
def test_bad_arguments(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_dry_run_has_no_limits(tmp_path, monkeypatch):
    limits = []

    def run(step, folder, limit):
        limits.append(limit)
        return {"step": step.name, "ok": True}

    monkeypatch.setattr(record, "run", run)
    record.record("cpu", tmp_path)
    assert limits == [None] * len(steps("cpu", tmp_path))


@pytest.mark.slow
def test_the_dry_run_goes_through_every_step(tmp_path):
    assert main(["--device", "cpu", "--out", str(tmp_path)]) == 0, (tmp_path / "steps.json").read_text()
    done = json.loads((tmp_path / "steps.json").read_text())["steps"]
    assert [row["step"] for row in done] == [step.name for step in steps("cpu", tmp_path)]
    assert table(tmp_path).count(NOT_YET) == len(targets(tmp_path))  # a CPU is no GPU
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("replay-slice", "kernels")}
    assert {row["schedule"] for row in found["replay-slice"]["rows"]} >= {"vllm", "infercept", "mars"}
    with zipfile.ZipFile(tmp_path.parent / f"{tmp_path.name}-of-kvbound.zip") as sent:
        assert {"steps.json", "README.md", "preflight.json", "cost.json"} <= set(sent.namelist())
    assert sys.executable not in (tmp_path / "steps.json").read_text()
