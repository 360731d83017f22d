"""Runs the four levels of `gpu_validation.truth` on a device: `python -m gpu_validation.check --device cuda`."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from costmodels.models import MODELS, Model
from gpu_validation import truth
from gpu_validation.devices import open_backend
from gpu_validation.engine import Engine
from gpu_validation.measure import facts
from gpu_validation.scenarios import workload
from kvcore.files import write_text
from kvcore.instance import Instance


def check_all(model: Model, instance: Instance, device: str = "cuda", backend: str = "triton") -> list[truth.Record]:
    """Return the records of all levels on a device: L0, L3 and the strict L2 in bf16, L1 in fp32 (fp64 on a CPU).

    On a CPU the strict kernels run in the interpreter, and in fp64; plain torch has none, and no L2.
    """
    exact = torch.float32 if device == "cuda" else torch.float64
    plans = truth.truth_plans(instance)

    def engine(dtype: torch.dtype, strict: bool = False) -> Engine:
        return Engine(model, open_backend(device, backend, strict=strict), dtype=dtype)

    fast = engine(torch.bfloat16)
    records = [
        truth.swaps_are_exact(fast, plans["preserve"], plans["swap"]),
        *truth.forced_logits_are_close(fast, plans),
    ]
    del fast  # the GPU holds one model at a time
    records += truth.tokens_are_equal(engine(exact), plans)
    if backend == "triton":
        strict_dtype = torch.bfloat16 if device == "cuda" else torch.float64
        records += truth.logits_are_bitwise_equal(engine(strict_dtype, strict=True), plans)
    return sorted(records, key=lambda record: str(record["level"]))


def main(arguments: list[str] | None = None) -> int:
    """Check the 1B model and the Triton kernels on a GPU, the tiny one and plain torch on a CPU.

    Print and write the records; return 0 if every claim holds, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m gpu_validation.check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args(arguments)
    where = facts(torch.device(given.device), datetime.now(UTC).strftime("%Y-%m-%d"))
    if given.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        rows = check_all(MODELS["llama-3.2-1b"], workload(block=16))
    else:
        rows = check_all(MODELS["tiny"], workload(), "cpu", "torch")
    for row in rows:
        held = "holds" if row["holds"] else "DOES NOT HOLD"
        print(f"{row['level']} {row['dtype']} {row['backend']}: {row['schedule']} {held}")
    if given.json is not None:
        write_text(given.json, json.dumps({"rows": [row | where for row in rows]}, indent=1))
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
