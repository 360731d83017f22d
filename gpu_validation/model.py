"""A Llama-like decoder with seeded random weights: RMS norm, grouped queries, rotary embedding, gated feed-forward.

Logits have a standard deviation of about 1, so that greedy decoding does not cycle.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from costmodels.models import Model
from gpu_validation.backend import Layout, TorchBackend
from gpu_validation.cache import Cache, layer_groups

EPSILON = 1e-5
ROTARY_BASE = 500_000.0
ON_HOST = 50_000_000  # models of at most this many parameters get the same weights on every device, drawn on the host


@dataclass
class Inputs:
    """A batch for the decoder, all on the device; rows as in `Layout`."""

    tokens: Tensor  # int64 [rows]
    positions: Tensor
    slots: Tensor  # where the KV of each row goes, -1: nowhere
    sampled: Tensor | None  # rows whose logits are wanted; None: all of them
    layout: Layout


@dataclass
class _Layer:
    attention_norm: Tensor
    qkv: Tensor  # [(H + 2 KV) D, width]: queries, keys and values in one product
    output: Tensor
    hidden_norm: Tensor
    gate_up: Tensor  # [2 hidden, width]
    down: Tensor


class Decoder:
    """The decoder on the backend's device; arithmetic on activations is the backend's."""

    def __init__(self, model: Model, backend: TorchBackend, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> None:
        self.model, self.backend, self.dtype = model, backend, dtype
        device = torch.device("cpu") if parameters(model) <= ON_HOST else backend.device
        self._generator = torch.Generator(device).manual_seed(seed)
        d, head = model.width, model.head_width
        self.embedding = self._normal(model.vocabulary, d, d)
        self.layers = [
            _Layer(
                attention_norm=self._ones(),
                qkv=self._normal((model.heads + 2 * model.kv_heads) * head, d, d),
                output=self._normal(d, model.heads * head, model.heads * head),
                hidden_norm=self._ones(),
                gate_up=self._normal(2 * model.hidden, d, d),
                down=self._normal(d, model.hidden, model.hidden),
            )
            for _ in range(model.layers)
        ]
        self.norm = self._normal(1, d, 1)[0].sign()  # signs keep a tied head from choosing the same token again
        self.head = self.embedding if model.tied else self._normal(model.vocabulary, d, d)
        self.angles = rotary_angles(1, head, backend.device)
        self._wide_head: Tensor | None = None

    def _normal(self, rows: int, columns: int, fan_in: int) -> Tensor:
        drawn = torch.randn(rows, columns, generator=self._generator, device=self._generator.device)
        scaled: Tensor = drawn / fan_in**0.5
        return scaled.to(device=self.backend.device, dtype=self.dtype)

    def _ones(self) -> Tensor:
        return torch.ones(self.model.width, device=self.backend.device, dtype=self.dtype)

    def reach(self, positions: int) -> None:
        """Make the table of angles reach this many positions."""
        self.angles = rotary_angles(positions, self.model.head_width, self.backend.device)

    def forward(self, inputs: Inputs, cache: Cache, parts: int = 1) -> Iterator[Tensor | None]:
        """Run the rows, store their KV, and give the logits [sampled, vocabulary], fp32 (fp64 for an fp64 model).

        It runs in this many groups of layers, and gives None after each but the last.
        """
        backend, residual, groups = self.backend, None, layer_groups(len(self.layers), parts)
        x = functional.embedding(inputs.tokens, self.embedding)  # which takes no -1: a token that was never written
        for number, layer in enumerate(self.layers):
            if number and any(group.start == number for group in groups):
                yield None
            x, residual = backend.rms_norm(x, layer.attention_norm, EPSILON, residual)
            x = self._attention(x, layer, inputs, cache.pool[:, number])
            x, residual = backend.rms_norm(x, layer.hidden_norm, EPSILON, residual)
            x = backend.linear(backend.silu_mul(backend.linear(x, layer.gate_up)), layer.down)
        if inputs.sampled is not None:
            x, residual = x[inputs.sampled], None if residual is None else residual[inputs.sampled]
        x, _ = backend.rms_norm(x, self.norm, EPSILON, residual)
        yield self._logits(x)

    def _attention(self, x: Tensor, layer: _Layer, inputs: Inputs, kv: Tensor) -> Tensor:
        model = self.model
        heads = [model.heads, model.kv_heads, model.kv_heads]
        qkv = self.backend.linear(x, layer.qkv).view(-1, sum(heads), model.head_width)
        query, key, value = torch.split(qkv, heads, dim=1)
        query = self.backend.store_kv(query, key, value, kv, inputs.slots, inputs.positions, self.angles)
        mixed = self.backend.attention(query, kv, inputs.layout, model.head_width**-0.5)
        return self.backend.linear(mixed.flatten(1), layer.output)

    def _logits(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float32, torch.float64):
            return self.backend.linear(x, self.head)
        if x.is_cuda and not self.backend.strict:
            return torch.mm(x, self.head.t(), out_dtype=torch.float32)
        if self._wide_head is None:
            self._wide_head = self.head.float()
        return self.backend.linear(x.float(), self._wide_head)


def parameters(model: Model) -> int:
    """Return the number of weights without norms."""
    return model.layer_matrices + (1 if model.tied else 2) * model.head_matrix


def rotary_angles(positions: int, head_width: int, device: torch.device) -> Tensor:
    """Return fp32 [positions, D]: cosines of the angles of each position, then their sines."""
    frequency = ROTARY_BASE ** -(torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    return torch.cat((angle.cos(), angle.sin()), dim=1).float().to(device)
