"""A matrix product whose rows do not depend on the batch: fixed tiles, one order of the sum over `in`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.kernels.launch import numeric


@triton.jit(do_not_specialize=["rows"])
def matmul_kernel(
    x, weight, out, rows, row_stride,
    IN: tl.constexpr, OUT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    UPCAST: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write a tile of x [rows, IN] times weight [OUT, IN] transposed."""
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    xs = x + m.to(tl.int64)[:, None] * row_stride + k[None, :]
    weights = weight + n.to(tl.int64)[:, None] * IN + k[None, :]
    acc = tl.zeros([BLOCK_M, BLOCK_N], ACC)
    for first in range(0, IN, BLOCK_K):
        inside = (first + k < IN)[None, :]
        a = tl.load(xs + first, mask=(m < rows)[:, None] & inside, other=0.0)
        b = tl.load(weights + first, mask=(n < OUT)[:, None] & inside, other=0.0)
        if UPCAST:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee", out_dtype=ACC)
    there = (m < rows)[:, None] & (n < OUT)[None, :]
    at = m.to(tl.int64)[:, None] * OUT + n[None, :]
    tl.store(out + at, acc.to(out.dtype.element_ty), mask=there)


def constants(dtype: torch.dtype) -> dict[str, int]:
    """Return the tile: wgmma for 16-bit numbers, small for fp32."""
    tile = (32, 32, 32) if dtype.itemsize == 4 else (64, 128, 64)
    return dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))


def matmul(x: Tensor, weight: Tensor) -> Tensor:
    """Return x [rows, in], of any row stride, times weight [out, in] transposed."""
    rows, sizes = x.shape[0], {"IN": x.shape[1], "OUT": weight.shape[0], **constants(x.dtype)}
    out = torch.empty((rows, sizes["OUT"]), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, sizes["BLOCK_M"]), triton.cdiv(sizes["OUT"], sizes["BLOCK_N"]))
    tensors = (x, weight, out)
    matmul_kernel[grid](*tensors, rows, x.stride(0), **sizes, **numeric(x.dtype), num_warps=4, num_stages=3)
    return out
