"""Attention kernels of libraries that are compared where they are installed: FlashInfer, and NVIDIA's cuDNN.

Both read our cache as it is: the keys of a layer are [blocks, KV, BS, D] with strides, which FlashInfer calls HND.
Written for FlashInfer 0.5.3 (which compiles its kernels at the first use, some minutes for each head width) and for
nvidia-cudnn-frontend 1.18. None of these has a CPU version.
"""

from __future__ import annotations

import importlib
from functools import cache
from itertools import accumulate
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gpu_validation.attention_case import CaseData
from gpu_validation.peers import Peer, Run, Unsupported, batched

WORKSPACE = 2**28
"""Bytes of the workspace given to FlashInfer."""
WANTED = {torch.bfloat16: "BFLOAT16", torch.float16: "HALF"}
"""cuDNN's names of the dtypes that it takes here."""


def _library(name: str, device: torch.device) -> ModuleType:
    if device.type != "cuda":
        raise Unsupported("runs on a GPU only")
    return importlib.import_module(name)


class FlashInfer(Peer):
    """FlashInfer's batch wrappers on our pages. `fa2` serves decode and prefill, `fa3` (Hopper) prefill only."""

    def __init__(self, kernels: str = "fa2") -> None:
        self.kernels = kernels
        self.name = f"flashinfer, {kernels}"

    def prepare(self, data: CaseData) -> Run:
        """Plan once; each run reads another layer."""
        flashinfer = _library("flashinfer", data.kv.device)
        workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=data.kv.device)
        model = data.case.model
        shape = (model.heads, model.kv_heads, model.head_width, data.case.block)
        types = {"q_data_type": data.query.dtype, "kv_data_type": data.kv.dtype, "sm_scale": data.scale}
        if data.case.decodes:
            if self.kernels != "fa2":
                raise Unsupported("has no decode kernels of its own")
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
            wrapper.plan(*_pages(data), *shape, **types)
        else:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "HND", backend=self.kernels)
            wrapper.plan(data.ints(data.starts), *_pages(data), *shape, causal=True, **types)

        def run(layer: int) -> Tensor:
            out: Tensor = wrapper.run(data.query, (data.kv[:, layer, 0], data.kv[:, layer, 1]))
            return out

        return run


def _pages(data: CaseData) -> tuple[Tensor, Tensor, Tensor]:
    """Return FlashInfer's page table: where each request's pages start, the pages, tokens in each last page."""
    starts = [0, *accumulate(len(table) for table in data.tables)]
    last = [(length - 1) % data.case.block + 1 for length in data.case.lengths]
    return data.ints(starts), data.ints([page for table in data.tables for page in table]), data.ints(last)


class CuDNN(Peer):
    """cuDNN's fused attention (`sdpa`) with its page tables, on our pages; requests must be alike."""

    name = "cudnn, paged"

    def prepare(self, data: CaseData) -> Run:
        """Build the graph for the case once; each run gives it the pointers of another layer.

        q and out are [requests, H, c, D] views of rows next to each other.
        """
        if data.kv.dtype not in WANTED:
            raise Unsupported("takes bf16 and fp16 only")
        cudnn, device = _library("cudnn", data.kv.device), data.kv.device
        (c, m), requests, query = data.case.work[0], len(data.case.work), batched(data)
        handle, wide = _handle(cudnn), cudnn.data_type.FLOAT
        dtype = getattr(cudnn.data_type, WANTED[data.kv.dtype])
        graph = cudnn.pygraph(io_data_type=dtype, intermediate_data_type=wide, compute_data_type=wide, handle=handle)
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
                data_type=dtype if x.is_floating_point() else cudnn.data_type.INT32,
            )
            for name, x in {**buffers, "k": data.kv[:, 0, 0], "v": data.kv[:, 0, 1]}.items()
        }  # fmt: skip
        causal = {"diagonal_alignment": cudnn.diagonal_alignment.BOTTOM_RIGHT, "diagonal_band_right_bound": 0}
        result, _ = graph.sdpa(
            name="sdpa", q=tensors["q"], k=tensors["k"], v=tensors["v"], generate_stats=False,
            attn_scale=data.scale, use_padding_mask=True, **(causal if c > 1 else {}),
            seq_len_q=tensors["lengths_q"], seq_len_kv=tensors["lengths_kv"],
            paged_attention_k_table=tensors["table_k"], paged_attention_v_table=tensors["table_v"],
            paged_attention_max_seq_len_kv=c + m,
        )  # fmt: skip
        result.set_output(True).set_dim(list(query.shape)).set_stride(list(query.stride())).set_data_type(dtype)
        graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        workspace = torch.empty(max(graph.get_workspace_size(), 1), dtype=torch.uint8, device=device)
        out = torch.empty_like(data.query)

        def run(layer: int) -> Tensor:
            given = {**buffers, "k": data.kv[:, layer, 0], "v": data.kv[:, layer, 1]}
            graph.execute({**{tensors[name]: x for name, x in given.items()}, result: out}, workspace, handle=handle)
            return out

        return run


@cache
def _handle(cudnn: ModuleType) -> Any:
    """Return the handle of all graphs, on the current stream."""
    handle = cudnn.create_handle()
    cudnn.set_stream(handle, torch.cuda.current_stream().cuda_stream)
    return handle
