"""The script that measures everything, and the table of targets that is read from its records."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpu_validation import record
from gpu_validation.record import RECORDS, Step, main, steps
from gpu_validation.targets import NOT_YET, table, targets

GPU = {"device_type": "cuda", "device": "NVIDIA H200"}


def write(folder: Path, name: str, found: dict) -> None:
    (folder / f"{name}.json").write_text(json.dumps(found))


def kernels(**changes):
    """A large decode, a small one that counts for nothing, prompts, and flex on one of them."""
    row = {**GPU, "ours": True, "peer": "ours, triton", "model": "m", "longest": 2048, "seconds_median": 1e-3}
    decode = row | {"kind": "decode", "case": "d", "kv_bytes": 6e8, "of_read": 0.9, "over_best_peer": 1.1}
    return {
        "rows": [
            decode | changes,
            decode | {"kv_bytes": 1e6, "of_read": 0.1, "over_best_peer": 0.2},
            row | {"kind": "prefill", "case": "p", "flop_per_second": 5e14},
            row | {"kind": "prefill", "case": "s", "flop_per_second": 1e14, "longest": 512},
            row | {"kind": "prefill", "case": "p", "ours": False, "peer": "flex", "seconds_median": 2e-3},
        ]
    }


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


def replay(mape, makespan_error, clear, right):
    return {
        **GPU,
        "rows": [{"mape": mape, "makespan_error": makespan_error}],
        "ranking": {"clear": clear, "clear_and_right": right},
    }


def all_records(folder: Path) -> Path:
    write(folder, "kernels", kernels())
    write(folder, "calibration", calibration())
    write(folder, "truth", {"rows": [GPU | {"holds": True}] * 4})
    write(folder, "replay-a", replay(0.02, -0.03, 10, 9))
    write(folder, "replay-b", replay(0.04, 0.01, 10, 10))
    return folder


def test_every_quantity_is_read_from_the_records(tmp_path):
    found = targets(all_records(tmp_path))
    values = [target.value for target in found]
    assert values == pytest.approx([1, 0.9, 1.1, 500, 2, 1.15, 0.96, 0.92, 0.02, 0.03, 0.03, 0.95])
    met = [target.row().endswith("| yes |") for target in found]
    assert met == [True] * 10 + [False, True]  # the makespan is missed


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
def test_all_steps_take_less_than_20_minutes(device, tmp_path):
    planned = steps(device, tmp_path)
    assert sum(step.seconds for step in planned) <= 1200
    assert len({step.name for step in planned}) == len(planned)
    for k, step in enumerate(planned):
        assert set(step.after) <= {before.name for before in planned[:k]}


def test_a_step_that_fails_or_hangs_leaves_the_others_whole(tmp_path, monkeypatch):
    def planned(device, folder):
        return [
            Step("fails", ("-c", "import sys; sys.exit('no memory')"), 10**6),
            Step("hangs", ("-c", "import time; time.sleep(600)"), 1),
            Step("needs it", ("-c", "0"), 20, ("fails",)),
            Step("works", ("-c", "print('fine')"), 10**6),
        ]

    monkeypatch.setattr(record, "steps", planned)
    rows = {row["step"]: row for row in record.record("cuda", tmp_path)}
    assert [rows[name]["ok"] for name in rows] == [False, False, False, True]
    assert rows["fails"]["error"] == "no memory"
    assert "stopped after 1 s" in rows["hangs"]["error"]
    assert rows["needs it"]["error"] == "fails failed"
    assert (tmp_path / "works.log").read_text() == "fine\n"
    assert json.loads((tmp_path / "steps.json").read_text())["steps"] == list(rows.values())
    assert "Steps that failed: fails (no memory); hangs (" in table(tmp_path)


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
        assert "--time-limit" not in step.arguments
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
    assert sys.executable not in (tmp_path / "steps.json").read_text()
