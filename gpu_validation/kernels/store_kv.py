"""One kernel that rotates queries and keys, and stores keys and values."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.kernels.launch import INDICES, INTERPRETED, numeric


@triton.jit
def rotated(pointer, at, cosine, sine, there, HALF: tl.constexpr, ACC: tl.constexpr):
    """Load both halves of some heads and return them rotated."""
    left = tl.load(pointer + at, mask=there, other=0.0).to(ACC)
    right = tl.load(pointer + at + HALF, mask=there, other=0.0).to(ACC)
    return left * cosine - right * sine, right * cosine + left * sine


@triton.jit(do_not_specialize=[*INDICES, "rows"])
def store_kv_kernel(
    query, key, value, kv, slots, positions, angles, out,
    rows, query_stride, key_stride, value_stride, block_stride,
    H: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, BS: tl.constexpr, ROWS: tl.constexpr,
    H_PADDED: tl.constexpr, KV_PADDED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Rotate and store ROWS rows: query [rows, H, D] to `out`, key and value [rows, KV, D] to kv at `slots`."""
    HALF: tl.constexpr = D // 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    slot = tl.load(slots + row, mask=inside, other=-1).to(tl.int64)
    position = tl.load(positions + row, mask=inside, other=0).to(tl.int64)
    row = row.to(tl.int64)
    half = tl.arange(0, HALF)
    angle = angles + position[:, None] * D + half[None, :]
    cosine = tl.load(angle).to(ACC)[:, None, :]
    sine = tl.load(angle + HALF).to(ACC)[:, None, :]

    h = tl.arange(0, H_PADDED)
    spread = h[None, :, None] * D + half[None, None, :]
    there = inside[:, None, None] & (h < H)[None, :, None]
    left, right = rotated(query, row[:, None, None] * query_stride + spread, cosine, sine, there, HALF, ACC)
    at = row[:, None, None] * (H * D) + spread
    tl.store(out + at, left.to(out.dtype.element_ty), mask=there)
    tl.store(out + at + HALF, right.to(out.dtype.element_ty), mask=there)

    h = tl.arange(0, KV_PADDED)
    there = (slot >= 0)[:, None, None] & (h < KV)[None, :, None]
    spread = h[None, :, None] * D + half[None, None, :]
    left, right = rotated(key, row[:, None, None] * key_stride + spread, cosine, sine, there, HALF, ACC)
    base = slot // BS * block_stride + slot % BS * D
    at = base[:, None, None] + h[None, :, None] * (BS * D) + half[None, None, :]
    tl.store(kv + at, left.to(kv.dtype.element_ty), mask=there)
    tl.store(kv + at + HALF, right.to(kv.dtype.element_ty), mask=there)

    d = tl.arange(0, D)
    from_ = row[:, None, None] * value_stride + h[None, :, None] * D + d[None, None, :]
    at = base[:, None, None] + (KV + h)[None, :, None] * (BS * D) + d[None, None, :]
    tl.store(kv + at, tl.load(value + from_, mask=there), mask=there)


def constants(heads: int, kv_heads: int, width: int, block: int) -> dict[str, int]:
    """Return the kernel's constants, without the type."""
    padded = {"H_PADDED": triton.next_power_of_2(heads), "KV_PADDED": triton.next_power_of_2(kv_heads)}
    return {"H": heads, "KV": kv_heads, "D": width, "BS": block, "ROWS": 16 if INTERPRETED else 1, **padded}


def store_kv(
    query: Tensor, key: Tensor, value: Tensor, kv: Tensor, slots: Tensor, positions: Tensor, angles: Tensor
) -> Tensor:
    """As `TorchBackend.store_kv`; query, key and value may be slices of one tensor [rows, ...]."""
    rows, heads, width = query.shape
    out = torch.empty((rows, heads, width), dtype=query.dtype, device=query.device)
    sizes = constants(heads, key.shape[1], width, kv.shape[3])
    tensors = (query, key, value, kv, slots, positions, angles, out)
    strides = [tensor.stride(0) for tensor in tensors[:4]]
    grid, acc = (triton.cdiv(rows, sizes["ROWS"]),), numeric(query.dtype)["ACC"]
    store_kv_kernel[grid](*tensors, rows, *strides, **sizes, ACC=acc, num_warps=4)
    return out
