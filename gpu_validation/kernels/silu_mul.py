"""The gate of a gated MLP."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.kernels.launch import INTERPRETED, numeric


@triton.jit(do_not_specialize=["rows"])
def silu_mul_kernel(
    x, out, rows, row_stride, HIDDEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr
):
    """Write silu(x[:, :HIDDEN]) * x[:, HIDDEN:] for ROWS rows and BLOCK columns."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = (row < rows)[:, None] & (column < HIDDEN)[None, :]
    at = row[:, None] * row_stride + column[None, :]
    gate = tl.load(x + at, mask=there, other=0.0).to(ACC)
    up = tl.load(x + at + HIDDEN, mask=there, other=0.0).to(ACC)
    result = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out + row[:, None] * HIDDEN + column[None, :], result.to(out.dtype.element_ty), mask=there)


def constants(hidden: int) -> dict[str, int]:
    """Return the kernel's constants, without the type."""
    return {"HIDDEN": hidden, "ROWS": 16 if INTERPRETED else 1, "BLOCK": min(1024, triton.next_power_of_2(hidden))}


def silu_mul(x: Tensor) -> Tensor:
    """As `TorchBackend.silu_mul`, x [rows, 2 hidden] with any row stride."""
    rows, hidden = x.shape[0], x.shape[1] // 2
    sizes = constants(hidden)
    out = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, sizes["ROWS"]), triton.cdiv(hidden, sizes["BLOCK"]))
    silu_mul_kernel[grid](x, out, rows, x.stride(0), **sizes, ACC=numeric(x.dtype)["ACC"], num_warps=4)
    return out
