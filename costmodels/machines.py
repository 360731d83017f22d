"""The machines that the papers measured on: tokens of KV on device and host, and the budgets of a batch.

The KV of the device is what the weights leave of 0.9 of its memory, in whole blocks, without activations:

    GPT-J-6B, one A100 with 40 GiB      0.9 x 40 GiB - 2 x 6,050,882,784 B = 26.55 GB at 448 KiB a token:  904 blocks
    Vicuna-13B, two of them         2 x 0.9 x 40 GiB - 2 x 13,015,864,320 B = 51.28 GB at 800 KiB a token:  978 blocks
"""

from fractions import Fraction

from costmodels.devices import DEVICES, GIB
from costmodels.models import MODELS, Model
from kvcore.errors import BadInput
from kvcore.instance import Machine

SHARE = Fraction(9, 10)  # of the memory, for weights and KV


def kv_capacity(
    model: Model, memory: int, block: int, *, devices: int = 1, share: Fraction = SHARE, where: str = "the device",
    windows: bool = True,
) -> int:  # fmt: skip
    """Return M in tokens: (share x devices x memory - weights) bytes in whole blocks. BadInput if none fits.

    Without `windows`, layers keep all KV.
    """
    room = int(share * devices * memory)
    tokens = whole_blocks(room - model.weight_bytes, model, block, windows)
    if tokens < 1:
        raise BadInput(
            f"{model.name} does not fit: its weights take {model.weight_bytes / 1e9:.1f} GB and a block of KV "
            f"{model.kv_bytes() * block / 1e9:.3g} GB, {where} has {room / 1e9:.1f} GB for both; "
            "take more devices (tp) or another one"
        )
    return tokens


def whole_blocks(size: int, model: Model, block: int, windows: bool = True) -> int:
    """Return the tokens of memory that `size` bytes hold in whole blocks."""
    unit = model.layout(block)[0] if windows or model.states else model.kv_bytes() + model.window_bytes
    return size // (unit * block) * block


BLOCK = 64  # tokens a block, as InferCept's attention kernels take them on an A100


def _infercept(model: Model, devices: int) -> Machine:
    return Machine(
        memory=kv_capacity(model, DEVICES["a100-40gb"].memory, BLOCK, devices=devices), block=BLOCK,
        host_memory=whole_blocks(128 * GIB, model, BLOCK), batch_tokens=384, evict=True, partial=True,
    )  # fmt: skip


GPT_J_6B = _infercept(MODELS["gpt-j-6b"], 1)  # GPT-J-6B on an A100 with 40 GiB: 57,856 tokens, 299,584 on the host

VICUNA_13B = _infercept(MODELS["vicuna-13b"], 2)
"""Vicuna-13B on two A100 with 40 GiB: 62,592 tokens, 167,744 on the host (swap space as for 6B)."""

INFERMAX_7B = Machine(memory=100_000, host_memory=0, batch_tokens=4096, evict=True)
"""INFERMAX's setting for Llama-2-7B: 100,000 tokens, 4,096 of them a batch, eviction by recomputation."""

INFERMAX_70B = INFERMAX_7B.replace(batch_tokens=16_384)  # the same for Llama-2-70B: 16,384 tokens a batch
