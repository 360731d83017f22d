"""Attention kernels behind one interface: ours, what torch brings, and FlashInfer's, cuDNN's and torch's varlen.

A peer prepares a case once (tables, plans, and its own copy of the KV where it cannot read ours) and then runs layer
after layer. What it cannot do it says in one line. Those of libraries are compared where they are; they read our cache
as it is: the keys of a layer are [blocks, KV, BS, D] with strides, which FlashInfer calls HND. Written for FlashInfer
0.5.3 (which compiles its kernels at the first use, some minutes for each head width) and for nvidia-cudnn-frontend
1.18. None of these has a CPU version.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from gpu_validation.attention_case import CaseData
from gpu_validation.backend import TorchBackend

Run = Callable[[int], Tensor]
"""Layer -> result [rows, H, D]."""


class Unsupported(RuntimeError):
    """A peer cannot do a case, or is not here: one line."""


@dataclass(frozen=True)
class Peer:
    """A kernel that is compared."""

    name: str
    prepare: Callable[[CaseData], Run]
    """Returns what runs a layer of a case; Unsupported: it cannot do such a case, or runs on no such device."""
    copies: bool = False
    """Whether it needs the KV in a layout of its own, beside ours."""


def ours(make: Callable[[], TorchBackend], name: str) -> Peer:
    """Return the kernels of a backend, reading the paged cache; it serves one shape, so each case makes its own."""

    def prepare(data: CaseData) -> Run:
        backend, model = make(), data.case.model
        backend.prepare(model.heads, model.kv_heads, model.head_width, data.kv.dtype)
        layout = backend.layout(data.starts, data.case.lengths, data.tables)
        return lambda layer: backend.attention(data.query, data.kv[:, layer], layout, data.scale)

    return Peer(name, prepare)


def dense(data: CaseData) -> Run:
    """Run torch's scaled_dot_product_attention on a dense copy of the KV: no pages, so a bound for paged kernels."""
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


WORKSPACE = 2**28
"""Bytes of the workspace given to FlashInfer."""
WANTED = {torch.bfloat16: "BFLOAT16", torch.float16: "HALF"}
"""cuDNN's names of the dtypes that it takes here."""


def _library(name: str, device: torch.device) -> ModuleType:
    if device.type != "cuda":
        raise Unsupported("runs on a GPU only")
    return importlib.import_module(name)


def flashinfer(data: CaseData, kernels: str = "fa2") -> Run:
    """Run FlashInfer's batch wrappers on our pages. `fa2` serves decode and prefill, `fa3` (Hopper) prefill only."""
    if data.case.decodes and kernels != "fa2":
        raise Unsupported("has no decode kernels of its own")
    workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=data.kv.device)
    batch = (data.starts, data.case.lengths, data.tables)
    wrapper = planned(workspace, *batch, data.query, data.kv[:, 0], data.scale, kernels)
    return lambda layer: cast("Tensor", wrapper.run(data.query, (data.kv[:, layer, 0], data.kv[:, layer, 1])))


def planned(
    workspace: Tensor, starts: Sequence[int], lengths: Sequence[int], tables: Sequence[Sequence[int]], query: Tensor,
    kv: Tensor, scale: float, kernels: str = "fa2",
) -> Any:  # fmt: skip
    """Return FlashInfer's wrapper for a batch, planned.

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
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend=kernels)
        wrapper.plan(ints(starts), *pages, *shape, causal=True, **types)
    return wrapper


def cudnn(data: CaseData) -> Run:
    """Run cuDNN's fused attention (`sdpa`) with its page tables, on our pages; requests must be alike.

    The graph is built once; each run gives it the pointers of another layer. q and out are [requests, H, c, D] views of
    rows next to each other.
    """
    if data.kv.dtype not in WANTED:
        raise Unsupported("takes bf16 and fp16 only")
    library, device = _library("cudnn", data.kv.device), data.kv.device
    (c, m), requests, query = data.case.work[0], len(data.case.work), batched(data)
    handle, wide = _handle(library), library.data_type.FLOAT
    dtype = getattr(library.data_type, WANTED[data.kv.dtype])
    graph = library.pygraph(io_data_type=dtype, intermediate_data_type=wide, compute_data_type=wide, handle=handle)
    buffers = {
        "q": query,
        "lengths_q": data.ints([c] * requests).view(-1, 1, 1, 1),
        "lengths_kv": data.ints([c + m] * requests).view(-1, 1, 1, 1),
        "table_k": data.ints(data.tables)[:, None, :, None].contiguous(),
        "table_v": data.ints(data.tables)[:, None, :, None].contiguous(),
    }
    tensors = {
        name: graph.tensor(
            name=name, dim=list(x.shape), stride=list(x.stride()),
            data_type=dtype if x.is_floating_point() else library.data_type.INT32,
        )
        for name, x in {**buffers, "k": data.kv[:, 0, 0], "v": data.kv[:, 0, 1]}.items()
    }  # fmt: skip
    causal = {"diagonal_alignment": library.diagonal_alignment.BOTTOM_RIGHT, "diagonal_band_right_bound": 0}
    result, _ = graph.sdpa(
        name="sdpa", q=tensors["q"], k=tensors["k"], v=tensors["v"], generate_stats=False,
        attn_scale=data.scale, use_padding_mask=True, **(causal if c > 1 else {}),
        seq_len_q=tensors["lengths_q"], seq_len_kv=tensors["lengths_kv"],
        paged_attention_k_table=tensors["table_k"], paged_attention_v_table=tensors["table_v"],
        paged_attention_max_seq_len_kv=c + m,
    )  # fmt: skip
    result.set_output(True).set_dim(list(query.shape)).set_stride(list(query.stride())).set_data_type(dtype)
    graph.build([library.heur_mode.A, library.heur_mode.FALLBACK])
    workspace = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device=device)
    out = torch.empty_like(data.query)

    def run(layer: int) -> Tensor:
        given = {**buffers, "k": data.kv[:, layer, 0], "v": data.kv[:, layer, 1]}
        graph.execute({**{tensors[name]: x for name, x in given.items()}, result: out}, workspace, handle=handle)
        return out

    return run


def varlen(data: CaseData) -> Run:
    """Run torch's varlen_attn with a block table (torch 2.13; FlashAttention 3): our pages, its rows as they are.

    Pages are [blocks, BS, KV, D], a view of ours.
    """
    library = _library("torch.nn.attention.varlen", data.kv.device)
    if "block_table" not in inspect.signature(library.varlen_attn).parameters:
        raise Unsupported(f"torch {torch.__version__} has no varlen_attn with a block table")
    width = max(len(table) for table in data.tables)
    tables = data.ints([[*table, *[0] * (width - len(table))] for table in data.tables])
    starts, lengths = data.ints(data.starts), data.ints(data.case.lengths)
    rows, longest = max(c for c, _ in data.case.work), max(data.case.lengths)

    def run(layer: int) -> Tensor:
        keys, values = (data.kv[:, layer, side].transpose(1, 2) for side in (0, 1))
        out: Tensor = library.varlen_attn(
            data.query, keys, values, starts, None, rows, longest, scale=data.scale, window_size=(-1, 0),
            enable_gqa=True, seqused_k=lengths, block_table=tables,
        )  # fmt: skip
        return out

    return run


PEERS = {
    "sdpa": Peer("torch sdpa, dense", dense, copies=True),
    "varlen": Peer("torch varlen, paged", varlen),
    "flashinfer": Peer("flashinfer, fa2", flashinfer),
    "flashinfer-fa3": Peer("flashinfer, fa3", partial(flashinfer, kernels="fa3")),
    "cudnn": Peer("cudnn, paged", cudnn),
}
"""By the names that the command takes."""


@cache
def _handle(library: ModuleType) -> Any:
    """Return the handle of all graphs, on the current stream."""
    handle = library.create_handle()
    library.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    return handle
