"""No request is faster than it would be alone: the longest chain of batches and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kvbound.certificates.proof import Proof
from kvbound.chains import chains, least_times, least_work
from kvbound.instance import Instance, Request
from kvbound.metrics import Value, check_objective, weight


class Alone(Proof):
    """Each request takes at least its own batches, each of least duration, and its calls."""

    kind: Literal["alone"] = "alone"

    def value(self, instance: Instance, objective: str) -> Value:
        """Return what the objective is if no request waits for another."""
        all_chains = chains(instance)
        times = [least_times(instance, chain) for chain in all_chains]
        if check_objective(objective) == "busy-time":
            return least_work(instance) * max(chain.batches for chain in all_chains)
        if objective == "makespan":
            return max(request.arrival + time[-1] for request, time in zip(instance.requests, times, strict=True))
        if objective == "max-flow-time":
            return max(time[-1] for time in times)
        if objective == "late-requests":
            return sum(is_late_alone(request, time) for request, time in zip(instance.requests, times, strict=True))
        counted = 1 if objective == "total-ttft" else -1
        return sum(weight(r, objective) * time[counted] for r, time in zip(instance.requests, times, strict=True))

    @property
    def why(self) -> str:
        """The argument in words."""
        return "no request is faster than alone: its batches, each of least duration, and its calls"


def is_late_alone(request: Request, least: Sequence[int]) -> bool:
    """Whether an SLO is exceeded even alone; `least[q]` ticks pass at the least until token q."""
    slo, first, last = request.slo, least[1], least[-1]
    return slo is not None and (
        (slo.ttft is not None and first > slo.ttft)
        or (slo.latency is not None and last > slo.latency)
        or (slo.tpot is not None and last - first > slo.tpot * (request.output - 1))
        or (slo.normalized_latency is not None and last > slo.normalized_latency * request.output)
    )
