"""Requests in the order of a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class Listed(Ranked):
    """Figure 1's rule in a given order, such as that in which a schedule completes the requests.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: that of fcfs.
    Source: list scheduling; a means of local search.
    """

    name = "listed"
    rule = "in a given order; admitted as in fcfs"
    source = "list scheduling"

    def __init__(self, keys: Sequence[Any]) -> None:
        """Set the key of each request of the instance, in their order; the smallest goes first."""
        self.keys = keys

    def key(self, job: Job) -> Any:
        """Return its key."""
        return self.keys[job.index]
