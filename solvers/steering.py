"""The index rule with R0 and `group` by windows of time, R and chunks by request, searched with a compiled run.

The run counts in floating point; the engine runs the result again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bounds.tuning import Options, option
from heuristics.policies.index import GROUP, Index, Marginal, Windows
from kvcore.features import COSTS, MACHINES, REQUESTS, SUMS, Feature, Takes, features
from kvcore.instance import LIMIT, Instance
from kvcore.metrics import weight
from solvers.steering_kernels import Costs, Limits, Requests, simulate

Array = Any


@dataclass(frozen=True)
class SteeringOptions(Options):
    """The index rule with R0 and `group` by windows of time."""

    windows: int = option(60, "windows of time that the first run is divided into")


TAKES = Takes((MACHINES | REQUESTS | COSTS | SUMS) - {Feature.BLOCKS, Feature.ONE_PHASE, Feature.NO_PAUSE})


def applies(instance: Instance, objective: str) -> bool:
    """Whether the run follows the rule: no calls, blocks of one token, evictions and pauses."""
    machine = instance.machine
    return machine.evict and machine.chunked and TAKES.missing(features(instance, objective)) is None


def steer(run: Runs, r0: float, draw: random.Random, go_on: Callable[[int], bool]) -> Index:
    """Return the rule with the best found from one R0, in seconds; `go_on` is asked before each run."""
    (best, last), options = run.once(r0), SteeringOptions.given()
    windows = options.windows
    n, window, most = len(run.prompt), last / windows, max(1, int(run.prompt.max()))
    logs = [np.full(windows, np.log(r0)), np.full(windows, np.log(GROUP)), np.zeros(n)]
    chunks = np.full(n, LIMIT)
    made = 1
    while go_on(made):
        made += 1
        others, parts, kind = logs.copy(), chunks, draw.randrange(4)
        # windows, one after another, that change at once, at the most
        first, size = draw.randrange(windows if kind < 2 else n), draw.randint(1, 8)
        if kind < 3:
            others[kind] = others[kind].copy()
            # the standard deviation of changes of the logarithms of R0, `group` and R
            others[kind][first : first + size] += draw.gauss(0.0, 0.7)
        else:
            parts = chunks.copy()
            parts[first] = draw.choice((LIMIT, int(run.prompt[first]), draw.randint(1, most)))
        value, _ = run(Windows(window, *np.exp(others[:2])), np.exp(others[2]), parts)
        if value <= best:
            best, logs, chunks = value, others, parts
    back = np.argsort(run.order)
    return Index(steps=Windows(window, *np.exp(logs[:2])), factors=np.exp(logs[2])[back], chunks=chunks[back])


class Runs:
    """Runs of the rule on an instance; its arrays are in the `order` of arrivals."""

    def __init__(self, instance: Instance, objective: str) -> None:
        marginal, machine, requests = Marginal(instance.cost), instance.machine, instance.requests
        self.costs = Costs(*(getattr(marginal, name).ravel() for name in Costs._fields))
        given = machine.memory, machine.batch_tokens, machine.prefill_limit, machine.batch_requests
        self.limits = Limits(*(LIMIT if limit is None else limit for limit in given))
        self.order = order = sorted(range(len(requests)), key=lambda i: requests[i].arrival)
        sizes = [(r.arrival - instance.first_arrival, r.prompt, r.output) for r in requests]
        self.arrival, self.prompt, self.output = np.array(sizes, np.int64)[order].T.copy()
        self.rate = np.array([float(weight(requests[i], objective)) for i in order])
        self.by_first, self.tick = objective == "total-ttft", float(instance.tick_seconds)

    def once(self, r0: float) -> tuple[float, float]:
        """Return the value, in ticks, and the last end, in seconds, with one R0, in seconds."""
        return self(Windows(LIMIT, np.array([r0]), np.array([GROUP])))

    def __call__(
        self, steps: Windows, factors: Array | None = None, chunks: Array | None = None
    ) -> tuple[float, float]:
        """Return the value, in ticks, and the last end, in seconds."""
        n = len(self.arrival)
        factors, chunks = np.ones(n) if factors is None else factors, np.full(n, LIMIT) if chunks is None else chunks
        jobs = Requests(self.arrival, self.prompt, self.output, factors, chunks)
        first, end = simulate(
            self.costs, self.limits, jobs, Windows(steps.seconds / self.tick, steps.r0 / self.tick, steps.group)
        )
        value = (self.rate * ((first if self.by_first else end) - self.arrival)).sum()
        return (float(value) if np.isfinite(end).all() else np.inf), float(end.max()) * self.tick
