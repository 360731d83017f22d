"""Rigid instances, whose schedules are one start time per request, and kinds of like requests."""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcore.features import Feature, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import weight

MAX_TICKS = 100_000
"""Most ticks of all requests in a row."""


RIGID = Takes(
    frozenset({
        Feature.MEMORY, Feature.BLOCKS, Feature.HOST, Feature.BATCH_TOKENS, Feature.PREFILL_TOKENS,
        Feature.BATCH_REQUESTS, Feature.PARTIAL, Feature.NO_PAUSE, Feature.ARRIVALS, Feature.WEIGHTS, Feature.SLO,
        Feature.TPOT, Feature.FLOW, Feature.WEIGHTED, Feature.TTFT,
    }),
    apart=frozenset({
        (Feature.ARRIVALS, Feature.TTFT), (Feature.ARRIVALS, Feature.BATCH_TOKENS),
        (Feature.ARRIVALS, Feature.PREFILL_TOKENS),
    }),
)  # fmt: skip
"""What schedules are start times for (`docs/configurations.md`): where requests arrive at different ticks,
waiting while others hold memory may pay under total-ttft, and under token budgets.
"""


def too_large(instance: Instance) -> str | None:
    """Return why arrays of ticks cannot hold an instance, or None."""
    requests = instance.requests
    if sum(request.output for request in requests) + _wait(instance) > MAX_TICKS:
        return f"the requests take more than {MAX_TICKS} ticks one after another"
    if max(sum(r.weight for r in requests) * MAX_TICKS, sum(r.peak for r in requests)) > 1 << 30:
        return "weights, prompts or requests are too many or too large"
    return None


def _wait(instance: Instance) -> int:
    arrivals = [request.arrival for request in instance.requests]
    return max(arrivals) - min(arrivals)


@dataclass(frozen=True)
class Kind:
    """Requests that are alike.

    Batch q (from 0) of each occupies `load[q]` blocks, non-decreasing. A start at t, not before `release`, costs
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
        """Requests of this kind."""
        return len(self.ids)

    @property
    def length(self) -> int:
        """Batches, and ticks, of each."""
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
    """Return the blocks of memory, at most the sum of all last loads."""
    most = sum(kind.count * kind.load[-1] for kind in kinds)
    limit = instance.machine.block_limit
    return most if limit is None else min(limit, most)
