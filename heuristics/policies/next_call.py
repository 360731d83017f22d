"""What the predictive policies of MARS and AugServe share: the next call of a request, and the machine they need."""

from __future__ import annotations

from typing import NamedTuple

from heuristics.engine.job import Job
from kvcore.instance import Handling


class NextCall(NamedTuple):
    """A call that is to come."""

    context: int
    """KV tokens that the request holds when it starts: what is known of it, and what it is believed to generate."""
    duration: int
    """Ticks."""
    returns: int
    """Tokens."""
    handling: Handling
    """What the instance asks for."""


NO_CALL = NextCall(0, 0, 0, "preserve")
"""In the last segment of a request."""


def next_call(job: Job) -> NextCall:
    """Return the call that ends the segment of a ready request."""
    demand, k = job.demand, job.segment
    if k >= len(demand.durations):
        return NO_CALL
    return NextCall(job.known + job.remaining - 1, demand.durations[k], demand.returns[k], demand.handlings[k])
