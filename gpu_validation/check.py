"""Runs the four levels of `gpu_validation.truth` on a device: `python -m gpu_validation.check --device cuda`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from costmodels.models import MODELS
from gpu_validation.devices import open_backend
from gpu_validation.engine import Engine
from gpu_validation.measure import facts
from gpu_validation.scenarios import workload
from gpu_validation.truth import (
    forced_logits_are_close,
    logits_are_bitwise_equal,
    swaps_are_exact,
    tokens_are_equal,
    truth_plans,
)


def check(device: str) -> Iterator[dict[str, Any]]:
    """Yield the records: on a GPU of the Triton kernels, all levels; on a CPU of plain torch, L0, L1 and L3."""
    on_gpu = device == "cuda"
    backend = open_backend(device, "triton" if on_gpu else "torch")
    model, block = MODELS["llama-3.2-1b" if on_gpu else "tiny"], 16 if on_gpu else 4
    plans = truth_plans(workload(block=block))
    fast = Engine(model, backend, dtype=torch.bfloat16)
    yield swaps_are_exact(fast, plans["preserve"], plans["swap"])
    yield from forced_logits_are_close(fast, plans)
    del fast
    exact = Engine(model, backend, dtype=torch.float32 if on_gpu else torch.float64)
    yield from tokens_are_equal(exact, plans)
    del exact
    if on_gpu:  # L2 is a claim of the strict kernels; the tests make it of them in the interpreter
        from gpu_validation.kernels.backend import TritonBackend

        strict = Engine(model, TritonBackend(backend.device, strict=True), dtype=torch.bfloat16)
        yield from logits_are_bitwise_equal(strict, plans)


def main(arguments: list[str] | None = None) -> int:
    """Print and write the records; return 0 if every claim holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m gpu_validation.check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args(arguments)
    torch.backends.cuda.matmul.allow_tf32 = False
    where = facts(torch.device(given.device), datetime.now(UTC).strftime("%Y-%m-%d"))
    rows = []
    for row in check(given.device):
        rows.append(where | row | {"device": where["device"]})
        held = "holds" if row["holds"] else "DOES NOT HOLD"
        print(f"{row['level']} {row['dtype']} {row['backend']}: {row['schedule']} {held}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"rows": rows}, indent=1), encoding="utf-8")
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
