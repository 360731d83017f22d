"""A batch as captured CUDA graphs: one launch for all kernels, the next tokens included."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Stages = Iterator[Tensor | None]  # runs a part of a batch at each step; the last gives the logits


class BatchGraph:
    """The launches of `run`, captured, a graph for each part; its tensors have to stay.

    All graphs share memory: only one may run at a time. `last` is an earlier one. `keeps`: logits stay until the next
    replay.
    """

    def __init__(self, run: Callable[[], Stages], last: "BatchGraph | None", keeps: bool, parts: int = 1) -> None:
        for _ in run():  # compiles what was not compiled yet, and takes the room that it needs
            pass
        stages, logits = run(), None
        self._graphs: list[torch.cuda.CUDAGraph] = []
        for _ in range(parts):
            before = self if self._graphs else last
            graph, pool = torch.cuda.CUDAGraph(), None if before is None else before._graphs[-1].pool()
            with torch.cuda.graph(graph, pool=pool):
                logits = next(stages)
            self._graphs.append(graph)
        self._logits = logits if keeps else None

    def replay(self) -> Stages:
        """Run the batch part by part; the last gives the logits, a copy if kept."""
        for graph in self._graphs[:-1]:
            graph.replay()
            yield None
        self._graphs[-1].replay()
        yield None if self._logits is None else self._logits.clone()
