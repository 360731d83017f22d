"""Swaps beside the work: copies between the pools, on a GPU in two streams, and their waits.

Runs of neighbouring blocks are one copy; a part of a block is a copy for each layer, side and head.

A transfer waits for all earlier batches, one in also for that out if its plan says so. Work waits for KV that it reads
or overwrites.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gpu_validation.allocator import Piece
from gpu_validation.cache import Cache, layer_groups
from gpu_validation.measure import DeviceClock, Mark

ALL = slice(None)


def runs(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    """Return the whole blocks among the pieces as few runs: (first on the device, first on the host, blocks)."""
    found: list[tuple[int, int, int]] = []
    for device, host in sorted((piece.device, piece.host) for piece in pieces if piece.whole):
        first, there, blocks = found[-1] if found else (-1, -1, 0)
        if found and (device, host) == (first + blocks, there + blocks):
            found[-1] = (first, there, blocks + 1)
        else:
            found.append((device, host, 1))
    return found


def copies(cache: Cache, pieces: list[Piece], layers: slice) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (device side, host side) of every copy, contiguous tensors of one shape."""
    for device, host, blocks in runs(pieces):
        if layers == ALL:
            yield cache.pool[device : device + blocks], cache.host[host : host + blocks]
        else:
            yield from ((cache.pool[device + k, layers], cache.host[host + k, layers]) for k in range(blocks))
    for piece in pieces:
        if not piece.whole:
            tokens = slice(piece.first, piece.last)
            sides = (cache.pool[piece.device, layers].flatten(0, 2), cache.host[piece.host, layers].flatten(0, 2))
            yield from zip(*(side[:, tokens].unbind() for side in sides), strict=True)


def move(cache: Cache, pieces: list[Piece], out: bool, layers: slice = ALL) -> None:
    """Copy the pieces between the pools, on the current stream."""
    for device, host in copies(cache, pieces, layers):
        source, target = (device, host) if out else (host, device)
        target.copy_(source, non_blocking=True)


@dataclass
class Swapper:
    """The transfers of a batch under way. The work waits for them by `wait`, and at its end by `end_batch`."""

    cache: Cache
    clock: DeviceClock
    streams: tuple[torch.cuda.Stream, torch.cuda.Stream] | None = None  # out, in; None on a CPU
    ends: dict[bool, Mark] = field(default_factory=dict)  # of the transfer out (True), and of the one in
    parts: list[Mark] = field(default_factory=list)  # the ends of the groups of layers of the last transfer

    def start(self, pieces: list[Piece], out: bool, after_out: bool = False, parts: int = 1) -> None:
        """Start a transfer to the host (`out`) or to the device, in this many groups of layers."""
        with self._on_stream(out):
            self.wait(out=after_out)
            self.parts = []
            for layers in layer_groups(self.cache.pool.shape[1], parts) if parts > 1 else [ALL]:
                move(self.cache, pieces, out, layers)
                self.parts.append(self.clock.mark())
            self.ends[out] = self.parts[-1]

    def _on_stream(self, out: bool) -> AbstractContextManager[object]:
        if self.streams is None:
            return nullcontext()
        stream = self.streams[0 if out else 1]
        stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(stream)

    def wait(self, *, out: bool = False, back: bool = False) -> None:
        """Let the current stream wait for the batch's transfers out and in."""
        for direction in [True] * out + [False] * back:
            self._wait_for(self.ends[direction])

    def wait_for_part(self, part: int) -> None:
        """Let the work wait for a group of layers of the last transfer in."""
        self._wait_for(self.parts[part])

    def end_batch(self) -> None:
        """Let the work wait for the transfers of this batch."""
        self.wait(out=True in self.ends, back=False in self.ends)
        self.ends.clear()

    def _wait_for(self, mark: Mark) -> None:
        if self.streams is not None:
            torch.cuda.current_stream().wait_event(mark)
