"""Requests of which a share makes no calls: InferCept's, with the calls of that share disabled (MARS, Appendix C.2)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

from kvcore.errors import BadInput
from kvcore.instance import Request, Segment
from workloads.generators.infercept import infercept


def mixed(draw: random.Random, tick: Fraction, n: int | None, *, share: Fraction = Fraction(1, 2)) -> Iterator[Request]:
    """Yield requests without end; each makes no calls with probability `share`, and is then called `plain`.

    Without its calls a request generates all its tokens in one segment, and nothing is returned.
    """
    if not 0 <= share <= 1:
        raise BadInput(f"--share, of requests without calls, is from 0 to 1, not {share}")
    return _mixed(draw, tick, n, float(share))


def _mixed(draw: random.Random, tick: Fraction, n: int | None, share: float) -> Iterator[Request]:
    for request in infercept(draw, tick, n):
        yield _without_calls(request) if draw.random() < share else request


def _without_calls(request: Request) -> Request:
    _, _, number = request.id.partition("-")
    return request.replace(id=f"plain-{number}", segments=(Segment(decode=request.output),))
