"""Swaps beside the work: two streams of their own on a GPU, and which waits for which.

A transfer waits for the work before its batch (which read or wrote its blocks) and for the transfers that its plan
names. The work of a batch waits for the transfers that its plan names: those that bring the KV that it reads, and those
that have to leave a block before it is written again. On the CPU everything happens in order at once.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from gpu_validation.cache import Cache, layer_groups
from gpu_validation.measure import DeviceClock, Mark
from gpu_validation.movers import ALL, Mover
from gpu_validation.plan import Transfer


@dataclass
class Swapper:
    """The transfers of one replay. `out` and `back` make them, `wait` lets the work wait for them."""

    cache: Cache
    mover: Mover
    clock: DeviceClock
    streams: tuple[torch.cuda.Stream, torch.cuda.Stream] | None = None
    """Those for transfers out and in; None on the CPU."""
    marks: tuple[list[tuple[Mark, Mark]], list[tuple[Mark, Mark]]] = field(default_factory=lambda: ([], []))
    """Start and end of every transfer out, and of every transfer in."""
    parts: list[Mark] = field(default_factory=list)
    """The ends of the groups of layers of the last transfer in."""

    def start(self, transfer: Transfer, direction: int, parts: int = 1) -> None:
        """Start a transfer to the host (direction 0), or to the device (1), in so many groups of layers."""
        with self._on_stream(direction):
            self.wait(transfer.after_out, transfer.after_in)
            start = self.clock.mark()
            self.parts = []
            for layers in layer_groups(self.cache.pool.shape[1], parts) if parts > 1 else [ALL]:
                self.mover(self.cache, transfer.pieces, direction == 0, layers)
                self.parts.append(self.clock.mark())
            self.marks[direction].append((start, self.parts[-1]))

    def _on_stream(self, direction: int) -> AbstractContextManager[object]:
        """Make the stream of the direction the current one, behind all the work that was started so far."""
        if self.streams is None:
            return nullcontext()
        self.streams[direction].wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self.streams[direction])

    def wait(self, *numbers: int) -> None:
        """Let the current stream wait for the transfers out and in of these numbers and all before them (-1: none)."""
        for number, marks in zip(numbers, self.marks, strict=True):
            if number >= 0 and self.streams is not None:
                torch.cuda.current_stream().wait_event(marks[number][1])

    def wait_for_part(self, part: int) -> None:
        """Let the work wait for a group of layers of the last transfer in."""
        if self.streams is not None:
            torch.cuda.current_stream().wait_event(self.parts[part])

    def wait_for_all(self) -> None:
        """Let the work wait for all transfers started so far: synchronous swapping."""
        self.wait(*(len(marks) - 1 for marks in self.marks))

    def seconds(self) -> tuple[list[float], list[float]]:
        """Return the seconds of every transfer out and of every transfer in; only when all have happened."""
        out, back = ([self.clock.seconds(start, end) for start, end in marks] for marks in self.marks)
        return out, back
