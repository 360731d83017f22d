"""Whether a machine can measure, and its KV is true: `python -m gpu_validation.check --device cuda`.

`--preflight` compiles every variant of attention and compares it with plain torch, and lists what is missing
(20 s); without it the four levels of `gpu_validation.truth` run.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from costmodels.models import LLAMA_1B, MODELS, TINY
from gpu_validation.attention_bench import prepared
from gpu_validation.attention_case import AttentionCase, CaseData
from gpu_validation.devices import open_backend
from gpu_validation.kernels.variants import VARIANTS
from gpu_validation.measure import facts
from gpu_validation.peers import ours
from gpu_validation.scenarios import workload
from gpu_validation.truth import check_all
from kvcore.files import write_text

Row = dict[str, Any]
HELD = workload(requests=24, prompt=1000, step=40, block=16)  # enough contexts for every variant


def preflight(device: torch.device) -> Iterator[Row]:
    """Yield a row for each thing that is needed, or good to have (`needed` false)."""
    on_gpu = device.type == "cuda"
    has = {
        "a C compiler": any(map(shutil.which, ("cc", "gcc", "clang"))),
        "Python.h": Path(sysconfig.get_paths()["include"], "Python.h").exists(),
        "nvidia-smi": shutil.which("nvidia-smi") is not None,
        **{name: importlib.util.find_spec(name) is not None for name in ("triton", "flashinfer")},
        "nvcc (for flashinfer)": shutil.which("nvcc") is not None,
    }
    needed = ("a C compiler", "Python.h", "triton") if on_gpu else ()
    for what, there in has.items():
        yield _row(what, "" if there else "is not here", what in needed)
    for (name, size), _ in VARIANTS.items() if on_gpu and has["triton"] else ():
        for dtype in (dtype for dtype in (torch.bfloat16, torch.float32) if dtype.itemsize == size):
            for model in (LLAMA_1B, MODELS["llama-3-8b"]):
                wrong = _attention(name, model, dtype, device)
                yield _row(f"{name}, {dtype}, D {model.head_width}", wrong, size == 2 and model is LLAMA_1B)


def _row(what: str, wrong: str, needed: bool) -> Row:
    return {"level": "preflight", "check": what, "holds": not wrong, "needed": needed, "error": wrong}


def _attention(name: str, model: Any, dtype: torch.dtype, device: torch.device) -> str:
    from gpu_validation.kernels.backend import TritonBackend

    variant = VARIANTS[name, dtype.itemsize]
    work = ((1, 1200), (1, 77)) if variant.split else ((130, 1000), (1, 77))
    data = CaseData.make(AttentionCase("mixed", model, work), device, dtype, layers=1)
    found = prepared(ours(partial(TritonBackend, device, variant=variant), name), data)
    return found if isinstance(found, str) else ""


def main(arguments: list[str] | None = None) -> int:
    """Check the 1B model and the Triton kernels on a GPU, the tiny one and plain torch on a CPU.

    Write the records; return 0 if every claim holds and nothing needed is missing, else 1.
    """
    parser = argparse.ArgumentParser(prog="python -m gpu_validation.check", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--preflight", action="store_true")
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args(arguments)
    open_backend(given.device, "torch")
    device = torch.device(given.device)
    all_levels = partial(check_all, LLAMA_1B, HELD, chunk=300)
    if given.device == "cpu":
        all_levels = partial(check_all, TINY, workload(), "cpu", "torch")
    rows = list(preflight(device)) if given.preflight else all_levels()
    for row in rows:
        held = "holds" if row["holds"] else row.get("error") or "DOES NOT HOLD"
        print(f"{row['level']} {row.get('dtype', '')}: {row.get('check', row.get('schedule'))} {held}")
    if given.json is not None:
        where = facts(device)
        write_text(given.json, json.dumps({"rows": [row | where for row in rows]}, indent=1))
    return 0 if all(row["holds"] or not row.get("needed", True) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
