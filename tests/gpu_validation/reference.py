"""Decoding without a cache, one request at a time: what the engine's tokens are compared with.

Written apart from the engine: the whole context is computed anew for every token, with dense attention and rotary
embedding by complex numbers. Only the weights, and the tokens that are given, are the engine's.
"""

import torch
from torch import Tensor

from gpu_validation.model import EPSILON, ROTARY_BASE, Decoder
from gpu_validation.plan import EnginePlan


def decoded(decoder: Decoder, plan: EnginePlan, seed: int) -> dict[str, list[int]]:
    """Return the context of every request, its missing tokens generated greedily in fp64."""
    width, model = plan.width, decoder.model
    known = plan.history(model.vocabulary, seed).tolist()
    assert plan.trace is not None
    contexts = {}
    for r, request in enumerate(plan.trace.instance.requests):
        tokens = known[1 + r * width : 1 + r * width + request.peak + 1]
        for position, token in enumerate(tokens):
            if token < 0:
                tokens[position] = int(last_logits(decoder, tokens[:position]).argmax())
        contexts[request.id] = tokens
    return contexts


def last_logits(decoder: Decoder, tokens: list[int]) -> Tensor:
    """Return the logits after the last token of a context."""
    model, x = decoder.model, decoder.embedding[torch.tensor(tokens)].double()
    group = model.heads // model.kv_heads
    for layer in decoder.layers:
        heads = (normed(x) @ layer.qkv.double().T).reshape(len(tokens), -1, model.head_width)
        query, rest = heads[:, : model.heads], heads[:, model.heads :]
        key, value = rest[:, : model.kv_heads], rest[:, model.kv_heads :]
        query, key = turned(query), turned(key)
        mixed = [attended(query[:, h], key[:, h // group], value[:, h // group]) for h in range(model.heads)]
        x = x + torch.cat(mixed, dim=1) @ layer.output.double().T
        gate, up = (normed(x) @ layer.gate_up.double().T).tensor_split(2, dim=1)
        x = x + (gate / (1 + torch.exp(-gate)) * up) @ layer.down.double().T
    return decoder.head.double() @ (decoder.norm.double() * normed(x[-1]))


def normed(x: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPSILON)


def turned(x: Tensor) -> Tensor:
    """Rotate [tokens, heads, D]: number k of a head, and number k + D/2, by position * base ** (-2k / D)."""
    half = x.shape[2] // 2
    angles = torch.arange(len(x)).double()[:, None] * ROTARY_BASE ** (-torch.arange(half).double() / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.cat((turned.real, turned.imag), dim=-1)


def attended(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    scores = query @ key.T / query.shape[1] ** 0.5
    return torch.softmax(scores + torch.full_like(scores, float("-inf")).triu(1), dim=1) @ value
