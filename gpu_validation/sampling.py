"""The next token from the logits: greedy, or seeded Gumbel noise that depends on the place of the token alone."""

from __future__ import annotations

import torch
from torch import Tensor

from kvcore.errors import BadInput

SAMPLERS = ("greedy", "gumbel")


def choose(logits: Tensor, places: Tensor, sampler: str, seed: int) -> Tensor:
    """Return int64 [rows], the token for each row of logits [rows, vocabulary].

    `places` [rows] are those of the new tokens in the history: the noise of a token does not depend on what else is in
    its batch.
    """
    if sampler == "gumbel":
        logits = logits.double() + gumbel_noise(places, logits.shape[1], seed)
    return logits.argmax(-1)


def check_sampler(sampler: str) -> None:
    """BadInput for a sampler that is not in SAMPLERS."""
    if sampler not in SAMPLERS:
        raise BadInput(f"there is no sampler {sampler!r}; choose one of {', '.join(SAMPLERS)}")


def gumbel_noise(places: Tensor, vocabulary: int, seed: int) -> Tensor:
    """Return fp64 [rows, vocabulary], -log(-log(u)) with u hashed from (seed, place, token)."""
    tokens = torch.arange(vocabulary, device=places.device)
    key = _mixed(_mixed(places.long() + seed * 1_000_003)[:, None] + tokens)
    uniform = ((key >> 12) & (2**51 - 1)).double().add(0.5) / 2**51
    return -(-uniform.log()).log()


def _mixed(x: Tensor) -> Tensor:
    """Scramble int64 numbers: two rounds of multiply and shift (the shift is arithmetic, which does no harm here)."""
    for factor in (-0x61C8864680B583EB, -0x40A7B892E31B1A47):
        x = (x ^ (x >> 29)) * factor
    return x ^ (x >> 32)
