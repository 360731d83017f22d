"""The paged KV cache: pools of blocks on device and host, and checksums.

A pool is block-major, [blocks, layers, 2, KV, BS, D]: a block of all layers is contiguous, so a run of blocks is one
copy; a layer is the view [blocks, 2, KV, BS, D] of the backend.
"""

import torch

from costmodels.models import Model
from gpu_validation.allocator import Piece

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def layer_groups(layers: int, parts: int) -> list[slice]:
    """Return this many groups of neighbouring layers."""
    return [slice(k * layers // parts, (k + 1) * layers // parts) for k in range(parts)]


class Cache:
    """The two pools; the host's is pinned where the device is a GPU."""

    def __init__(
        self, model: Model, blocks: int, host_blocks: int, block: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.block = block
        shape = (model.layers, 2, model.kv_heads, block, model.head_width)
        self.pool = torch.zeros((blocks, *shape), dtype=dtype, device=device)
        self.host = torch.zeros((host_blocks, *shape), dtype=dtype, pin_memory=device.type == "cuda")

    def randomize(self, seed: int) -> None:
        """Fill the device's pool with seeded normal numbers and the host's with zeros."""
        self.pool.normal_(generator=torch.Generator(self.pool.device).manual_seed(seed))
        self.host.zero_()

    def poison_all(self) -> None:
        """Make every number a NaN, so that a read before any write shows."""
        self.pool.fill_(float("nan"))
        self.host.fill_(float("nan"))

    def checksums(self, pieces: list[Piece]) -> list[int]:
        """Return an exact integer for each token of the pieces, in order, from the device's pool.

        The bits of the token's KV over all layers, as integers weighted by odd numbers of their place, summed modulo
        2**64: one changed bit always changes it.
        """
        sums: list[int] = []
        for piece in pieces:
            block = self.pool[piece.device, ..., piece.first : piece.last, :]
            bits = block.contiguous().view(_INTEGERS[block.element_size()]).long()
            numbers = bits.movedim(-2, 0).flatten(1)
            weights = 2 * torch.arange(numbers.shape[1], device=numbers.device) + 1
            sums += (numbers * weights).sum(1).tolist()
        return sums
