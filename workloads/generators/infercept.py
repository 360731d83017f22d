"""Augmented requests of six types, with the moments of InferCept's Table 1 (MARS and LAMPS repeat it).

Every type is equally likely, as in InferCept's mixture. The table gives no lengths between the calls: those are the
means of the released mixture (`kvbound import infercept`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

from kvcore.instance import Request
from workloads.generators.calls import CallType
from workloads.generators.draws import Moments

TYPES = {
    "math": CallType(Moments(9e-5, 6e-5), Moments(3.75, 1.3), Moments(1422, 738), 125, 21),
    "qa": CallType(Moments(0.69, 0.17), Moments(2.52, 1.73), Moments(1846, 428), 183, 57),
    "ve": CallType(Moments(0.09, 0.014), Moments(28.18, 15.2), Moments(2185, 115), 4, 9),
    "chat": CallType(Moments(28.6, 15.6), Moments(4.45, 1.96), Moments(753, 703), 114, 40),
    "image": CallType(Moments(20.03, 7.8), Moments(6.91, 3.93), Moments(1247, 792), 33, 18),
    "tts": CallType(Moments(17.24, 7.6), Moments(6.91, 3.93), Moments(1251, 792), 33, 18),
}
"""Seconds of a call, calls of a request, context at a call (InferCept, Table 1); decode and returned tokens."""


def infercept(draw: random.Random, tick: Fraction, n: int | None) -> Iterator[Request]:
    """Yield requests of the six types without end."""
    names, number = tuple(TYPES), 0
    while True:
        number += 1
        name = names[draw.randrange(len(names))]
        yield TYPES[name].request(f"{name}-{number}", draw, tick)
