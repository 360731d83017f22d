"""A batch as a captured CUDA graph: one launch for all of its kernels, the next tokens included."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class BatchGraph:
    """What `run` launches, captured exactly; it has to read and write tensors that stay where they are.

    It shares its memory with the graphs captured before, so only one of them may run at a time: `last` is one that is
    still there. `keeps`: the logits that `run` returns stay until the next replay.
    """

    def __init__(self, run: Callable[[], Tensor], last: BatchGraph | None, keeps: bool) -> None:
        run()  # compiles what was not compiled yet, and takes the room that it needs
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=None if last is None else last._graph.pool()):
            logits = run()
        self._logits = logits if keeps else None

    def replay(self) -> Tensor | None:
        """Run the batch; return the logits, a copy, if they are kept."""
        self._graph.replay()
        return None if self._logits is None else self._logits.clone()
