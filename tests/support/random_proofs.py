"""Random prices of slots, for tests: any of them must prove at most the optimum."""

from __future__ import annotations

import random
from typing import Any

from kvcore import Instance
from kvcore.certificates import Prices, Windows

PRICEABLE: dict[str, Any] = {"evict": False, "partial": False, "cost": "unit"}
"""What `tiny_instance` must fix so that prices of slots prove something."""


def random_prices(draw: random.Random, instance: Instance) -> Prices:
    """Draw prices of every row that has a limit, of some size, for some slots, and windows of any shape."""
    machine, scale, slots = instance.machine, draw.choice([1, 3, 16]), draw.randint(1, 25)
    most = draw.choice([1, 2, scale, 3 * scale])

    def row(limit: int | None) -> tuple[int, ...]:
        share = draw.random() * draw.choice([0, 1, 1])
        return () if limit is None else tuple(draw.randint(0, most) * (draw.random() < share) for _ in range(slots))

    return Prices(
        scale=scale, slots=slots, device=row(machine.block_limit), host=row(machine.host_memory),
        tokens=row(machine.batch_tokens), requests=row(machine.batch_requests),
        windows=tuple(random_windows(draw, instance).replace(price=row(1)) for _ in range(draw.choice([0, 1, 2]))),
    )  # fmt: skip


def random_windows(draw: random.Random, instance: Instance) -> Windows:
    """Draw a family of windows, without prices."""
    limit = instance.machine.block_limit or 1
    return Windows(
        most=draw.choice([1, 1, 2, 3]), shift=draw.randint(-2, limit + 1), reach=draw.randint(-2, limit), price=()
    )
