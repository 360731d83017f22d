"""Attention kernels behind one interface: ours and torch's.

A peer prepares a case once, then runs layer after layer.
"""

from collections.abc import Callable
from dataclasses import dataclass

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


PEERS = {"sdpa": Peer("torch sdpa, dense", dense, copies=True)}
