"""The backend of Triton kernels, and one with FlashInfer's attention."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from gpu_validation.backend import Layout, TorchBackend
from gpu_validation.kernels.launch import INTERPRETED
from gpu_validation.kernels.matmul import matmul
from gpu_validation.kernels.paged_attention import attend
from gpu_validation.kernels.rms_norm import rms_norm
from gpu_validation.kernels.silu_mul import silu_mul
from gpu_validation.kernels.store_kv import store_kv
from gpu_validation.kernels.variants import VARIANTS, WIDTHS, HeadShape, Variant, variant_for, work_list
from gpu_validation.peers import WORKSPACE, planned
from kvcore.errors import BadInput


class TritonBackend(TorchBackend):
    """The kernels of this folder. `strict`: a row's numbers do not depend on the other rows, which takes longer.

    Matrix products are torch's (cuBLAS) unless strict. With `variant`, attention uses that one alone.
    """

    captures = True

    def __init__(
        self, device: str | torch.device = "cuda", *, strict: bool = False, variant: Variant | None = None
    ) -> None:
        super().__init__(device)
        self.strict, self.variant = strict, variant
        self.shape: HeadShape | None = None

    def prepare(self, heads: int, kv_heads: int, width: int, dtype: torch.dtype) -> None:
        """Check a model's shapes, and make the work lists of later layouts."""
        if width not in WIDTHS:
            raise BadInput(f"heads of width {width}: the kernels take {', '.join(map(str, WIDTHS))}")
        if heads % kv_heads:
            raise BadInput(f"{heads} heads share {kv_heads} KV heads unevenly; choose a multiple")
        if dtype == torch.float64 and not INTERPRETED:
            raise BadInput("float64 runs in the interpreter only; on a GPU choose float32, bfloat16 or float16")
        self.shape = HeadShape(heads // kv_heads, kv_heads, width, dtype.itemsize)

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Put a layout on the device, with work lists of decodes and of other rows, for different kernels."""
        assert self.shape is not None, "prepare comes before any layout"
        counts = [end - start for start, end in pairwise(starts)]
        whole, shape = super().layout(starts, lengths, tables), self.shape
        only = VARIANTS["strict", shape.size] if self.strict else self.variant
        if only is not None and only.split and max(counts, default=0) > 1:
            raise BadInput(f"variant {only.name} splits the KV, and serves requests with one row only")
        parts = [([s for s, count in enumerate(counts) if count], only)]
        if only is None:
            decodes, others = ([s for s in parts[0][0] if (counts[s] == 1) == one] for one in (True, False))
            parts = [
                (others, variant_for("prefill", [counts[s] for s in others], shape)),
                (decodes, variant_for("decode", [lengths[s] for s in decodes], shape)),
            ]
        made: Layout | None = None
        for requests, variant in parts:
            if requests and variant is not None:
                splits = -(-max(lengths[s] for s in requests) // variant.split) if variant.split else 1
                work = work_list(starts, lengths, requests, variant.packed(shape.group))
                on_device = torch.tensor(work, dtype=torch.int32, device=self.device)
                made = replace(whole, work=on_device, variant=variant, splits=splits, rest=made)
        return made or whole

    def linear(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the product."""
        return matmul(x, weight) if self.strict and len(x) else super().linear(x, weight)

    def rms_norm(
        self, x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the norm and what was normed."""
        return rms_norm(x, weight, epsilon, residual) if len(x) else (x, x)

    def store_kv(
        self, query: Tensor, key: Tensor, value: Tensor, kv: Tensor, slots: Tensor, positions: Tensor, angles: Tensor
    ) -> Tensor:
        """Rotate, and store the rows that have a slot."""
        return store_kv(query, key, value, kv, slots, positions, angles) if len(query) else query

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Return attention; rows that belong to no program are undefined."""
        asked = HeadShape(query.shape[1] // kv.shape[2], kv.shape[2], query.shape[2], query.element_size())
        if self.shape != asked:
            raise BadInput(f"this backend serves {self.shape}, not {asked}; make one for each model")
        if len(query) and not (kv[0].is_contiguous() and query[0].is_contiguous()):
            raise BadInput("the kernels need each row of queries, and each block of a layer, whole in memory")
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
        part: Layout | None = layout
        while part is not None and part.work is not None:
            self.used.add(part.variant.name)
            attend(query, kv, part, scale, out)
            part = part.rest
        return out

    def silu_mul(self, x: Tensor) -> Tensor:
        """Return silu(first half) * second half."""
        return silu_mul(x) if len(x) else x[:, : x.shape[1] // 2]


class FlashInferBackend(TritonBackend):
    """Attention is FlashInfer's.

    A layout is planned when its first layer runs, before any capture.
    """

    def prepare(self, heads: int, kv_heads: int, width: int, dtype: torch.dtype) -> None:
        """Check the shapes, and make the room of all layouts."""
        super().prepare(heads, kv_heads, width, dtype)
        self.workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=self.device)

    def layout(self, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Layout:
        """Keep the batch as it is."""
        made = TorchBackend.layout(self, starts, lengths, tables)
        made.work = (starts, lengths, tables)
        return made

    def attention(self, query: Tensor, kv: Tensor, layout: Layout, scale: float) -> Tensor:
        """Return attention by the layout's wrapper."""
        if layout.variant is None:
            starts, lengths, tables = layout.work
            layout.variant = planned(self.workspace, starts, lengths, tables, query, kv, scale)
        out: Tensor = layout.variant.run(query, (kv[:, 0], kv[:, 1]))
        return out
