"""A backend whose attention is FlashInfer's: a ranking of schedules that it confirms does not rest on our kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gpu_validation.backend import Layout, TorchBackend
from gpu_validation.kernels.backend import TritonBackend
from gpu_validation.peers import WORKSPACE, planned


class FlashInferBackend(TritonBackend):
    """The other operations are our kernels. A layout is planned when its first layer runs, before any capture."""

    def prepare(self, heads: int, kv_heads: int, width: int, dtype: torch.dtype) -> None:
        """Check the shapes, and make the room that all layouts work in."""
        super().prepare(heads, kv_heads, width, dtype)
        self.workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=self.device)

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Keep the batch as it is."""
        made = TorchBackend.layout(self._torch, starts, lengths, tables)
        made.work = (starts, lengths, tables)
        return made

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Return attention by the wrapper of the layout."""
        if layout.variant is None:
            starts, lengths, tables = layout.work
            layout.variant = planned(self.workspace, starts, lengths, tables, query, kv, scale)
        out: Tensor = layout.variant.run(query, (kv[:, 0], kv[:, 1]))
        return out
