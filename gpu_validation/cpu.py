"""A CPU as a device of its own: paged attention by torch's fused kernel, and memory that stays where it is.

`TorchBackend` is its clear twin: the two agree to rounding, and the twin takes many times as long.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

from gpu_validation.backend import Layout, TorchBackend

ROWS = 128
"""Query rows of one call: those of a block see nearly the same keys, so little that is masked is computed."""
MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""The parameters of glibc's mallopt (malloc.h)."""


class CpuBackend(TorchBackend):
    """Plain torch, but for attention: the KV of a request is gathered for `scaled_dot_product_attention`."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self._masks = torch.zeros(0, 0)

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Note the rows, the length and the table of each request that has rows."""
        made = super().layout(starts, lengths, tables)
        made.work = [
            (first, end, length, torch.tensor(table))
            for (first, end), length, table in zip(pairwise(starts), lengths, tables, strict=True) if end > first
        ]  # fmt: skip
        return made

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Attend request by request, ROWS rows at a time, to the keys that the last of them sees."""
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
        """Return [rows, seen], 0 where a row sees a key and -inf elsewhere: a view of one made for the longest."""
        width = self._masks.shape[1] - ROWS
        if seen > width or self._masks.dtype != dtype:
            width = 2 * seen
            self._masks = torch.full((ROWS, width + ROWS), float("-inf"), dtype=dtype).triu(width + 1)
        return self._masks[:rows, width + rows - seen : width + rows]


def keep_pages() -> None:
    """Let malloc keep what is freed, so that no buffer of a batch is a new page; where there is a glibc."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", lambda parameter, value: 0)
        mallopt(MMAP_THRESHOLD, 1 << 25)
        mallopt(TRIM_THRESHOLD, -1)
