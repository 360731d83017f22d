"""Random batches over a paged cache: tables in random order, NaN in free blocks and behind the last token."""

import random
from typing import NamedTuple

import torch

from gpu_validation.backend import TorchBackend

TOLERANCE = {torch.float64: 1e-13, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
"""Largest absolute error against fp64 for values of about 1; the interpreter cuts off when it rounds to bf16."""


class Batch(NamedTuple):
    """Requests as (tokens of KV, rows of this batch), and the sizes of the model."""

    spans: tuple
    heads: int = 4
    kv_heads: int = 2
    width: int = 16
    block: int = 16


class Inputs(NamedTuple):
    """What attention takes, in lists where a layout is still to be made."""

    query: torch.Tensor
    kv: torch.Tensor
    starts: list
    lengths: list
    tables: list
    scale: float


def inputs_of(batch, dtype, seed=0):
    """Return seeded inputs; the KV is one layer of two, so that it has strides."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    needed = [-(-length // batch.block) for length, _ in batch.spans]
    free = rng.sample(range(sum(needed) + 3), sum(needed) + 3)
    kv = torch.full((len(free), 2, 2, batch.kv_heads, batch.block, batch.width), float("nan"), dtype=dtype)
    tables = [[free.pop() for _ in range(count)] for count in needed]
    for table, (length, _) in zip(tables, batch.spans, strict=True):
        for i, block in enumerate(table):
            filled = kv[block, :, :, :, : min(batch.block, length - i * batch.block)]
            filled.copy_(torch.randn(filled.shape, generator=generator, dtype=torch.float64))
    counts = [count for _, count in batch.spans]
    starts = [sum(counts[:s]) for s in range(len(counts) + 1)]
    query = torch.randn((starts[-1], batch.heads, batch.width), generator=generator, dtype=torch.float64).to(dtype)
    return Inputs(query, kv[:, 1], starts, [length for length, _ in batch.spans], tables, batch.width**-0.5)


def attend(backend, inputs):
    """Return (attention, the layout that it used)."""
    backend.prepare(inputs.query.shape[1], inputs.kv.shape[2], inputs.query.shape[2], inputs.query.dtype)
    layout = backend.layout(inputs.starts, inputs.lengths, inputs.tables)
    return backend.attention(inputs.query, inputs.kv, layout, inputs.scale), layout


def expected(inputs):
    """Return attention by the plain backend in fp64, from the numbers as stored."""
    return attend(TorchBackend(), inputs._replace(query=inputs.query.double(), kv=inputs.kv.double()))[0]


def error(backend, inputs):
    """Return the largest absolute error, NaN if there is a NaN."""
    return float((attend(backend, inputs)[0].double() - expected(inputs)).abs().max())
