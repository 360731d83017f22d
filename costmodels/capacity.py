"""How many tokens of KV fit: what the weights leave of a share of the memory, in whole blocks.

Activations and what else lies there are not counted: they are what the rest of the memory is for.
"""

from __future__ import annotations

from fractions import Fraction

from costmodels.models import Model
from kvcore.errors import BadInput

SHARE = Fraction(9, 10)
"""Of the memory, for weights and KV."""
WEIGHT = 2
"""Bytes a parameter, bf16 or fp16."""


def kv_capacity(
    model: Model, memory: int, block: int, *, devices: int = 1, share: Fraction = SHARE, where: str = "the device"
) -> int:
    """Return M in tokens: (share x devices x memory - 2 parameters) bytes in whole blocks. BadInput if none fits."""
    room = int(share * devices * memory)
    tokens = whole_blocks(room - WEIGHT * model.parameters, model, block)
    if tokens < 1:
        raise BadInput(
            f"{model.name} does not fit: its weights take {WEIGHT * model.parameters / 1e9:.1f} GB and a block of KV "
            f"{model.kv_bytes() * block / 1e9:.3g} GB, {where} has {room / 1e9:.1f} GB for both; "
            "take more devices (tp) or another one"
        )
    return tokens


def whole_blocks(size: int, model: Model, block: int) -> int:
    """Return the tokens of KV that `size` bytes hold in whole blocks."""
    return size // (model.kv_bytes() * block) * block
