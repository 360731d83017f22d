"""Blocks of a cache copied to a staging buffer and back, so that a swap is one large transfer."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.kernels.launch import INDICES

BLOCK = 1024
"""Numbers a program copies."""


@triton.jit(do_not_specialize=INDICES)
def copy_blocks_kernel(cache, staging, blocks, cache_stride, size, SCATTER: tl.constexpr, BLOCK: tl.constexpr):
    """Copy BLOCK of the `size` numbers of cache block blocks[i] to row i of `staging`, or back with SCATTER."""
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    on_device = cache + tl.load(blocks + i).to(tl.int64) * cache_stride + column
    staged = staging + i * size + column
    if SCATTER:
        tl.store(on_device, tl.load(staged, mask=inside), mask=inside)
    else:
        tl.store(staged, tl.load(on_device, mask=inside), mask=inside)


def gather_blocks(cache: Tensor, blocks: Tensor, staging: Tensor) -> None:
    """Copy cache[blocks[i]] to staging[i]; each block is whole in memory, `blocks` int32 or int64 on the device."""
    _copy(cache, blocks, staging, scatter=False)


def scatter_blocks(staging: Tensor, blocks: Tensor, cache: Tensor) -> None:
    """Copy staging[i] to cache[blocks[i]]."""
    _copy(cache, blocks, staging, scatter=True)


def _copy(cache: Tensor, blocks: Tensor, staging: Tensor, *, scatter: bool) -> None:
    if not len(blocks):
        return
    flat, packed = (_words(tensor.flatten(1)) for tensor in (cache, staging))
    size = flat.shape[1]
    grid = (len(blocks), triton.cdiv(size, BLOCK))
    copy_blocks_kernel[grid](flat, packed, blocks, flat.stride(0), size, SCATTER=scatter, BLOCK=BLOCK, num_warps=4)


def _words(rows: Tensor) -> Tensor:
    """Return the bytes of rows as the widest integers that divide a row: copies keep every bit, NaN included."""
    size = rows.shape[1] * rows.element_size()
    return rows.view(next(kind for kind in (torch.int64, torch.int32, torch.int16) if size % kind.itemsize == 0))
