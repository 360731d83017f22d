"""Two requests at a time: batches hold both only while their contexts fit together.

Where every batch lasts one tick, a request alone is a chain of ticks: those until it arrives, from the first arrival
on; for each token ceil(n / C) batches for the n tokens that are new in it (1 without `chunked`), where the last one
generates it, with its whole context resident; and the ticks of calls.

**Theorem.** Let T(u, v) be the least number of steps from (0, 0) to (u, v), where a step takes one or both of two
requests to the next tick of their chains, but not both if these are batches that take more blocks together than the
device has. In every schedule the one with the chain of n ticks ends first, after t >= T(n, v) ticks for some v, and the
other no sooner than t + m - v, if its chain has m; or the other way round.

*Proof.* At the end of each tick of a schedule let u count what is over of a chain: all ticks of arrivals and calls that
have passed; of the batches for the next token those in which the request worked, but the last one, which is over when
the token is there. It worked on at least ceil(n / C) batches for that, so u never skips a tick, and is n when the
request ends. In one tick of the schedule each of u and v grows by at most 1, and both in batches only if both
requests work in the same one. There each has at least a block, and its whole context where it generates (R6).
Nothing follows the smaller end but what is left of the other chain. QED

Of more than two requests, each pair has such a bound, whatever the others do. Each request is in as many pairs as there
are others, so the bounds of all pairs, over that number, add up to one of all requests. A chain of total-ttft ends
with the first token.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kvcore.certificates.budget import Budget, InvalidCertificate, Work
from kvcore.certificates.proof import Proof
from kvcore.certificates.tokens import chain_of
from kvcore.features import CALLS, MACHINES, REQUESTS, SUMS, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value, least_value, scale_of, weight

ENDLESS = 2**60
"""Blocks, or tokens of a batch, where there is no limit."""


class Chain(NamedTuple):
    """The ticks of a request alone: blocks of each (0: no batch), and costs."""

    blocks: np.ndarray[Any, np.dtype[np.int64]]
    rate: int


class Pairs(Proof):
    """No two requests are faster than together; there are no numbers to propose."""

    kind: Literal["pairs"] = "pairs"
    takes: ClassVar = Takes(MACHINES | REQUESTS | CALLS | SUMS)
    argument: ClassVar = "each two requests work in one batch only while their contexts fit together"

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the sum of all pairs' bounds, over the pairs of each request."""
        spend(instance, objective, budget)
        requests, unit = instance.requests, scale_of(instance.requests, objective)
        chains = [chain(instance, request, objective, int(unit * weight(request, objective))) for request in requests]
        total = sum(least(one, other, _room(instance)) for one, other in combinations(chains, 2))
        before = sum(c.rate * (r.arrival - instance.first_arrival) for c, r in zip(chains, requests, strict=True))
        return least_value((Fraction(total, len(requests) - 1) - before) / unit, objective)


def spend(instance: Instance, objective: str, budget: Budget) -> None:
    """Count the work of all pairs; InvalidCertificate where it is too much, or proves nothing."""
    if len(instance.requests) < 2:
        raise InvalidCertificate("pairs of requests need two requests")
    sizes = sorted(_size(instance, request, objective) for request in instance.requests)
    rows = sum(size * (len(sizes) - 1 - k) for k, size in enumerate(sizes))
    cells = sum(one * other for one, other in combinations(sizes, 2))
    unit = scale_of(instance.requests, objective)
    if 4 * sizes[-1] * sum(unit * weight(request, objective) for request in instance.requests) >= 2**62:
        raise InvalidCertificate("numbers are too large to be added up")
    budget.spend("steps of pairs of requests", 2 * cells + 8 * Work.call * rows, 24 * sum(sizes))


def _size(instance: Instance, request: Request, objective: str) -> int:
    new, ticks, most = request.prompt, request.arrival - instance.first_arrival, _most(instance)
    for segment in request.segments:
        ticks += -(-new // most)
        if objective == "total-ttft":
            return ticks
        ticks += segment.decode - 1 + (segment.call.duration if segment.call else 0)
        new = 1 + (segment.call.returns if segment.call else 0)
    return ticks


def _most(instance: Instance) -> int:
    limit = instance.machine.batch_tokens if instance.machine.chunked else None
    return ENDLESS if limit is None else limit


def _room(instance: Instance) -> int:
    limit = instance.machine.block_limit
    return ENDLESS if limit is None else limit


def _runs(instance: Instance, request: Request, objective: str) -> list[tuple[int, int]]:
    """As (blocks, ticks) of like ticks; 0 blocks: no batch."""
    machine, context = instance.machine, 0
    alone = 1 in (machine.batch_requests, machine.batch_tokens)
    runs = [(0, request.arrival - instance.first_arrival)]
    for new, call in chain_of(request, objective):
        context += new
        batches = -(-new // _most(instance))
        last = _room(instance) if alone else machine.blocks(context)
        runs += [(last if alone else 1, batches - 1), (last, 1), (0, call)]
    return runs


def chain(instance: Instance, request: Request, objective: str, rate: int) -> Chain:
    """Return the ticks of a request alone."""
    blocks, ticks = zip(*_runs(instance, request, objective), strict=True)
    return Chain(np.repeat(np.array(blocks, dtype=np.int64), ticks), rate)


def least(one: Chain, other: Chain, most: int) -> int:
    """Return the least sum of two chains' ends, each times its rate, where `most` blocks fit."""
    if len(one.blocks) > len(other.blocks):
        one, other = other, one
    columns = np.arange(len(other.blocks) + 1)
    ahead = other.rate * len(other.blocks) + one.rate * (len(other.blocks) + len(one.blocks))  # nothing of one before
    steps, best, last = np.zeros(len(columns), dtype=np.int32), ahead, -1  # T(u, v) - v
    for u, blocks in enumerate(one.blocks.tolist(), 1):
        if blocks != last:
            last, apart = blocks, (other.blocks > most - blocks) & (blocks > 0) & (other.blocks > 0)
        now = steps + 1
        np.minimum(now[1:], steps[:-1] + apart, out=now[1:])
        steps = np.minimum.accumulate(now)
        end = int(steps[-1]) + len(columns) - 1
        best = min(best, other.rate * end + one.rate * (end + len(one.blocks) - u))
    ends = steps.astype(np.int64) + columns
    return min(best, int((one.rate * ends + other.rate * (ends + columns[-1] - columns)).min()))
