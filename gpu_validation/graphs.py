"""Batches of decodes as captured CUDA graphs: one launch for all kernels of a batch, logits and next tokens included.

A graph is for a padded number of requests; a batch fills its static buffers in one copy. A row of padding reads the
scratch token, stores no KV (slot -1), belongs to no program (work -1) and writes its token to the scratch place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gpu_validation.backend import Layout
from gpu_validation.cache import Cache
from gpu_validation.clock import new_stream
from gpu_validation.model import Decoder, Inputs
from gpu_validation.sampling import choose

SIZES = (1, 2, 4, *range(8, 257, 8))
"""Numbers of requests that graphs are captured for."""


def padded_size(requests: int) -> int | None:
    """Return the smallest size of a graph that takes so many requests, None if there is none."""
    return next((size for size in SIZES if size >= requests), None)


class DecodeGraph:
    """One graph, and its static buffers. `fits` batches whose layout has its variant, and contexts up to `longest`.

    Without `captures`, for a device that is no GPU, the kernels are run one by one on the same buffers.
    """

    def __init__(
        self, decoder: Decoder, cache: Cache, history: Tensor, size: int, width: int, layout: Layout, sampler: str,
        seed: int, captures: bool, pool: Any = None,
    ) -> None:  # fmt: skip
        self.size, self.width = size, width
        self._room = room = -(-size // 4) * 4  # so that every buffer starts at a multiple of 16 bytes
        device = history.device
        programs = 0 if layout.work is None else room
        parts = [8 * room, room, 2 * programs, room * width]
        self._static = torch.zeros(sum(parts), dtype=torch.int32, device=device)
        rows, lengths, work, tables = torch.split(self._static, parts)
        places, positions, slots, targets = rows.view(torch.int64).view(4, room)[:, :size]
        starts = torch.arange(size + 1, dtype=torch.int32, device=device)
        static = replace(layout, starts=starts, lengths=lengths[:size], tables=tables.view(room, width)[:size],
                         work=None if layout.work is None else work.view(room, 2)[:size])  # fmt: skip
        self._run = partial(
            _decode, decoder, cache, history, Inputs(history, positions, slots, None, static), places, targets,
            sampler, seed,
        )  # fmt: skip
        self.logits = torch.empty(0)
        self.fill(self.packed(places[:0], positions[:0], slots[:0], targets[:0], _empty(layout)))
        self._replay: Callable[[], None] = self._eager
        self._graph: torch.cuda.CUDAGraph | None = None
        if captures:
            self._graph = self._capture(pool)
            self._replay = self._graph.replay

    def packed(self, places: Tensor, positions: Tensor, slots: Tensor, targets: Tensor, layout: Layout) -> Tensor:
        """Return what a batch writes into the static buffers: int64 [requests] each, and its layout; padded."""
        more = self._room - len(places)
        rows = torch.stack([
            functional.pad(column, (0, more), value=value)
            for column, value in ((places, 0), (positions, 0), (slots, -1), (targets, 0))
        ])  # fmt: skip
        tables = functional.pad(layout.tables, (0, self.width - layout.tables.shape[1], 0, more), value=-1)
        parts = [rows.flatten().view(torch.int32), functional.pad(layout.lengths, (0, more))]
        if layout.work is not None:
            parts.append(functional.pad(layout.work, (0, 0, 0, more), value=-1).flatten())
        return torch.cat([*parts, tables.flatten()])

    def fill(self, packed: Tensor) -> None:
        """Give the graph its next batch."""
        self._static.copy_(packed)

    def replay(self) -> Tensor:
        """Run the batch; return its logits [size, vocabulary], which the next one overwrites."""
        self._replay()
        return self.logits

    def _eager(self) -> None:
        self.logits = self._run()

    def _capture(self, pool: Any) -> torch.cuda.CUDAGraph:
        """Warm up on a side stream (which compiles the kernels), and capture."""
        side = new_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self.logits = self._run()
        return graph

    @property
    def pool(self) -> Any:
        """The memory pool, for graphs captured later: only one of them runs at a time."""
        return None if self._graph is None else self._graph.pool()


def _decode(
    decoder: Decoder, cache: Cache, history: Tensor, inputs: Inputs, places: Tensor, targets: Tensor, sampler: str,
    seed: int,
) -> Tensor:  # fmt: skip
    """Run one batch of decodes on static buffers; the next tokens go to `targets` of the history."""
    logits = decoder.forward(replace(inputs, tokens=history[places]), cache)
    history[targets] = choose(logits, targets, sampler, seed)
    return logits


def _empty(layout: Layout) -> Layout:
    """Return the layout without a request."""
    work = None if layout.work is None else layout.work[:0]
    return replace(layout, lengths=layout.lengths[:0], tables=layout.tables[:0], work=work)
