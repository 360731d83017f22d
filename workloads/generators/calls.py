"""Requests with calls, from a table's durations, numbers of calls, and contexts at the calls.

Durations are lognormal, contexts and numbers of calls Gamma, or geometric where only the mean is known: our choice.
"""

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from kvcore.instance import LIMIT, Call, Request, Segment


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
    """Draw a whole number of at least 1: a Gamma variate above 1, rounded at random, so the mean is exact.

    The 1/6 that rounding adds to the variance is taken off before; the deviation is exact within 2 %.
    """
    above = Moments(moments.mean - 1, math.sqrt(moments.deviation**2 - 1 / 6))
    return 1 + math.floor(gamma(draw, above) + draw.random())


def geometric(draw: random.Random, mean: float) -> int:
    """Draw a whole number of at least 1 (of mean 1 or more)."""
    if mean <= 1:
        return 1
    return 1 + math.floor(math.log(1 - draw.random()) / math.log(1 - 1 / mean))


@dataclass(frozen=True)
class CallType:
    """Seconds of a call, calls of a request, KV tokens held when one starts; tokens between."""

    seconds: Moments
    calls: Moments
    context: Moments
    decode: float  # mean tokens generated before a call, or after the last one
    returns: float  # mean tokens that a call returns

    def request(self, id: str, draw: random.Random, tick: Fraction) -> Request:
        """Draw a request; `context` gives its mean context over its calls.

        Lengths between the calls are scaled down where that is too short for them.
        """
        calls = count(draw, self.calls)
        context = max(1, round(gamma(draw, self.context)))
        decodes, returns = self._lengths(draw, calls, context)
        durations = [min(LIMIT, math.ceil(Fraction(lognormal(draw, self.seconds)) / tick)) for _ in range(calls)]
        ends = [Call(duration=d, returns=r, handling="free") for d, r in zip(durations, returns, strict=True)]
        segments = [Segment(decode=d, call=end) for d, end in zip(decodes, [*ends, None], strict=True)]
        prompt = max(1, round(context - _mean_growth(decodes, returns)))
        return Request(id=id, prompt=prompt, segments=tuple(segments))

    def _lengths(self, draw: random.Random, calls: int, context: int) -> tuple[list[int], list[int]]:
        decodes = [geometric(draw, self.decode) for _ in range(calls + 1)]
        returns = [geometric(draw, self.returns + 1) - 1 for _ in range(calls)]
        shorter = context / max(context, _mean_growth(decodes, returns))
        if shorter < 1:
            decodes[:-1] = [max(1, math.floor(length * shorter)) for length in decodes[:-1]]
            returns = [math.floor(length * shorter) for length in returns]
        return decodes, returns


def _mean_growth(decodes: list[int], returns: list[int]) -> float:
    grown = accumulate(decode + back for decode, back in zip(decodes, [0, *returns], strict=True))
    return sum(list(grown)[: len(returns)]) / len(returns) - 1
