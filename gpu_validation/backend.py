"""The operations of a decoder in plain torch, the slow twin of the kernels; and a fast backend for CPUs.

Shapes: `rows` are the tokens of a batch, a request's together; H query heads, KV heads of keys and values (query head h
reads KV head h // (H // KV)), D the width of a head, BS the tokens of a block. The KV of a layer is a view [blocks, 2,
KV, BS, D] into the cache, keys at 0, values at 1, strided over layers.
"""

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass
class Layout:
    """The rows of a batch: request s has rows starts[s]:starts[s+1] and, these included, lengths[s] of KV.

    Its query row i is at position lengths[s] - (starts[s+1] - starts[s]) + i and attends to all keys up to there. The
    token at position p lies in block tables[s, p // BS], at p % BS.
    """

    starts: Tensor  # int32 [requests + 1]
    lengths: Tensor  # int32 [requests]
    tables: Tensor  # int32 [requests, width], -1 where there is no block
    work: Any = None  # what attention needs; the kernels: int32 [programs, 2], (request, first row of it)
    variant: Any = None  # the kernel that `work` is for, a `kernels.variants.Variant`, or what FlashInfer planned
    splits: int = 1  # programs that share the KV of a row, where the kernel splits it: enough for the longest
    rest: "Layout | None" = None  # of the other rows, for another kernel: in a mixed batch `work` is the decodes


class TorchBackend:
    """The operations of a decoder on `device`, in plain torch: attention one request after another.

    Norms, gates and attention are computed in fp32 or better.
    """

    strict: bool = False  # whether a row's numbers do not depend on the other rows
    captures: bool = False  # whether a batch may run as a graph: plain attention synchronizes

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        self.used: set[str] = set()  # names of the variants of attention that ran, where there are some

    def prepare(self, heads: int, kv_heads: int, width: int, dtype: torch.dtype) -> None:
        """Take the sizes of a model before any layout; BadInput for those that it cannot serve (here none)."""

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Put a layout on the device."""
        width = max((len(table) for table in tables), default=0)
        padded = [[*table, *[-1] * (width - len(table))] for table in tables]

        def put(numbers: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
            return torch.tensor(numbers, dtype=torch.int32, device=self.device)

        return Layout(put(starts), put(lengths), put(padded).reshape(len(tables), width))

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return x [rows, in] times weight [out, in] transposed."""
        return functional.linear(x, weight)

    def rms_norm(
        self, x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return (the norm of r, r), r = x + residual (x without one); [rows, width] each."""
        total = x if residual is None else x + residual
        wide = _widened(total)
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
        return (normed * _widened(weight)).to(x.dtype), total

    def store_kv(
        self, query: Tensor, key: Tensor, value: Tensor, kv: Tensor, slots: Tensor, positions: Tensor, angles: Tensor
    ) -> Tensor:
        """Rotate query [rows, H, D] and key [rows, KV, D] by position, store key and value; return the query.

        Row r goes to block slots[r] // BS at slots[r] % BS, nowhere if slots[r] is -1. `angles` [positions, D] fp32 are
        cosines, then sines; halves of a head are rotated together.
        """
        cosine, sine = angles[positions.long()].chunk(2, dim=-1)
        stored = slots >= 0
        where = slots[stored].long()
        block = kv.shape[3]
        kv[where // block, 0, :, where % block] = _rotated(key, cosine, sine)[stored]
        kv[where // block, 1, :, where % block] = value[stored]
        return _rotated(query, cosine, sine)

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Return causal attention [rows, H, D] of the rotated query over the stored KV, gathered."""
        out = torch.zeros_like(query)
        starts, lengths = layout.starts.tolist(), layout.lengths.tolist()
        block, group = kv.shape[3], query.shape[1] // kv.shape[2]
        for s, length in enumerate(lengths):
            rows = slice(starts[s], starts[s + 1])
            count = rows.stop - rows.start
            if count == 0:
                continue
            table = layout.tables[s, : -(-length // block)].long()
            keys, values = (
                _widened(kv[table, side].transpose(0, 1).flatten(1, 2)[:, :length]).repeat_interleave(group, 0)
                for side in (0, 1)
            )
            scores = torch.einsum("rhd,hkd->hrk", _widened(query[rows]), keys) * scale
            position = torch.arange(length - count, length, device=query.device)
            hidden = torch.arange(length, device=query.device) > position[:, None]
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
            out[rows] = torch.einsum("hrk,hkd->rhd", weights, values).to(query.dtype)
        return out

    def silu_mul(self, x: Tensor) -> Tensor:
        """Return silu(first half) * second half of x [rows, 2 hidden]."""
        gate, up = _widened(x).chunk(2, dim=-1)
        return (functional.silu(gate) * up).to(x.dtype)


def _widened(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = _widened(x).chunk(2, dim=-1)
    cosine, sine = cosine[:, None].to(left.dtype), sine[:, None].to(left.dtype)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1).to(x.dtype)


ROWS = 128  # query rows of one call: those of a block see nearly the same keys, so little that is masked is computed
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # the parameters of glibc's mallopt (malloc.h)


class CpuBackend(TorchBackend):
    """A CPU as a device of its own: torch's fused attention over the gathered KV of a request.

    It agrees with `TorchBackend` to rounding, many times as fast.
    """

    def __init__(self) -> None:
        super().__init__("cpu")
        self._masks = torch.zeros(0, 0)

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Note the rows, the length and the table of each working request."""
        made = super().layout(starts, lengths, tables)
        made.work = [
            (first, end, length, torch.tensor(table))
            for (first, end), length, table in zip(pairwise(starts), lengths, tables, strict=True) if end > first
        ]  # fmt: skip
        return made

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Attend request by request, ROWS rows at a time, to the keys that the last row sees."""
        out = torch.empty_like(query)
        sides, group = kv.permute(1, 2, 0, 3, 4), query.shape[1] // kv.shape[2]
        for start, end, length, table in layout.work:
            keys, values = (
                side.index_select(1, table).flatten(1, 2)[:, None].expand(-1, group, -1, -1) for side in sides
            )
            for first in range(start, end, ROWS):
                last = min(first + ROWS, end)
                seen = length - (end - last)
                rows = query[first:last].reshape(last - first, -1, group, query.shape[2]).movedim(0, 2)
                mask = None if last - first == 1 else self._mask(last - first, seen, query.dtype)
                found = functional.scaled_dot_product_attention(
                    rows, keys[:, :, :seen], values[:, :, :seen], attn_mask=mask, scale=scale
                )
                out[first:last] = found.movedim(2, 0).flatten(1, 2)
        return out

    def _mask(self, rows: int, seen: int, dtype: torch.dtype) -> Tensor:
        width = self._masks.shape[1] - ROWS
        if seen > width or self._masks.dtype != dtype:
            width = 2 * seen
            self._masks = torch.full((ROWS, width + ROWS), float("-inf"), dtype=dtype).triu(width + 1)
        return self._masks[:rows, width + rows - seen : width + rows]


def keep_pages() -> None:
    """Let malloc keep what is freed (glibc only), so that no buffer of a batch is a new page."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda parameter, value: 0)
        mallopt(MMAP_THRESHOLD, 1 << 25)
        mallopt(TRIM_THRESHOLD, -1)
