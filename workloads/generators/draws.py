"""The distributions that requests are drawn from, each by its mean and standard deviation.

All use Python's `random.Random`. Tables in papers give two moments and no distribution; the choices are ours:
lognormal for the duration of a call (networks and people: a long tail), Gamma for lengths of contexts and numbers of
calls, geometric for what is known by its mean alone.
"""

from __future__ import annotations

import math
import random
from typing import NamedTuple


class Moments(NamedTuple):
    """A mean and a standard deviation."""

    mean: float
    deviation: float


def lognormal(draw: random.Random, moments: Moments) -> float:
    """Draw a number above 0."""
    variance = math.log1p((moments.deviation / moments.mean) ** 2)
    return draw.lognormvariate(math.log(moments.mean) - variance / 2, math.sqrt(variance))


def gamma(draw: random.Random, moments: Moments) -> float:
    """Draw a number of at least 0."""
    shape = (moments.mean / moments.deviation) ** 2
    return draw.gammavariate(shape, moments.mean / shape)


def count(draw: random.Random, moments: Moments) -> int:
    """Draw a whole number of at least 1: a Gamma variate above 1, rounded up or down at random, so the mean is exact.

    Rounding adds about 1/6 to the variance, which is taken off before; the deviation is exact within 2 %.
    """
    above = Moments(moments.mean - 1, math.sqrt(moments.deviation**2 - 1 / 6))
    return 1 + math.floor(gamma(draw, above) + draw.random())


def geometric(draw: random.Random, mean: float) -> int:
    """Draw a whole number of at least 1 (of mean 1 or more)."""
    if mean <= 1:
        return 1
    return 1 + math.floor(math.log(1 - draw.random()) / math.log(1 - 1 / mean))
