"""Attention kernels behind one interface: ours, and what torch brings. `library_peers` has FlashInfer and cuDNN.

A peer prepares a case once (tables, plans, and its own copy of the KV where it cannot read ours) and then runs layer
after layer. What it cannot do it says in one line.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from gpu_validation.attention_case import CaseData
from gpu_validation.backend import Backend

PAGED_ATTENTION = "torch.nn.attention.experimental._paged_attention"
Run = Callable[[int], Tensor]
"""Layer -> result [rows, H, D]."""


class Unsupported(RuntimeError):
    """A peer cannot do a case, or is not here: one line."""


class Peer:
    """A kernel that is compared."""

    name: str
    copies = False
    """Whether it needs the KV in a layout of its own, beside ours."""
    compiles = False
    """Whether it is compiled anew for each case, which takes many seconds."""

    def prepare(self, data: CaseData) -> Run:
        """Return what runs a layer of the case.

        Raises:
            Unsupported: it cannot do such a case, or does not run on such a device.
            Exception: whatever a library raises that is not installed, or broken.
        """
        raise NotImplementedError


class Ours(Peer):
    """The kernels of a backend, reading the paged cache; a backend serves one shape, so each case makes its own."""

    def __init__(self, make: Callable[[], Backend], name: str) -> None:
        self.make = make
        self.name = name

    def prepare(self, data: CaseData) -> Run:
        """Put the layout on the device once."""
        backend, model = self.make(), data.case.model
        backend.prepare(model.heads, model.kv_heads, model.head_width, data.kv.dtype)
        layout = backend.layout(data.starts, data.case.lengths, data.tables)
        return lambda layer: backend.attention(data.query, data.kv[:, layer], layout, data.scale)


class Dense(Peer):
    """Torch's scaled_dot_product_attention on a dense copy of the KV: no pages, so a bound for paged kernels."""

    name, copies = "torch sdpa, dense", True

    def prepare(self, data: CaseData) -> Run:
        """Gather the KV of every layer; requests must be alike."""
        query, (c, m) = batched(data), data.case.work[0]
        keys, values = ([data.dense(layer, side).contiguous() for layer in range(data.layers)] for side in (0, 1))
        mask = causal_lower_right(c, c + m) if c > 1 and m else None

        def run(layer: int) -> Tensor:
            out = functional.scaled_dot_product_attention(
                query, keys[layer], values[layer], attn_mask=mask, is_causal=c > 1 and not m, scale=data.scale,
                enable_gqa=True,
            )  # fmt: skip
            return _rows(out)

        return run


class Flex(Peer):
    """Torch's flex_attention with its PagedAttention, compiled on a GPU; pages of 128 tokens there, ours on a CPU.

    The block mask is converted to pages once, not timed, as an engine would do it once for all layers.
    """

    name, copies, compiles = "torch flex, paged", True, True
    GPU_PAGE = 128

    def prepare(self, data: CaseData) -> Run:
        """Copy the KV into pages, and convert the block mask."""
        query, (c, m), device = batched(data), data.case.work[0], data.kv.device
        requests, on_gpu = len(data.case.work), device.type == "cuda"
        page = self.GPU_PAGE if on_gpu else data.case.block
        pages = requests * -(-(c + m) // page)
        paged = importlib.import_module(PAGED_ATTENTION).PagedAttention(pages, page, requests, device=str(device))
        for s in range(requests):
            paged.reserve(torch.tensor(s, device=device), torch.tensor(c + m, device=device))
        caches = [_paged_copy(data, layer, paged, pages * page) for layer in range(data.layers)]
        logical = create_block_mask(
            lambda b, h, q, kv: kv <= q + m, requests, None, c, c + m, device=str(device), BLOCK_SIZE=(128, page)
        )
        mask = paged.convert_logical_block_mask(logical)
        if on_gpu:
            torch._dynamo.reset()
        attend = torch.compile(flex_attention, dynamic=False) if on_gpu else _eager

        def run(layer: int) -> Tensor:
            keys, values = caches[layer]
            return _rows(attend(query, keys, values, block_mask=mask, scale=data.scale, enable_gqa=True))

        return run


def _eager(*arguments: Any, **options: Any) -> Tensor:
    """Run flex_attention as it is: on a CPU, where it warns that this is slow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out: Tensor = flex_attention(*arguments, **options)
    return out


def _paged_copy(data: CaseData, layer: int, paged: Any, tokens: int) -> tuple[Tensor, Tensor]:
    """Return the keys and values of a layer, [1, KV, tokens, D] each, where the page table of flex has them."""
    keys, values = data.dense(layer, 0), data.dense(layer, 1)
    requests, heads, length, width = keys.shape
    shape = (1, heads, tokens, width)
    cache = keys.new_zeros(shape), values.new_zeros(shape)
    positions = torch.arange(length, device=keys.device).expand(requests, length)
    paged.assign(torch.arange(requests, device=keys.device), positions, keys, values, *cache)
    return cache


def batched(data: CaseData) -> Tensor:
    """Return the query as [requests, H, c, D]; Unsupported where the requests differ."""
    if not data.case.uniform:
        raise Unsupported("takes only batches of requests that are alike")
    c, _ = data.case.work[0]
    return data.query.view(-1, c, *data.query.shape[1:]).transpose(1, 2)


def _rows(out: Tensor) -> Tensor:
    """Return [requests, H, c, D] as [rows, H, D], a view."""
    return out.transpose(1, 2).flatten(0, 1)


def one_line(error: BaseException) -> str:
    """Return the first line of an error, with its type."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else 'no message'}"
