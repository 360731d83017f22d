"""Marks in time: CUDA events on a GPU, read after everything has run, and the host's clock elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch

Mark = Any
"""What a clock notes: a CUDA event on the current stream, or seconds of the host's clock."""

new_event: Callable[..., torch.cuda.Event] = torch.cuda.Event
new_stream: Callable[..., torch.cuda.Stream] = torch.cuda.Stream


class DeviceClock:
    """The clock of a device. The CPU does one thing after another, so there the host's clock is enough."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"

    def mark(self) -> Mark:
        """Note that everything before this, on the current stream, is done."""
        if not self.on_gpu:
            return perf_counter()
        event = new_event(enable_timing=True)
        event.record()
        return event

    def seconds(self, start: Mark, end: Mark) -> float:
        """Return the seconds between two marks; only when both have happened."""
        return float(start.elapsed_time(end) / 1000 if self.on_gpu else end - start)

    def synchronize(self) -> None:
        """Wait for all that is under way on the device."""
        if self.on_gpu:
            torch.cuda.synchronize()
