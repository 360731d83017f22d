"""The script that measures everything."""

import json
import sys
import zipfile

import pytest

from gpu_validation import record
from gpu_validation.record import RecordStep, main, steps


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
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("replay-slice", "kernels")}
    assert {row["schedule"] for row in found["replay-slice"]["rows"]} >= {"vllm", "infercept", "mars"}
    with zipfile.ZipFile(tmp_path.parent / f"{tmp_path.name}-of-kvbound.zip") as sent:
        assert {"steps.json", "preflight.json", "cost.json"} <= set(sent.namelist())
    assert sys.executable not in (tmp_path / "steps.json").read_text()
