"""Rigid instances: a schedule is one start time per request. When that is so, and kinds of requests that are alike."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcore.instance import Instance, Request
from kvcore.metrics import weight

OBJECTIVES = ("total-flow-time", "weighted-flow-time", "total-ttft")
"""Sums over requests of a rate times the start plus a constant."""

MAX_TICKS = 100_000
"""The most ticks that all requests may take one after another: longer instances do not fit in arrays of ticks."""


def why_not_rigid(instance: Instance, objective: str) -> str | None:
    """Return why the schedules of `instance` are not start times, or None if they are (`docs/configurations.md`)."""
    machine = instance.machine
    reasons = {
        f"the objective {objective} is no sum over start times ({', '.join(OBJECTIVES)} are)":
            objective not in OBJECTIVES,
        "batches may last more than one tick": not instance.cost.always_one_tick,
        "requests make calls": any(request.calls for request in instance.requests),
        "prefills may be split (chunked)": machine.chunked,
        "KV may be evicted (evict)": machine.evict,
        "a running request may sit out (pause)": machine.pause,
        "prefill and decode cannot share a batch (no hybrid)": not machine.hybrid,
        "requests arrive at different ticks, and waiting while others hold memory may pay under total-ttft":
            _arrivals(instance) > 1 and objective == "total-ttft",
        "requests arrive at different ticks, and waiting while others hold memory may pay under token budgets":
            _arrivals(instance) > 1 and machine.prefill_limit is not None,
        f"the requests take more than {MAX_TICKS} ticks one after another":
            sum(request.output for request in instance.requests) + _wait(instance) > MAX_TICKS,
        "weights, prompts or requests are too many or too large":
            max(sum(r.weight for r in instance.requests) * MAX_TICKS, sum(r.peak for r in instance.requests)) > 1 << 30,
    }  # fmt: skip
    return next((reason for reason, applies in reasons.items() if applies), None)


def _arrivals(instance: Instance) -> int:
    return len({request.arrival for request in instance.requests})


def _wait(instance: Instance) -> int:
    arrivals = [request.arrival for request in instance.requests]
    return max(arrivals) - min(arrivals)


@dataclass(frozen=True)
class Kind:
    """Requests that are alike.

    `load[q]` blocks are occupied in batch q of each (from 0, non-decreasing). A start at t, not before `release`, costs
    `rate * (t - release + span)`.
    """

    ids: tuple[str, ...]
    prompt: int
    load: tuple[int, ...]
    release: int
    rate: int
    span: int

    @property
    def count(self) -> int:
        """How many requests there are of this kind."""
        return len(self.ids)

    @property
    def length(self) -> int:
        """Batches, and ticks, that one of them runs for."""
        return len(self.load)

    def cost(self, start: int) -> int:
        """Return what a start adds to the objective."""
        return self.rate * (start - self.release + self.span)

    @cached_property
    def profile(self) -> npt.NDArray[np.int64]:
        """Blocks by batch, as an array [length]."""
        return np.array(self.load, np.int64)


def kinds_of(instance: Instance, objective: str) -> tuple[Kind, ...]:
    """Return the kinds of a rigid instance; ticks count from the first arrival."""
    arrival = instance.first_arrival
    alike: dict[tuple[int, int, int, int], list[Request]] = defaultdict(list)
    for request in instance.requests:
        rate = int(weight(request, objective))
        alike[request.output, request.prompt, rate, request.arrival - arrival].append(request)
    blocks = instance.machine.blocks
    return tuple(
        Kind(
            ids=tuple(request.id for request in requests),
            prompt=prompt,
            load=tuple(blocks(prompt + q) for q in range(output)),
            release=release,
            rate=rate,
            span=1 if objective == "total-ttft" else output,
        )
        for (output, prompt, rate, release), requests in sorted(alike.items(), key=lambda item: item[0])
    )


def memory_of(instance: Instance, kinds: tuple[Kind, ...]) -> int:
    """Return the blocks of memory, at most what all requests could ever occupy together."""
    most = sum(kind.count * kind.load[-1] for kind in kinds)
    limit = instance.machine.block_limit
    return most if limit is None else min(limit, most)
