"""What the predictive policies of MARS and AugServe share: the next call of a request, and the machine they need."""

from __future__ import annotations

from typing import NamedTuple

from heuristics.job import Job
from kvcore.instance import Handling


class Coming(NamedTuple):
    """A call that is to come."""

    context: int
    """KV tokens that the request holds when it starts: what is known of it, and what it is believed to generate."""
    duration: int
    """Ticks."""
    returns: int
    """Tokens."""
    handling: Handling
    """What the instance asks for."""


NO_CALL = Coming(0, 0, 0, "preserve")
"""In the last segment of a request."""


def coming_call(job: Job) -> Coming:
    """Return the call that ends the segment of a ready request."""
    ahead, k = job.ahead, job.segment
    if k >= len(ahead.durations):
        return NO_CALL
    return Coming(job.known + job.left - 1, ahead.durations[k], ahead.returns[k], ahead.handlings[k])
