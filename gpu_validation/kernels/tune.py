"""Time other tile sizes than the table's on a GPU: `python -m gpu_validation.kernels.tune decode|prefill [D]`.

The table in `variants` is edited by hand from what this prints. Llama-like shapes in bf16: 32 heads on 8 KV heads,
blocks of 16 tokens in random order; a candidate is checked before it is timed, as a peer of `kvbound kernels` is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial
from itertools import product

import torch

from costmodels.models import LLAMA_1B
from gpu_validation.attention_bench import bench_case
from gpu_validation.attention_case import Case
from gpu_validation.kernels.backend import TritonBackend
from gpu_validation.kernels.variants import VARIANTS, Variant
from gpu_validation.peers import Ours
from kvcore.errors import BadInput

WORK = {"decode": (((1, 4095),) * 64, ((1, 8191),)), "prefill": (((8192, 0),),)}
"""(rows, KV before them) of each request: a large decode and one that fills the GPU badly, a whole prompt."""
HEAD = f"| block_m | tile | split | warps | stages | ms | TB/s | TFLOP/s |\n{'|---' * 8}|"


def candidates(role: str) -> Iterator[Variant]:
    """Yield variants for decodes or for prefills, the table's own first."""
    base = VARIANTS[role, 2]
    yield base
    if role == "decode":
        for tile, warps, stages in product((32, 64, 128), (1, 2, 4), (2, 3, 4)):
            yield replace(base, tile=tile, warps=warps, stages=stages)
        yield from (replace(base, split=split) for split in (128, 256, 1024))
    else:
        for block_m, tile, warps, stages in product((64, 128), (32, 64, 128), (4, 8), (2, 3, 4)):
            if block_m * tile // warps <= 2048:  # more scores a warp than that leave no registers
                yield replace(base, block_m=block_m, tile=tile, warps=warps, stages=stages)


def sweep(case: Case, variants: Sequence[Variant], device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """Yield a line of Markdown for each variant; one that does not fit, compile or compute what it should says so."""
    for variant in variants:
        ours = Ours(partial(TritonBackend, device, variant=variant), variant.name)
        [row] = bench_case(case, [ours], device, dtype)
        sizes = " | ".join(str(number) for number in astuple(variant)[1:6])
        if "error" in row:
            yield f"| {sizes} | {row['error']} | | |"
        else:
            rates = f"{row['bytes_per_second'] / 1e12:.2f} | {row['flop_per_second'] / 1e12:.0f}"
            yield f"| {sizes} | {1e3 * row['seconds_median']:.4f} | {rates} |"


def main() -> None:
    """Print a table for each batch of a role."""
    role, width = [*sys.argv[1:], *("decode", "64")[len(sys.argv) - 1 :]][:2]
    if role not in WORK:
        raise BadInput(f"no role {role!r}; choose {' or '.join(WORK)}")
    if not torch.cuda.is_available():
        raise BadInput("no GPU is visible to torch: nothing to time")
    for work in WORK[role]:
        case = Case(role, replace(LLAMA_1B, head_width=int(width)), work)
        print(f"\n{case.name}\n{HEAD}")
        for line in sweep(case, list(candidates(role)), torch.device("cuda"), torch.bfloat16):
            print(line, flush=True)


if __name__ == "__main__":
    main()
