"""Attention kernels behind one interface: ours, and what torch brings. `library_peers` has FlashInfer and cuDNN.

A peer prepares a case once (tables, plans, and its own copy of the KV where it cannot read ours) and then runs layer
after layer. What it cannot do it says in one line.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from gpu_validation.attention_case import CaseData
from gpu_validation.backend import Backend

Run = Callable[[int], Tensor]
"""Layer -> result [rows, H, D]."""


class Unsupported(RuntimeError):
    """A peer cannot do a case, or is not here: one line."""


class Peer:
    """A kernel that is compared."""

    name: str
    copies = False
    """Whether it needs the KV in a layout of its own, beside ours."""

    def prepare(self, data: CaseData) -> Run:
        """Return what runs a layer of the case.

        Raises:
            Unsupported: it cannot do such a case, or does not run on such a device.
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
