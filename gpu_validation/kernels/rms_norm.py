"""Root mean square norm of rows, the residual added first."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.kernels.launch import INTERPRETED, numeric


@triton.jit(do_not_specialize=["rows"])
def rms_norm_kernel(
    x, residual, weight, out, total, rows, row_stride, epsilon,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, ROWS: tl.constexpr, ADDS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Norm ROWS rows of x [rows, WIDTH] into `out`; with ADDS, of x + residual, written to `total`."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, PADDED)
    there = (row < rows)[:, None] & (column < WIDTH)[None, :]
    at = row[:, None] * WIDTH + column[None, :]
    wide = tl.load(x + row[:, None] * row_stride + column[None, :], mask=there, other=0.0).to(ACC)
    if ADDS:
        wide += tl.load(residual + at, mask=there, other=0.0).to(ACC)
        narrow = wide.to(total.dtype.element_ty)
        tl.store(total + at, narrow, mask=there)
        wide = narrow.to(ACC)
    mean = tl.sum(wide * wide, 1) / WIDTH
    factor = tl.load(weight + column, mask=column < WIDTH, other=0.0).to(ACC)
    normed = wide * tl.rsqrt(mean + epsilon)[:, None] * factor[None, :]
    tl.store(out + at, normed.to(out.dtype.element_ty), mask=there)


def constants(width: int) -> dict[str, int]:
    """Return the kernel's constants, without type and residual."""
    return {"WIDTH": width, "PADDED": triton.next_power_of_2(width), "ROWS": 16 if INTERPRETED else 1}


def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """As `TorchBackend.rms_norm`, x [rows, width] with any row stride, the residual contiguous."""
    rows, width = x.shape
    sizes = constants(width)
    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    total = x if residual is None else torch.empty_like(out)
    tensors = (x, x if residual is None else residual, weight, out, total)
    types = {"ADDS": residual is not None, "ACC": numeric(x.dtype)["ACC"]}
    grid, warps = (triton.cdiv(rows, sizes["ROWS"]),), 4 if width <= 4096 else 8
    rms_norm_kernel[grid](*tensors, rows, x.stride(0), epsilon, **sizes, **types, num_warps=warps)
    return out, total
