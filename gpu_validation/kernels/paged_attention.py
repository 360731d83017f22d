"""Causal attention over KV in blocks: one kernel for decodes, prefills and chunks at any offset, and one that combines.

A program takes one entry of the work list (a request and its first row), one KV head, and one split of the KV. Its tile
of queries packs the heads that share the KV head, row after row. It walks over the KV in tiles of TILE tokens with a
running softmax in base 2: `top` is the maximum so far, `total` the sum of the weights, `acc` the weighted values. The
last tiles are read with a mask: free blocks and tails may hold NaN.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from gpu_validation.backend import Layout
from gpu_validation.kernels.launch import INDICES, INTERPRETED, numeric
from gpu_validation.kernels.variants import Variant

LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=[*INDICES, "table_stride"])
def attention_kernel(
    query, kv, tables, starts, lengths, work, out, partial, lse,
    query_stride, block_stride, table_stride, scale,
    KV: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, BS: tl.constexpr,
    BLOCK_M: tl.constexpr, PACKED: tl.constexpr, TILE: tl.constexpr, SPLIT: tl.constexpr, STRICT: tl.constexpr,
    UPCAST: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write rows of `out` [rows, KV * GROUP, D], or one split of them to `partial` and its base 2 log-sum-exp to `lse`.

    query [rows, KV * GROUP, D] with its row stride; kv [blocks, 2, KV, BS, D] with its block stride, whole within a
    block; partial [work, splits, KV * GROUP, D]; lse [work, splits, KV * GROUP]; `scale` includes log2(e).
    """
    item = tl.program_id(0) // KV
    head = tl.program_id(0) % KV
    request = tl.load(work + item * 2)
    first = tl.load(work + item * 2 + 1)
    start = tl.load(starts + request)
    count = tl.load(starts + request + 1) - start
    length = tl.load(lengths + request)
    before = length - count + first  # the position of the first row, so many tokens are before it
    low = tl.program_id(1) * SPLIT
    high = length - count + tl.minimum(first + PACKED, count)
    if SPLIT:
        if low >= high:
            return
        high = tl.minimum(low + SPLIT, high)
    full = low if STRICT else tl.minimum((before + 1) // TILE * TILE, high // TILE * TILE)

    m = tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    row = first + m // GROUP
    valid = (m // GROUP < PACKED) & (row < count)
    position = before + m // GROUP
    columns = (head * GROUP + m % GROUP)[:, None] * D + d[None, :]
    at = (start + row).to(tl.int64)[:, None] * query_stride + columns
    q = tl.load(query + at, mask=valid[:, None], other=0.0)
    if UPCAST:
        q = q.to(tl.float32)

    table = tables + request.to(tl.int64) * table_stride
    keys = kv + head * (BS * D)
    values = keys + KV * BS * D
    top = tl.full([BLOCK_M], float("-inf"), ACC)
    total = tl.zeros([BLOCK_M], ACC)
    acc = tl.zeros([BLOCK_M, D], ACC)
    for MASKED in tl.static_range(2):
        ahead = (full if MASKED else low) + tl.arange(0, TILE)
        block = tl.load(table + ahead.to(tl.uint32) // BS, mask=ahead < high, other=0)
        for tile in range(full if MASKED else low, high if MASKED else full, TILE):
            token = tile + tl.arange(0, TILE)
            inside = token < high
            where = (block.to(tl.int64) * block_stride + token.to(tl.uint32) % BS * D)[:, None] + d[None, :]
            if MASKED:
                k = tl.load(keys + where, mask=inside[:, None], other=0.0)
                v = tl.load(values + where, mask=inside[:, None], other=0.0)
            else:
                k = tl.load(keys + where)
                v = tl.load(values + where)
            ahead = token + TILE
            block = tl.load(table + ahead.to(tl.uint32) // BS, mask=ahead < high, other=0)
            if UPCAST:
                k = k.to(tl.float32)
                v = v.to(tl.float32)
            scores = tl.dot(q, tl.trans(k), input_precision="ieee", out_dtype=ACC)
            if MASKED:
                scores = tl.where(token[None, :] <= position[:, None], scores, float("-inf"))
            peak = tl.maximum(top, tl.max(scores, 1) * scale)
            p = tl.exp2(scores * scale - peak[:, None])
            shrink = tl.exp2(top - peak)
            total = total * shrink + tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee", out_dtype=ACC)
            top = peak

    result = acc / total[:, None]
    if SPLIT:
        slot = (item * tl.num_programs(1) + tl.program_id(1)).to(tl.int64) * (KV * GROUP)
        tl.store(partial + slot * D + columns, result, mask=valid[:, None])
        tl.store(lse + slot + head * GROUP + m % GROUP, top + tl.log2(total), mask=valid)
    else:
        at = (start + row).to(tl.int64)[:, None] * (KV * GROUP * D) + columns
        tl.store(out + at, result.to(out.dtype.element_ty), mask=valid[:, None])


@triton.jit(do_not_specialize=[*INDICES, "splits"])
def combine_kernel(
    partial, lse, starts, lengths, work, out, splits,
    HEADS: tl.constexpr, PART: tl.constexpr, PADDED: tl.constexpr, D: tl.constexpr, SPLIT: tl.constexpr,
    CHUNK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Write `PART` heads of one row of `out`: the weighted mean of at most `splits` splits.

    PADDED is the power of two that holds PART; CHUNK splits are read at a time.
    """
    item = tl.program_id(0)
    request = tl.load(work + item * 2)
    row = tl.load(starts + request) + tl.load(work + item * 2 + 1)
    used = tl.cdiv(tl.load(lengths + request), SPLIT)
    h = tl.arange(0, PADDED)
    head = tl.program_id(1) * PART + h
    d = tl.arange(0, D)
    top = tl.full([PADDED], float("-inf"), ACC)
    total = tl.zeros([PADDED], ACC)
    acc = tl.zeros([PADDED, D], ACC)
    for first in range(0, used, CHUNK):
        c = first + tl.arange(0, CHUNK)
        at = (item.to(tl.int64) * splits + c)[:, None] * HEADS + head[None, :]
        there = (c < used)[:, None] & (h < PART)[None, :]
        w = tl.load(lse + at, mask=there, other=float("-inf"))
        part = tl.load(partial + at[:, :, None] * D + d[None, None, :], mask=there[:, :, None], other=0.0)
        w = tl.where((h < PART)[None, :], w, 0.0)  # a head of the padding: any finite number
        peak = tl.maximum(top, tl.max(w, 0))
        share = tl.exp2(w - peak[None, :])
        shrink = tl.exp2(top - peak)
        total = total * shrink + tl.sum(share, 0)
        acc = acc * shrink[:, None] + tl.sum(share[:, :, None] * part, 0)
        top = peak
    at = (row.to(tl.int64) * HEADS + head)[:, None] * D + d[None, :]
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=(h < PART)[:, None])


def attention_constants(variant: Variant, kv_heads: int, group: int, width: int, block: int) -> dict[str, Any]:
    """Return the constants of attention but the types."""
    return {
        "KV": kv_heads, "GROUP": group, "D": width, "BS": block, "BLOCK_M": variant.rows(group),
        "PACKED": variant.packed(group), "TILE": variant.tile, "SPLIT": variant.split, "STRICT": variant.strict,
    }  # fmt: skip


def combine_constants(variant: Variant, heads: int, group: int, width: int) -> dict[str, Any]:
    """Return the constants of the combination: few, short programs in the interpreter."""
    part = heads if INTERPRETED else group
    constants = {"HEADS": heads, "PART": part, "PADDED": triton.next_power_of_2(part), "D": width}
    return {**constants, "SPLIT": variant.split, "CHUNK": 4 if INTERPRETED else 16}


def attend(query: Tensor, kv: Tensor, layout: Layout, scale: float, out: Tensor) -> None:
    """Launch attention for the work list of a layout, and the combination where its variant splits the KV.

    query and out [rows, H, D]; kv [blocks, 2, KV, BS, D]. Rows in no entry of the work list are not written.
    """
    assert layout.work is not None
    _, _, kv_heads, block, width = kv.shape
    variant, items, heads = layout.variant, len(layout.work), query.shape[1]
    where = (layout.starts, layout.lengths, layout.work)
    split_rows = items * layout.splits * heads if variant.split else 0
    sums = torch.promote_types(query.dtype, torch.float32)
    parts = [torch.empty(size, dtype=sums, device=query.device) for size in ((split_rows, width), (split_rows,))]
    strides = (query.stride(0), kv.stride(0), layout.tables.stride(0))
    constants = attention_constants(variant, kv_heads, heads // kv_heads, width, block) | numeric(query.dtype)
    attention_kernel[(items * kv_heads, layout.splits)](
        query, kv, layout.tables, *where, out, *parts, *strides, scale * LOG2_E,
        **constants, num_warps=variant.warps, num_stages=variant.stages,
    )  # fmt: skip
    if variant.split:
        combined = combine_constants(variant, heads, heads // kv_heads, width)
        grid = (items, heads // combined["PART"])
        combine_kernel[grid](*parts, *where, out, layout.splits, **combined, ACC=constants["ACC"], num_warps=4)
