"""The steps that measure everything on a GPU: gpu_validation/records/Makefile."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

RECORDS = Path(__file__).parents[2] / "gpu_validation" / "records"


def make(*given):
    command = ["make", "--no-print-directory", "-C", RECORDS, f"PYTHON={sys.executable}", *given]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_steps_take_less_than_half_an_hour(tmp_path):
    said = make("-n", f"OUT={tmp_path}")
    assert said.returncode == 0, said.stderr
    limits = re.findall(r"^timeout --preserve-status -k 30 (\d+) ", said.stdout, re.MULTILINE)
    assert len(limits) == 11
    assert sum(map(int, limits)) <= 1800


def test_only_what_is_missing_is_measured(tmp_path):
    for name in ("calibration.json", "replay-slice.json"):
        (tmp_path / name).touch()
    said = make("-n", f"OUT={tmp_path}", "DEVICE=cpu").stdout
    assert re.findall(r"-m (?:kvbound )?([\w.]+)", said) == ["gpu_validation.check", "generate", "replay", "kernels"]


@pytest.mark.parametrize(("code", "made"), [(0, True), (130, True), (1, False)])
def test_a_step_that_was_stopped_counts_and_one_that_fails_leaves_the_others_whole(code, made, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $*\nexit {code}\n")
    python.chmod(0o755)
    said = make("-k", f"OUT={tmp_path}", f"PYTHON={python}", "DEVICE=cpu")
    assert (said.returncode == 0) == made
    assert "kernels --device cpu" in (tmp_path / "kernels.log").read_text()  # whatever failed before


@pytest.mark.slow
def test_the_dry_run_goes_through_every_step(tmp_path):
    said = make("-k", f"OUT={tmp_path}", "DEVICE=cpu")
    assert said.returncode == 0, said.stdout + said.stderr
    names = ("calibration", "truth", "replay-slice", "replay-mixture-1", "kernels")
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in names}
    assert {row["schedule"] for row in found["replay-slice"]["rows"]} >= {"vllm", "infercept", "mars"}
    assert found["truth"]["rows"][0]["device_type"] == "cpu"  # which is no GPU
