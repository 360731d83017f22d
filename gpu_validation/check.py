"""Whether the KV is true: `python -m gpu_validation.check --device cuda`; `gpu_validation.truth` has the levels."""

import argparse
import json
import sys
from pathlib import Path

import torch

from costmodels.models import LLAMA_1B, TINY
from gpu_validation.devices import open_backend
from gpu_validation.measure import facts
from gpu_validation.scenarios import workload
from gpu_validation.truth import check_all
from kvcore.files import write_text

HELD = workload(requests=24, prompt=1000, step=40, block=16)  # enough contexts for every variant


def main(arguments: list[str] | None = None) -> int:
    """Check the 1B model and the Triton kernels on a GPU, the tiny one and plain torch on a CPU.

    Write the records; return 0 if every claim holds, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m gpu_validation.check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args(arguments)
    open_backend(given.device, "torch")
    on_gpu = given.device == "cuda"
    rows = check_all(LLAMA_1B, HELD, chunk=300) if on_gpu else check_all(TINY, workload(), "cpu", "torch")
    for row in rows:
        print(f"{row['level']} {row['dtype']}: {row['schedule']} {'holds' if row['holds'] else 'DOES NOT HOLD'}")
    if given.json is not None:
        where = facts(torch.device(given.device))
        write_text(given.json, json.dumps({"rows": [row | where for row in rows]}, indent=1))
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
