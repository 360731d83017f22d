"""Attention kernels behind one interface: ours, torch's, and FlashInfer's.

A peer prepares a case once, then runs layer after layer. FlashInfer reads our cache: a layer's keys are [blocks, KV,
BS, D] with strides, its layout HND. Written for FlashInfer 0.5.3, which compiles at first use, some minutes for each
head width.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from gpu_validation.attention_case import CaseData
from gpu_validation.backend import TorchBackend

Run = Callable[[int], Tensor]  # layer -> result [rows, H, D]


class Unsupported(RuntimeError):
    """A peer cannot do a case, or is not here: one line."""


@dataclass(frozen=True)
class Peer:
    """A kernel that is compared."""

    name: str
    prepare: Callable[[CaseData], Run]  # gives what runs a layer of a case, or raises Unsupported
    copies: bool = False  # whether it needs the KV in a layout of its own, beside ours


def ours(make: Callable[[], TorchBackend], name: str) -> Peer:
    """Return the kernels of a backend on the paged cache; each case makes its own, as it serves one shape."""

    def prepare(data: CaseData) -> Run:
        backend, model = make(), data.case.model
        backend.prepare(model.heads, model.kv_heads, model.head_width, data.kv.dtype)
        layout = backend.layout(data.starts, data.case.lengths, data.tables)
        return lambda layer: backend.attention(data.query, data.kv[:, layer], layout, data.scale)

    return Peer(name, prepare)


def dense(data: CaseData) -> Run:
    """Run torch's scaled_dot_product_attention on a dense copy of the KV: no pages, a bound for paged kernels."""
    query, (c, m) = batched(data), data.case.work[0]
    keys, values = ([data.dense(layer, side).contiguous() for layer in range(data.layers)] for side in (0, 1))
    mask = causal_lower_right(c, c + m) if c > 1 and m else None

    def run(layer: int) -> Tensor:
        out = functional.scaled_dot_product_attention(
            query, keys[layer], values[layer], attn_mask=mask, is_causal=c > 1 and not m, scale=data.scale,
            enable_gqa=True,
        )  # fmt: skip
        return out.transpose(1, 2).flatten(0, 1)  # [rows, H, D], a view

    return run


def batched(data: CaseData) -> Tensor:
    """Return the query as [requests, H, c, D]; Unsupported where the requests differ."""
    if not data.case.uniform:
        raise Unsupported("takes only batches of requests that are alike")
    c, _ = data.case.work[0]
    return data.query.view(-1, c, *data.query.shape[1:]).transpose(1, 2)


def one_line(error: BaseException) -> str:
    """Return the first line of an error, with its type."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"


WORKSPACE = 2**28  # bytes of the workspace given to FlashInfer


def _library(name: str, device: torch.device) -> ModuleType:
    if device.type != "cuda":
        raise Unsupported("runs on a GPU only")
    return importlib.import_module(name)


def flashinfer(data: CaseData) -> Run:
    """Run FlashInfer's batch wrappers on our pages."""
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=data.kv.device)
    batch = (data.starts, data.case.lengths, data.tables)
    wrapper = planned(workspace, *batch, data.query, data.kv[:, 0], data.scale)
    return lambda layer: cast("Tensor", wrapper.run(data.query, (data.kv[:, layer, 0], data.kv[:, layer, 1])))


def planned(
    workspace: Tensor, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]], query: Tensor,
    kv: Tensor, scale: float,
) -> Any:  # fmt: skip
    """Return FlashInfer's planned wrapper for a batch.

    Its page table is where each request's pages start, the pages, and the tokens in each last page.
    """
    library, block = _library("flashinfer", kv.device), kv.shape[3]

    def ints(numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=kv.device)

    ends, last = accumulate(len(table) for table in tables), [(length - 1) % block + 1 for length in lengths]
    pages = (ints([0, *ends]), ints([page for table in tables for page in table]), ints(last))
    shape = (query.shape[1], kv.shape[2], kv.shape[4], block)
    types = {"q_data_type": query.dtype, "kv_data_type": kv.dtype, "sm_scale": scale}
    if starts[-1] == len(lengths):
        wrapper = library.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
        wrapper.plan(*pages, *shape, **types)
    else:
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend="fa2")
        wrapper.plan(ints(starts), *pages, *shape, causal=True, **types)
    return wrapper


PEERS = {
    "sdpa": Peer("torch sdpa, dense", dense, copies=True),
    "flashinfer": Peer("flashinfer, fa2", flashinfer),
}
