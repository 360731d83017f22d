"""Rigid instances: a schedule is one start time per request. When that is so, and the numbers that follow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvbound.errors import BadInput
from kvbound.instance import Instance, Request
from kvbound.schedule import Batch, Schedule

Array = npt.NDArray[np.int64]
Starts = dict[str, int]
"""The start of each request, in ticks after the first arrival."""

OBJECTIVES = ("total-flow-time", "weighted-flow-time", "total-ttft")
"""Sums over requests of a rate times the start plus a constant."""

MAX_TICKS = 100_000
"""The most ticks that all requests may take one after another: longer instances do not fit in arrays of ticks."""


def why_not_rigid(instance: Instance, objective: str) -> str | None:
    """Return why the schedules of `instance` are not start times, or None if they are (`docs/start_time.md`)."""
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
    def profile(self) -> Array:
        """Blocks by batch, as an array [length]."""
        return np.array(self.load, np.int64)


class Problem:
    """A rigid instance and an objective as kinds of requests and limits per tick."""

    def __init__(self, instance: Instance, objective: str) -> None:
        """Raises BadInput, with the reason, if the instance is not rigid."""
        reason = why_not_rigid(instance, objective)
        if reason is not None:
            raise BadInput(f"start-time needs requests that run from start to end: {reason}; use --formulation search")
        self.instance, self.objective = instance, objective
        self.arrival = min(request.arrival for request in instance.requests)
        self.kinds = self._kinds()
        machine = instance.machine
        most = sum(kind.count * kind.load[-1] for kind in self.kinds)
        self.memory = most if machine.block_limit is None else min(machine.block_limit, most)

    @property
    def counts(self) -> Array:
        """Requests by kind, [kinds]."""
        return np.array([kind.count for kind in self.kinds])

    @cached_property
    def loads(self) -> Array:
        """Blocks by kind and batch, the last one repeated, [kinds, longest]."""
        longest = max(kind.length for kind in self.kinds)
        return np.array([kind.load + (kind.load[-1],) * (longest - kind.length) for kind in self.kinds])

    @cached_property
    def limits(self) -> list[tuple[int, list[Array]]]:
        """What a tick offers, and what one request of each kind takes of it in its batches.

        First memory, in blocks; then those of the budgets (requests, tokens, prefill tokens) that could bind.
        """
        machine = self.instance.machine
        memory = (self.memory, [kind.profile for kind in self.kinds])
        first, later = ([np.eye(1, k.length, dtype=np.int64)[0] for k in self.kinds],
                        [np.ones(k.length, np.int64) for k in self.kinds])  # fmt: skip
        budgets = [
            (machine.batch_requests, later),
            (machine.batch_tokens, [b + (k.prompt - 1) * a for k, a, b in zip(self.kinds, first, later, strict=True)]),
            (machine.prefill_limit, [k.prompt * a for k, a in zip(self.kinds, first, strict=True)]),
        ]
        most = [sum(k.count * int(use.max()) for k, use in zip(self.kinds, uses, strict=True)) for _, uses in budgets]
        return [memory] + [(b, uses) for (b, uses), m in zip(budgets, most, strict=True) if b is not None and b < m]

    def value(self, starts: Starts) -> int:
        """Return the objective of these starts."""
        return sum(kind.cost(starts[id]) for kind in self.kinds for id in kind.ids)

    def schedule(self, starts: Starts) -> Schedule:
        """Return the batches: at every tick, those that have started and not ended."""
        work: dict[int, dict[str, int]] = defaultdict(dict)
        for kind in self.kinds:
            for id in kind.ids:
                for q in range(kind.length):
                    work[starts[id] + q][id] = kind.prompt if q == 0 else 1
        return Schedule(
            instance_sha256=self.instance.sha256,
            batches=tuple(Batch(start=self.arrival + tick, work=work[tick]) for tick in sorted(work)),
        )

    def _kinds(self) -> tuple[Kind, ...]:
        alike: dict[tuple[int, int, int, int], list[Request]] = defaultdict(list)
        for request in self.instance.requests:
            weight = request.weight if self.objective == "weighted-flow-time" else 1
            alike[request.output, request.prompt, weight, request.arrival - self.arrival].append(request)
        blocks = self.instance.machine.blocks
        return tuple(
            Kind(
                ids=tuple(request.id for request in requests),
                prompt=prompt,
                load=tuple(blocks(prompt + q) for q in range(output)),
                release=release,
                rate=weight,
                span=1 if self.objective == "total-ttft" else output,
            )
            for (output, prompt, weight, release), requests in sorted(alike.items(), key=lambda item: item[0])
        )
