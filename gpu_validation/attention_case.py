"""A batch for attention, and its least cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor

from costmodels.models import Model
from gpu_validation.backend import TorchBackend

TOLERANCE = {torch.bfloat16: 6e-3, torch.float16: 1.5e-3, torch.float32: 1e-5, torch.float64: 1e-12}
"""The largest relative error |out - twin| / |twin| (Euclidean norms) of a right result.

Rounding to bf16 gives 1.6e-3. A key too many or too few among n gives about sqrt(e/n), as the scores are standard
normal: 1.8e-2 at 8,192.
"""
PROBED = 64  # rows at the start and at the end of a chunk that are checked against the twin


@dataclass(frozen=True)
class AttentionCase:
    """A batch in one layer: each request processes c tokens with m resident before them."""

    kind: str  # decode, prefill, chunk or mixed
    model: Model
    work: tuple[tuple[int, int], ...]  # (c, m) for each request
    block: int = 16
    large: bool = True  # one of those that are timed first, and alone with `--quick`

    @property
    def name(self) -> str:
        """Its name in tables."""
        c, m = self.work[0]
        shape = f"{m + c}" if self.kind == "decode" else f"{c} at {m}"
        return f"mixed, {len(self.work)}" if self.kind == "mixed" else f"{self.kind} {len(self.work)} x {shape}"

    @property
    def rows(self) -> int:
        """Tokens of the batch."""
        return sum(c for c, _ in self.work)

    @property
    def lengths(self) -> list[int]:
        """KV of each request, its own tokens included."""
        return [c + m for c, m in self.work]

    @property
    def uniform(self) -> bool:
        """Whether all requests have the same c and m."""
        return len(set(self.work)) == 1

    def kv_bytes(self, size: int = 2) -> int:
        """Return the bytes of KV that a layer reads: 2 KV D size a token."""
        return 2 * self.model.kv_heads * self.model.head_width * size * sum(self.lengths)

    @property
    def pairs(self) -> int:
        """(query, key) pairs of causal attention: c m + c (c + 1) / 2 for each request."""
        return sum(c * m + c * (c + 1) // 2 for c, m in self.work)

    @property
    def flops(self) -> int:
        """Operations of a layer: 4 H D a pair (two products of a multiplication and an addition)."""
        return 4 * self.model.heads * self.model.head_width * self.pairs


@dataclass(frozen=True)
class CaseData:
    """A query, and a block-major cache of several layers with permuted tables."""

    case: AttentionCase
    kv: Tensor  # [blocks, layers, 2, KV, BS, D]
    query: Tensor  # [rows, H, D], standard normal like the keys, so that scores times `scale` are too
    tables: list[list[int]]

    @classmethod
    def make(cls, case: AttentionCase, device: torch.device, dtype: torch.dtype, layers: int, seed: int = 0) -> Self:
        """Draw the tensors on the device; the tables permute all blocks."""
        torch.manual_seed(seed)
        model, counts = case.model, [-(-length // case.block) for length in case.lengths]
        order = torch.randperm(sum(counts)).tolist()
        ends = list(accumulate(counts))
        shape = (len(order), layers, 2, model.kv_heads, case.block, model.head_width)
        kv = torch.empty(shape, device=device, dtype=dtype).normal_()
        query = torch.empty((case.rows, model.heads, model.head_width), device=device, dtype=dtype).normal_()
        tables = [order[end - count : end] for end, count in zip(ends, counts, strict=True)]
        return cls(case, kv, query, tables)

    @property
    def scale(self) -> float:
        """The factor of scores: D ** -1/2."""
        return float(self.case.model.head_width**-0.5)

    @property
    def layers(self) -> int:
        """Layers of the cache."""
        return self.kv.shape[1]

    @property
    def starts(self) -> list[int]:
        """The first row of each request, and the end of the last."""
        return [0, *accumulate(c for c, _ in self.case.work)]

    def ints(self, numbers: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Put int32 numbers on the device."""
        return torch.tensor(numbers, dtype=torch.int32, device=self.kv.device)

    def dense(self, layer: int, side: int) -> Tensor:
        """Return the keys (side 0) or values (1) of a layer of a uniform case, [requests, KV, length, D]."""
        kv, tables = self.kv[:, layer, side], self.ints(self.tables).long()
        gathered = kv[tables].transpose(1, 2)
        return gathered.reshape(len(tables), kv.shape[1], -1, kv.shape[3])[:, :, : self.case.lengths[0]]

    def error(self, out: Tensor, layer: int) -> float:
        """Return the relative error of a result [rows, H, D] over probed rows against the twin, in fp32 or better."""
        probes = [probe for s, (c, m) in enumerate(self.case.work) for probe in _probes(s, self.starts[s], c, m)]
        rows = torch.cat([torch.arange(first, first + count) for _, first, count, _ in probes]).to(out.device)
        backend = TorchBackend(self.kv.device)
        layout = backend.layout(
            [0, *accumulate(count for _, _, count, _ in probes)],
            [length for *_, length in probes],
            [self.tables[s] for s, *_ in probes],
        )
        query = self.query[rows].to(torch.promote_types(self.kv.dtype, torch.float32))
        expected = backend.attention(query, self.kv[:, layer], layout, self.scale)
        return float((out[rows].to(expected.dtype) - expected).norm() / expected.norm())


def _probes(s: int, start: int, c: int, m: int) -> list[tuple[int, int, int, int]]:
    if c <= 2 * PROBED:
        return [(s, start, c, c + m)]
    return [(s, start, PROBED, m + PROBED), (s, start + c - PROBED, PROBED, c + m)]
