"""Arrival ticks: all at once, a Poisson process, or bursts."""

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import repeat

from kvcore.errors import BadInput
from kvcore.instance import LIMIT

MOST = 10_000_000  # requests that a process may be expected to bring within its minutes


def arrivals(
    draw: random.Random,
    tick: Fraction,
    *,
    rate: Fraction | None,
    cv: Fraction | None = None,
    minutes: Fraction | None = None,
) -> Iterator[int]:
    """Yield arrival ticks, rounded up; without `rate` (per second) all are 0.

    Gaps are exponential, or, with `cv`, Gamma distributed with that coefficient of variation. The first request arrives
    after a gap, the last before `minutes` are over. BadInput, before the first is yielded: an argument is out of range,
    or needs a rate.
    """
    _check(rate, cv, minutes)
    return repeat(0) if rate is None else _process(draw, tick, float(rate), cv, minutes)


def _process(
    draw: random.Random, tick: Fraction, rate: float, cv: Fraction | None, minutes: Fraction | None
) -> Iterator[int]:
    shape = None if cv is None else float(1 / cv**2)
    seconds = Fraction(0)
    while True:
        gap = draw.expovariate(rate) if shape is None else draw.gammavariate(shape, 1 / (shape * rate))
        seconds += Fraction(gap)
        if minutes is not None and seconds >= 60 * minutes:
            return
        ticks = math.ceil(seconds / tick)
        if ticks > LIMIT:
            raise BadInput(f"arrivals at {rate:g} a second exceed {LIMIT} ticks of {tick} s; give a larger tick")
        yield ticks


def _check(rate: Fraction | None, cv: Fraction | None, minutes: Fraction | None) -> None:
    if rate is None and (cv is not None or minutes is not None):
        raise BadInput(f"--{'minutes' if cv is None else 'cv'} means nothing without --rate, the requests a second")
    if rate is not None and not Fraction(1, 10**6) <= rate <= 10**6:
        raise BadInput(f"the rate of arrivals is from 1/1000000 to 1000000 per second, not {rate}")
    if cv is not None and not Fraction(1, 10) <= cv <= 10:
        raise BadInput(f"the coefficient of variation of the gaps is from 1/10 to 10, not {cv}")
    if minutes is not None and not 0 < minutes <= 10**6:
        raise BadInput(f"arrivals go on for more than 0 and at most 1000000 minutes, not {minutes}")
    if rate is not None and minutes is not None and rate * 60 * minutes > MOST:
        raise BadInput(f"--rate {rate} for --minutes {minutes} makes more than {MOST} requests; give less of either")
