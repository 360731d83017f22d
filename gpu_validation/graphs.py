"""A batch as a captured CUDA graph: one launch for all of its kernels, the next tokens included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gpu_validation.clock import new_stream


class BatchGraph:
    """What `run` launches, captured exactly; it has to read and write tensors that stay where they are.

    Graphs of one `pool` share memory, so only one of them may run at a time. `keeps`: the logits that `run` returns
    stay until the next replay; otherwise other graphs use their memory, too.
    """

    def __init__(self, run: Callable[[], Tensor], pool: Any, keeps: bool) -> None:
        side = new_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # compiles what was not compiled yet, and takes the room that it needs
            run()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            logits = run()
        self._logits = logits if keeps else None

    def replay(self) -> Tensor | None:
        """Run the batch; return the logits, a copy, if they are kept."""
        self._graph.replay()
        return None if self._logits is None else self._logits.clone()
