"""Least memory over the batches that remain first."""

from __future__ import annotations

from typing import Any

from heuristics.engine.job import Job
from heuristics.policies.mc_sf import McSf


class MemoryArea(McSf):
    """As `mc-sf`, in order of the memory that a request needs over the batches left.

    Guarantee: nothing is known.
    Running time: as mc-sf.
    Source: Kong et al. (arXiv 2606.22327), smallest volume first; started as in MC-SF.
    """

    name = "memory-area"
    rule = "least memory over the batches left first, started as in mc-sf; running ones go on"
    source = "Kong et al. (arXiv 2606.22327): smallest volume first; started as in MC-SF"

    def key(self, job: Job) -> Any:
        """Return the KV held over the batches left, in tokens times batches, and the arrival."""
        demand = job.demand
        area = _area(job.known, job.remaining)
        for k in range(job.segment + 1, len(demand.decode)):
            area += _area(demand.end[k] - demand.decode[k] + 1, demand.decode[k])
        return area, job.arrival


def _area(known: int, outputs: int) -> int:
    return known * outputs + outputs * (outputs - 1) // 2
