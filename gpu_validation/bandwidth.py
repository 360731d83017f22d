"""What the device can do at most, measured: copying, reading, the link to the host, and matrix products.

A copy of n bytes reads and writes n: 2 n bytes. A kernel that only reads, as decode attention does, may be faster than
a copy, so reading is measured by itself, in two ways, of which the better counts. On a CPU this is a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gpu_validation.measure import REPEATS, cuda, interleaved, spread

GPU_BYTES, CPU_BYTES = 2**31, 2**22
LINK_BYTES = 2**29
"""Bytes of a buffer of the link; it is pinned."""
GPU_SIDE, CPU_SIDE = 8192, 128
"""Rows and columns of the matrices."""


@dataclass(frozen=True)
class Probe:
    """A quantity that can be measured: `amount` of `unit` in a run."""

    quantity: str
    unit: str
    amount: int
    run: Callable[[], object]


def bandwidths(device: torch.device, repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Measure all quantities; a row each, `per_second` in bytes or FLOP."""
    rows: list[dict[str, Any]] = []
    for probes in (_memory(device), _products(device), _link(device)):
        times = interleaved({probe.quantity: probe.run for probe in probes}, device, repeats)
        rows += [_row(probe, times[probe.quantity]) for probe in probes]
    return rows


def _row(probe: Probe, samples: Sequence[float]) -> dict[str, Any]:
    found = spread(samples)
    per_second = probe.amount / found["seconds_median"]
    return {
        "quantity": probe.quantity, "unit": probe.unit, "amount": probe.amount, "per_second": per_second, **found
    }  # fmt: skip


def peaks(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the rate of each quantity, the better of the two ways of reading as "read"."""
    rates = {row["quantity"]: float(row["per_second"]) for row in rows}
    reads = [rate for quantity, rate in rates.items() if quantity.startswith("read")]
    return {quantity: rate for quantity, rate in rates.items() if not quantity.startswith("read")} | (
        {"read": max(reads)} if reads else {}
    )


def _memory(device: torch.device) -> list[Probe]:
    size = GPU_BYTES if device.type == "cuda" else CPU_BYTES
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    half, other = source.chunk(2)
    return [
        Probe("copy", "bytes", 2 * size, lambda: target.copy_(source)),
        Probe("read, a sum", "bytes", size, source.sum),
        Probe("read, a dot product", "bytes", size, lambda: torch.dot(half, other)),
    ]


def _products(device: torch.device) -> list[Probe]:
    on_gpu = device.type == "cuda"
    side = GPU_SIDE if on_gpu else CPU_SIDE
    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    if on_gpu:
        left, right = left.bfloat16(), right.bfloat16()
    return [Probe("matmul", "FLOP", 2 * side**3, lambda: left @ right)]


def _link(device: torch.device) -> list[Probe]:
    on_gpu = device.type == "cuda"
    size = LINK_BYTES if on_gpu else CPU_BYTES
    on_host = [torch.zeros(size, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(2)]
    on_device = [torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2)]

    def bring() -> None:
        on_device[0].copy_(on_host[0], non_blocking=True)

    def send() -> None:
        on_host[1].copy_(on_device[1], non_blocking=True)

    def both() -> None:
        bring()
        send()

    return [
        Probe("host to device", "bytes", size, bring),
        Probe("device to host", "bytes", size, send),
        Probe("both directions", "bytes", 2 * size, _together(bring, send) if on_gpu else both),
    ]


def _together(*copies: Callable[[], None]) -> Callable[[], None]:
    """Return a run of the copies at once, a stream for each; the current stream waits for them."""
    streams = [cuda.Stream() for _ in copies]

    def run() -> None:
        current = cuda.current_stream()
        for stream, copy in zip(streams, copies, strict=True):
            stream.wait_stream(current)
            with cuda.stream(stream):
                copy()
        for stream in streams:
            current.wait_stream(stream)

    return run
