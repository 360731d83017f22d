"""What batches take beside the least that they could: the roofline of the measured device, and how far swaps hide.

The roofline is `costmodels.roofline`'s, with what the device was measured to do in place of published peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from costmodels.models import Model
from costmodels.roofline import compute_function, memory_function
from costmodels.rounding import longest
from costmodels.transfers import bandwidth_functions
from gpu_validation.calibration import Measured, Point
from kvcore.cost import Features

LINK = {"out": "device to host", "in": "host to device", "both": "both directions"}
"""The quantity of `bandwidth` that a swap's rate is measured against, by its direction."""


def floor_of(model: Model, rates: Mapping[str, float], size: int = 2) -> Callable[[Features], float]:
    """Return the roofline in seconds, the largest of memory, arithmetic and transfers.

    `rates` are `bandwidth.peaks` of the device: "read" bytes a second, "matmul" FLOP a second, and the link's two
    directions. `size` is the bytes of a number.
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

    `of_link` is the rate over that of one large pinned copy that way; `budget` the tokens that such a copy moves while
    the batch runs without the swap; `slowed` how much longer the batch takes with it, as a fraction. `hidden`, the part
    1 - (with - without) / alone, is None where the swap alone takes less time than the noise of the batch (between the
    10 and 90 % quantiles): nothing can be said then.
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
