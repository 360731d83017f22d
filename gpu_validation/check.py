"""Runs the four levels of `gpu_validation.truth` on a device: `python -m gpu_validation.check --device cuda`."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from costmodels.models import MODELS
from gpu_validation.measure import facts
from gpu_validation.scenarios import workload
from gpu_validation.truth import Record, check_all
from kvcore.files import write_text


def check(device: str) -> list[Record]:
    """Return the records: on a GPU of the 1B model and the Triton kernels, on a CPU of the tiny one and plain torch."""
    if device == "cpu":
        return check_all(MODELS["tiny"], workload(), device, "torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    return check_all(MODELS["llama-3.2-1b"], workload(block=16), device, "triton")


def main(arguments: list[str] | None = None) -> int:
    """Print and write the records; return 0 if every claim holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m gpu_validation.check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args(arguments)
    where = facts(torch.device(given.device), datetime.now(UTC).strftime("%Y-%m-%d"))
    rows = []
    for row in check(given.device):
        rows.append(where | row | {"device": where["device"]})
        held = "holds" if row["holds"] else "DOES NOT HOLD"
        print(f"{row['level']} {row['dtype']} {row['backend']}: {row['schedule']} {held}", flush=True)
    if given.json is not None:
        write_text(given.json, json.dumps({"rows": rows}, indent=1))
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
