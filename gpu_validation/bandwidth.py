"""Measured limits of the device: copying, reading, the link to the host, and matrix products.

A copy of n bytes counts 2 n. Reading alone, as in decode attention, is measured in two ways; the better counts. On a
CPU: a dry run.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import torch

from costmodels.models import Model
from costmodels.roofline import compute_function, memory_function
from costmodels.rounding import longest
from costmodels.transfers import bandwidth_functions
from gpu_validation.calibration import Measured, Point
from gpu_validation.measure import REPEATS, cuda, interleaved, spread
from kvcore.cost import Features

GPU_BYTES, CPU_BYTES = 2**31, 2**22
LINK_BYTES = 2**29  # bytes of a buffer of the link; it is pinned
GPU_SIDE, CPU_SIDE = 8192, 128  # rows and columns of the matrices


class Probe(NamedTuple):
    """A quantity to measure: `amount` of `unit` in a run."""

    quantity: str
    unit: str
    amount: int
    run: Callable[[], object]


def bandwidths(device: torch.device, repeats: int = REPEATS) -> list[dict[str, Any]]:
    """Measure all quantities; a row each, `per_second` in bytes or FLOP."""
    rows: list[dict[str, Any]] = []
    for probes in (_memory(device), _products(device), _link(device)):
        times = interleaved({probe.quantity: probe.run for probe in probes}, device, repeats)
        for probe in probes:
            found = spread(times[probe.quantity])
            rate = {"per_second": probe.amount / found["seconds_median"]}
            rows.append({"quantity": probe.quantity, "unit": probe.unit, "amount": probe.amount, **rate, **found})
    return rows


def peaks(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the rate of each quantity, the better of the two ways of reading as "read"."""
    rates: dict[str, float] = {}
    for row in rows:
        quantity = row["quantity"].partition(",")[0]
        rates[quantity] = max(row["per_second"], rates.get(quantity, 0.0))
    return rates


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

    streams = [cuda.Stream() for _ in range(2)] if on_gpu else []

    def bring() -> None:
        on_device[0].copy_(on_host[0], non_blocking=True)

    def send() -> None:
        on_host[1].copy_(on_device[1], non_blocking=True)

    return [
        Probe("host to device", "bytes", size, bring),
        Probe("device to host", "bytes", size, send),
        Probe("both directions", "bytes", 2 * size, partial(_together, streams, (bring, send))),
    ]


def _together(streams: Sequence[Any], copies: Sequence[Callable[[], None]]) -> None:
    for stream, copy in zip_longest(streams, copies):
        if stream is not None:
            stream.wait_stream(cuda.current_stream())
        with cuda.stream(stream):
            copy()
    for stream in streams:
        cuda.current_stream().wait_stream(stream)


LINK = {"out": "device to host", "in": "host to device", "both": "both directions"}
"""The quantity that a swap's rate is measured against, by its direction."""


def floor_of(model: Model, rates: Mapping[str, float], size: int = 2) -> Callable[[Features], float]:
    """Return the roofline in seconds, the largest of memory, arithmetic and transfers.

    `rates` are `bandwidth.peaks`: "read" bytes a second, "matmul" FLOP a second, and the link's two directions. `size`
    is the bytes of a number.
    """
    reading = Fraction(rates["read"]) * Fraction(2, size)  # the roofline counts 2 bytes a number
    links = [bandwidth_functions(model.kv_bytes(size), Fraction(rates[LINK[way]])) for way in ("out", "in")]
    functions = (
        memory_function(model, reading), compute_function(model, Fraction(rates["matmul"])), links[0][0], links[1][1],
    )  # fmt: skip
    return lambda features: float(longest(functions, features))


def swap_rows(
    measured: Sequence[Measured], model: Model, rates: Mapping[str, float], size: int = 2
) -> list[dict[str, Any]]:
    """Return a row for each swap beside work: alone, with and without it, the rate alone, the hidden part.

    `of_link` is the rate over that of one large pinned copy that way; `budget` the tokens of such a copy while the
    batch runs without the swap; `slowed` the fraction by which the swap lengthens the batch. `hidden` = 1 - (with -
    without) / alone is None where the swap alone takes less than the noise of the batch (between the 10 and 90 %
    quantiles).
    """
    runs = {(found.point.work, found.point.swap_out, found.point.swap_in): found for found in measured}
    rows, token_bytes = [], model.kv_bytes(size)
    for found in measured:
        point = found.point
        alone, without = runs.get(((), point.swap_out, point.swap_in)), runs.get((point.work, 0, 0))
        directions = (point.swap_out > 0) + (point.swap_in > 0)
        if not point.work or not directions or alone is None or without is None:
            continue
        direction = "both" if directions == 2 else "out" if point.swap_out else "in"
        link, rate = rates[LINK[direction]], token_bytes * (point.swap_out + point.swap_in) / alone.seconds
        hidden = 1 - (found.seconds - without.seconds) / alone.seconds
        rows.append({
            "direction": direction, "tokens": max(point.swap_out, point.swap_in), "beside": Point("", point.work).name,
            "alone": alone.seconds, "without": without.seconds, "together": found.seconds, "bytes_per_second": rate,
            "of_link": rate / link, "budget": int(without.seconds * link / (directions * token_bytes)),
            "hidden": hidden if alone.seconds > max(found.noise, without.noise) else None,
            "slowed": found.seconds / without.seconds - 1,
        })  # fmt: skip
    return rows
