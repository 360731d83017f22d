"""An instance as arrays: segments, rates and limits. Slots count from the first arrival."""

from functools import cached_property
from typing import Any

import numpy as np

from kvcore.instance import Instance, Request
from kvcore.metrics import weight
from solvers.neighbourhoods.destroy_repair import Requests
from solvers.neighbourhoods.insertion import DISCARD, FIRST, FREE, PRESERVE, SWAP, Grid

Array = Any
"""A numpy array of integers, or of floats where it says so."""

HANDLINGS = {"preserve": PRESERVE, "discard": DISCARD, "swap": SWAP, "free": FREE}


class InstanceArrays:
    """What the compiled search needs of an instance and an objective."""

    def __init__(self, instance: Instance, objective: str) -> None:
        requests, machine, most_parts = instance.requests, instance.machine, 24  # of a prefill
        self.origin = instance.first_arrival
        self.arrival = np.array([request.arrival - self.origin for request in requests])
        rows = [_segments(request) for request in requests]
        self.segments: Array = np.array([row for each in rows for row in each], np.int64)
        self.first: Array = np.cumsum([0, *map(len, rows)])
        """The segments of request i are the rows first[i] to first[i + 1] - 1."""
        self.rate: Array = np.array([float(weight(request, objective)) for request in requests])
        """What a slot of delay costs, as floats; exact values are the referee's."""
        self.by_first_token = objective == "total-ttft"
        self.area: Array = np.array([_area(each) for each in rows], float) / machine.block / self.rate
        spare = 8 + (24 if machine.evict else 1)  # changes of place in each call; runs between two evictions
        self.pieces = max(sum(2 * min(row[0], most_parts) + spare for row in each) for each in rows)
        """The most pieces that a request is kept in."""
        flags = machine.chunked, machine.pause, most_parts, machine.evict
        self.switches = machine.block, *map(int, flags)
        self.limits = _limits(instance)

    def grid(self, slots: int) -> Grid:
        """Return the slots, and what the machine allows in each."""
        return Grid(slots, *self.switches)

    @cached_property
    def requests(self) -> Requests:
        """The arrays as the compiled search takes them."""
        return Requests(self.arrival, self.segments, self.first, self.rate, self.by_first_token, self.area)

    def room(self, slots: int) -> Array:
        """Return the room of an empty schedule, resources by slots."""
        return np.repeat(self.limits[:, None], slots, axis=1)


def _segments(request: Request) -> list[tuple[int, int, int, int, int]]:
    context, rows = request.prompt, []
    duration, fresh, handling = 0, request.prompt, FIRST
    for segment in request.segments:
        rows.append((context, segment.decode, duration, fresh, handling))
        if segment.call is not None:
            duration, fresh = segment.call.duration, segment.call.returns + 1
            context, handling = context + segment.decode + segment.call.returns, HANDLINGS[segment.call.handling]
    return rows


def _area(rows: list[tuple[int, int, int, int, int]]) -> float:
    return float(sum(context * decode + decode * (decode - 1) // 2 for context, decode, *_ in rows))


def _limits(instance: Instance) -> Array:
    """Return the limits of a slot, and as much as all requests together can take: that is the limit where none is."""
    machine, requests = instance.machine, instance.requests
    tokens = sum(request.peak + 1 for request in requests)
    blocks = sum(machine.blocks(request.peak) for request in requests)
    most = np.array((blocks, tokens, tokens, tokens, len(requests)))
    limits = (
        machine.block_limit, machine.host_memory, machine.batch_tokens, machine.prefill_limit, machine.batch_requests
    )  # fmt: skip
    return np.array([m if limit is None else min(m, limit) for limit, m in zip(limits, most, strict=True)])
